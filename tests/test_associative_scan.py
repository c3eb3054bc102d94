"""associative_scan beside PyTorch's, and beside the loop that it stands for."""

import pytest

import weft
from weft._higher_order_ops.associative_scan import associative_scan

FUNCTIONS = {
    "sum": lambda a, b: a + b,
    "first": lambda a, b: a,
    "larger": lambda a, b: a.maximum(b),
}


def affine(a, b):
    return {"m": a["m"] * b["m"], "c": a["c"] * b["m"] + b["c"]}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_gives_what_pytorchs_gives(torch, name, size, reverse):
    from torch._higher_order_ops.associative_scan import associative_scan as theirs

    f = FUNCTIONS[name]
    for dim in (0, 1, -1):
        shape = [2, 3, 4]
        shape[dim] = size
        x = weft.randn(*shape)
        ours = associative_scan(f, x, dim, reverse=reverse, combine_mode="generic")
        peer = theirs(f, torch.tensor(x.tolist()), dim, reverse=reverse, combine_mode="generic")
        weft.testing.assert_close(ours, weft.tensor(peer.tolist()))


def test_a_recurrence_over_a_tree_has_the_gradients_of_the_loop():
    m = weft.rand(5, 3, dtype=weft.float64, requires_grad=True)
    c = weft.rand(5, 3, dtype=weft.float64, requires_grad=True)
    scanned = associative_scan(affine, {"m": m, "c": c}, 0, combine_mode="generic")["c"]
    state, states = weft.zeros(3, dtype=weft.float64), []
    for k in range(5):
        state = state * m[k] + c[k]
        states.append(state)
    looped = weft.stack(states)
    weft.testing.assert_close(scanned, looped)
    weights = weft.rand(5, 3, dtype=weft.float64)
    ours = weft.autograd.grad((scanned * weights).sum(), (m, c))
    weft.testing.assert_close(ours, weft.autograd.grad((looped * weights).sum(), (m, c)))


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ((3, weft.ones(2), 0, False, "generic"), ValueError, "must be a callable"),
        ((max, weft.ones(2), 0), ValueError, "need to be on CUDA"),
        ((max, weft.ones(2), 0, False, "x"), ValueError, "but got x"),
        ((max, [], 0, False, "generic"), ValueError, "expected tensors"),
        ((max, weft.ones(2), 5, False, "generic"), IndexError, "Dimension out of range"),
        ((max, weft.ones(0, 2), 0, False, "generic"), ValueError, "scan dimension > 0"),
        ((max, (weft.ones(2), weft.ones(3)), 0, False, "generic"), ValueError, "one size"),
        ((lambda a, b: (a, b), weft.ones(2), 0, False, "generic"), AssertionError, "to give"),
    ],
)  # fmt: skip
def test_what_it_refuses(args, error, text):
    with pytest.raises(error, match=text):
        associative_scan(*args)
