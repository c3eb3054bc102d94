"""Laws over the table: what a call leaves in the graph is what PyTorch's leaves there.

A result or an argument may be written before backward wherever PyTorch lets it: a gradient that is
made without the output must not save it. The gradient is then that of the values as they were. And
a gradient made with create_graph requires grad wherever PyTorch's does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, needs_peer, ours

import weft

# Where PyTorch's call leaves more freedom, and why weft's keeps its way.
KEPT = {
    ("cross_entropy", 0),  # saves the scores; PyTorch a copy of their size, the log_softmax
    ("matmul", 1),  # a vector times a batch: PyTorch has copied the batch
    ("polar", 1),  # saves the angle, so that the gradient is right at abs 0 too
}
# Gradients that PyTorch counts as functions of what they do not depend on.
CONSTANT = {
    "avg_pool1d", "adaptive_avg_pool1d", "adaptive_max_pool1d", "nll_loss",
    # of no elements
    "linear", "cummax", "cummin",
}  # fmt: skip


class Refused(Exception):
    """Backward found a saved value written to."""


class Call:
    """A sample called on tensors that are no leaves; those among its results with a gradient."""

    def __init__(self, lib: Any, f: Callable[..., Any], sample: str) -> None:
        self.lib, self.used = lib, []
        inputs = Inputs(lib, "float64", sample, grad=True)
        leaf = inputs.T

        def used(*sizes: int, **bounds: float) -> Any:
            self.used.append(leaf(*sizes, **bounds) * 1)
            return self.used[-1]

        inputs.T = used  # type: ignore[method-assign]
        outs = [t for t in inputs.run(f, sample) if getattr(t, "requires_grad", False)]
        self.leaves, self.outs = inputs.leaves, outs

    def shares(self) -> bool:
        """Whether a result is an argument or a view of one."""
        memory = [t.untyped_storage().data_ptr() for t in self.used if t.numel()]
        return any(out.untyped_storage().data_ptr() in memory for out in self.outs)

    def loss(self) -> Any:
        rng, total = np.random.default_rng(3), 0
        for out in self.outs:
            weight = self.lib.tensor(rng.standard_normal(out.shape), dtype=self.lib.float64)
            parts = self.lib.view_as_real(out).sum(-1) if out.is_complex() else out
            total = total + (parts * weight.reshape(parts.shape)).sum()
        return total

    def gradients(self) -> list[Any]:
        try:
            self.loss().backward()
        except RuntimeError as error:
            raise Refused from error
        return [None if x.grad is None else np.array(x.grad.tolist()) for x in self.leaves]


def after(lib: Any, f: Callable[..., Any], sample: str, write: Callable[[Call], Any]) -> list[Any]:
    call = Call(lib, f, sample)
    if not call.outs:
        return []
    try:
        write(call)
    except RuntimeError as error:  # of a view that must not be written
        raise Refused from error
    return call.gradients()


def tracked(name: str) -> bool:
    record = RECORDS[name]
    public = record["function"] or record["method"] or record["inplace"] or "call" in record
    return bool(public and (record["differentiable"] or record["composite"]))


TRACKED = [pytest.param(*case, id=i) for case, i in zip(CASES, IDS) if tracked(case[0])]


def agrees(
    torch: Any, name: str, sample: str, write: Callable[[Call], Any], scale: float, kept: bool
) -> None:
    f, peer = ours(RECORDS[name]), needs_peer(torch, name)
    try:
        found = after(weft, f, sample, write)
    except Refused:
        with pytest.raises(Refused):
            after(torch, peer, sample, write)
            assert kept, "PyTorch takes the write"
            raise Refused from None
        return
    call = Call(weft, f, sample)
    if call.shares():  # then the write changes both
        scale = 1
        try:
            expected = after(torch, peer, sample, write)
        except Refused:
            pytest.skip("PyTorch cannot write there")
    else:
        expected = call.gradients() if call.outs else []
    for a, b in zip(expected, found, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(b, scale * a, 1e-9, 1e-10, equal_nan=True)


@pytest.mark.parametrize(("name", "sample"), TRACKED)
def test_results_may_be_written(torch: Any, name: str, sample: str) -> None:
    def write(call: Call) -> None:
        for out in call.outs:
            out.mul_(2)

    agrees(torch, name, sample, write, 2, False)


@pytest.mark.parametrize("i", range(3))
@pytest.mark.parametrize(("name", "sample"), TRACKED)
def test_arguments_may_be_written_afterwards(torch: Any, name: str, sample: str, i: int) -> None:
    if sample.count("T(") <= i:
        pytest.skip("so many arguments")

    def write(call: Call) -> None:
        call.used[i].mul_(2)

    agrees(torch, name, sample, write, 1, (name, i) in KEPT)


@pytest.mark.parametrize(("name", "sample"), TRACKED)
def test_gradients_of_gradients_exist(torch: Any, name: str, sample: str) -> None:
    def wanting(lib: Any, f: Callable[..., Any]) -> list[bool]:
        call = Call(lib, f, sample)
        if not call.outs:
            return []
        found = lib.autograd.grad(call.loss(), call.leaves, create_graph=True, allow_unused=True)
        return [g is not None and g.requires_grad for g in found]

    f = needs_peer(torch, name)
    try:
        expected = wanting(torch, f)
    except RuntimeError:
        pytest.skip("PyTorch cannot differentiate this call")
    found = wanting(weft, ours(RECORDS[name]))
    less = [i for i, (a, b) in enumerate(zip(expected, found)) if a and not b]
    assert not less or name in CONSTANT, less
