"""Results of what has no derivative are part of the graph, and backward through them raises."""

import re

import pytest

import weft

SYMMETRIC = [[2.0, 1.0], [1.0, 3.0]]
CASES = {
    "unique": lambda t, x: x.unique(),
    "unique counts": lambda t, x: t.unique(x, return_counts=True, return_inverse=True)[0],
    "unique dim": lambda t, x: t.unique(x, dim=0),
    "unique_consecutive": lambda t, x: x.unique_consecutive(),
    "histogram": lambda t, x: t.histogram(x.reshape(-1), 3)[0],
    "histogram edges": lambda t, x: t.histogram(x.reshape(-1), 3)[1],
    "histogramdd": lambda t, x: t.histogramdd(x, [2, 2])[0],
    "geqrf": lambda t, x: t.geqrf(x)[1],
    "ldl_factor": lambda t, x: t.linalg.ldl_factor(x)[0],
    "ldl_solve": lambda t, x: t.linalg.ldl_solve(x, t.tensor([1, 2], dtype=t.int32), x),
}


@pytest.mark.parametrize("name", CASES)
def test_backward_raises_as_pytorchs(torch, name):
    """They were detached: a loss that had a part of them trained without it, silently."""

    def run(lib, grad):
        x = lib.tensor(SYMMETRIC, requires_grad=grad)
        y = CASES[name](lib, x)
        if not y.requires_grad:
            return None
        try:
            (y.sum() + x.sum()).backward()
        except Exception as error:  # noqa: BLE001
            return type(y.grad_fn).__name__, type(error), re.sub(r"^\[.*?\] ", "", str(error))
        raise AssertionError("expected an error")

    got, expected = run(weft, True), run(torch, True)
    assert got[:2] == expected[:2]
    assert expected[2].splitlines()[0] in got[2]
    assert run(weft, False) is None
    with weft.no_grad():
        assert not CASES[name](weft, weft.tensor(SYMMETRIC, requires_grad=True)).requires_grad


def test_in_a_batch():
    def one(x):
        (x.unique().sum() + x.sum()).backward()

    with pytest.raises(NotImplementedError, match="_unique2"):
        weft.autobatch(one)([weft.ones(2, requires_grad=True)] * 3)
