"""Functions made of operators, beside PyTorch."""

import numpy as np
import pytest
from pairs import torch

import weft

EQUATIONS = [
    ("bij,bjk->bik", "AB"),
    ("bij,bjk", "AB"),
    ("ii", "M"),
    ("ii->i", "M"),
    ("ij->ji", "M"),
    ("i,j->ij", "VW"),
    ("i,i->", "VV"),
    ("...ij,...jk->...ik", "AB"),
    ("bij->", "A"),
    ("bij,j->bi", "AW"),
    ("i,ij,j->", "VMV"),
    ("...j->...", "A"),
    ("bij,bkj->ik", "AA"),
    ("...,...", "MM"),
    ("ij, kl -> ijkl", "MM"),
]
CALLS = [
    "t.trace(M)",
    "t.inner(A, W)",
    "t.baddbmm(t.ones(2, 3, 5), A, B, beta=0.5, alpha=2)",
    "t.addbmm(t.ones(3, 5), A, B)",
    "t.addmv(V, M, V)",
    "t.addr(M, V, V)",
    "t.aminmax(M, dim=1)",
    "t.logaddexp(M, M * 1000)",
    "t.logaddexp(t.tensor([-t.inf, t.inf]), t.tensor([-t.inf, 0.]))",
    "t.dist(M, V)",
    "t.diff(A, 2, 1)",
    "t.kron(M, V)",
    "t.tensor_split(W, 3)",
    "t.tensor_split(W, (1, 3, 2, -1, 9))",
    "t.bincount(t.tensor([0, 2, 2]), minlength=5)",
    "t.bincount(t.tensor([0, 2, 2]), t.tensor([1., 2., 4.]))",
    "t.unique(t.tensor([[3, 1], [3, 2]]), return_inverse=True, return_counts=True)",
    "t.unique(t.tensor([]), return_counts=True)",
]


def operands(lib):
    draw = np.random.default_rng(0).normal
    shapes = {"A": (2, 3, 4), "B": (2, 4, 5), "M": (3, 3), "V": 3, "W": 4}
    return {k: lib.tensor(draw(size=s).astype(np.float32)) for k, s in shapes.items()}


@pytest.mark.parametrize(("equation", "names"), EQUATIONS)
def test_einsum(equation, names):
    results = []
    for lib in (weft, torch):
        leaves = operands(lib)
        tensors = [leaves[n].requires_grad_() for n in names]
        out = lib.einsum(equation, *tensors)
        (out * out).sum().backward()
        results.append([out.detach().numpy(), *(t.grad.numpy() for t in tensors)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "call", [("ij,jk", "M"), ("ij", "A"), ("ij->ik", "M"), ("ij,jk->ik", "MW"), ("ij,jk->ik", "MA")]
)
def test_einsum_refuses(call):
    equation, names = call
    leaves = operands(weft)
    with pytest.raises(RuntimeError, match=r"\[einsum\] expected .+, got"):
        weft.einsum(equation, *(leaves[n] for n in names))


@pytest.mark.parametrize("program", CALLS)
def test_composites(program):
    ours, theirs = (eval(program, {"t": lib, **operands(lib)}) for lib in (weft, torch))
    ours, theirs = (r if isinstance(r, tuple) else (r,) for r in (ours, theirs))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        assert str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)
