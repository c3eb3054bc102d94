"""Memory that runs out, at every allocation of every op, forward and backward.

The call raises, its inputs are as they were, nothing leaks, and without the failure it works.
"""

import gc

import pytest
from op_samples import RECORDS, Inputs, flat, ours

import weft
from weft import _C

FIRST = [(name, r["samples"][0]) for name, r in RECORDS.items() if r["samples"]]
MOST = 100  # allocations of one call


class Called(Exception):
    """The call of a sample is over: what the sample does with its result does not matter."""


def failing(n, call):
    """None if `call` allocates fewer than n times, else its error, as text."""
    _C._fail_allocation(n)
    try:
        call()
    except RuntimeError as error:
        return str(error)
    finally:
        _C._fail_allocation(0)


def state(tensors):
    return [(t._version, t.shape, t.stride(), repr(t.tolist())) for t in tensors]


def attempt(f, sample, n, backward):
    """Whether the n-th allocation was the one that failed, after all checks."""
    inputs = Inputs(weft, "float64", sample, grad=backward)
    failed = []

    def loss(out):
        parts = [t for t in flat(out) if isinstance(t, weft.Tensor) and t.requires_grad]
        return sum(t.abs().sum() for t in parts) if parts else None

    def run(*args, **kwargs):
        if backward:
            total = loss(f(*args, **kwargs))
            if total is None:
                raise Called
        given = inputs.made
        before = state(given)
        error = failing(n, total.backward if backward else lambda: f(*args, **kwargs))
        assert error is None or "[alloc] expected" in error, error
        assert state(given) == before
        failed.append(error is not None)
        raise Called

    try:
        inputs.run(run, sample)
    except Called:
        pass
    return failed == [True]


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize(("name", "sample"), FIRST, ids=[name for name, _ in FIRST])
def test_every_allocation_may_fail(name, sample, backward):
    f = ours(RECORDS[name])
    attempt(f, sample, MOST, backward)  # what a first call keeps, it keeps before the count
    gc.disable()
    try:
        before = _C._memory_stats()["current"]
        n = 1
        while attempt(f, sample, n, backward):
            assert _C._memory_stats()["current"] == before
            n += 1
        assert n < MOST
    finally:
        gc.enable()
