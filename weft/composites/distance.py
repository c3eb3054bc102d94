"""Distances and norms. PyTorch's semantics."""

from __future__ import annotations

import math

import weft
from weft import _C
from weft._C import Tensor
from weft.base.forms import forms, method
from weft.composites.axes import wrap

__all__ = ["cdist", "dist", "norm_except_dim", "renorm"]


@method
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference.

    Tensors that broadcast give a 0-d tensor.

    >>> weft.dist(weft.tensor([3.0, 0.0]), weft.tensor([0.0, 4.0]))
    tensor(5.)
    """
    return (input - other).norm(p)


def _no_distance(x1: Tensor, x2: Tensor) -> str:
    """PyTorch's words for rows that cannot be compared."""
    for which, x in (("X1", x1), ("X2", x2)):
        if x.dim() < 2:
            return f"cdist only supports at least 2D tensors, {which} got: {x.dim()}D"
    return f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"


def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """The p-norm of the difference of each pair of rows: `(..., P, M), (..., R, M) -> (..., P, R)`.

    Euclidean distances of more than 25 rows of more than 32 numbers come from one product;
    `compute_mode` "donot_use_mm_for_euclid_dist" forbids that, "use_mm_for_euclid_dist" demands it.

    >>> weft.cdist(weft.tensor([[0.0, 0.0]]), weft.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    if x1.dim() < 2 or x2.dim() < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"[cdist] expected two stacks of rows of one size, got others ({_no_distance(x1, x2)})"
        )
    if not (x1.is_floating_point() and x2.is_floating_point()):
        raise RuntimeError(
            f"[cdist] expected floats, got {x1.dtype} and {x2.dtype} (cdist only supports "
            "floating-point dtypes)"
        )
    if not p >= 0:
        raise RuntimeError(f"[cdist] expected p of at least 0, got {p}")
    modes: dict[str, bool] = {
        "use_mm_for_euclid_dist_if_necessary": max(x1.shape[-2], x2.shape[-2]) > 25
        and x1.shape[-1] > 32,
        "use_mm_for_euclid_dist": True,
        "donot_use_mm_for_euclid_dist": False,
    }
    if compute_mode not in modes:
        raise ValueError(f"[cdist] expected one of {', '.join(modes)}, got {compute_mode!r}")
    fused = p in (1, 2, math.inf) and x1.is_floating_point() and x1.dtype == x2.dtype
    if fused and not (p == 2 and modes[compute_mode]):
        if x1.dim() == x2.dim() == 2:
            apart = _C.ops._pair_distances(x1.unsqueeze(0), x2.unsqueeze(0), p)
            return _C.ops._relaid(apart, (x1.shape[0], x2.shape[0]))
        lead = weft.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        a, b = (
            x.expand(*lead, *x.shape[-2:]).reshape(math.prod(lead), *x.shape[-2:]) for x in (x1, x2)
        )
        distances = _C.ops._pair_distances(a, b, p)
        return _C.ops._relaid(distances, (*lead, x1.shape[-2], x2.shape[-2]))
    if p != 2 or not modes[compute_mode]:
        return _C.ops.linalg_vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)
    squares = (x1 * x1).sum(-1, True) + (x2 * x2).sum(-1).unsqueeze(-2)
    squares = (squares - 2 * (x1 @ x2.transpose(-2, -1))).clamp(min=0)
    apart = squares != 0
    return weft.where(apart, weft.where(apart, squares, 1).sqrt(), 0)


@forms(method=True, inplace=True, out=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The input with slices along `dim` scaled down to a p-norm of at most `maxnorm`.

    Of the input's shape.

    >>> weft.renorm(weft.tensor([[3.0, 4.0], [0.0, 1.0]]), 2, 0, 1)
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    if input.dim() < 2:
        raise RuntimeError(f"[renorm] expected at least 2 dimensions, got {input.dim()}")
    if not p > 0:
        raise RuntimeError(f"[renorm] expected p above 0, got {p} (non-positive-norm)")
    if not maxnorm >= 0:
        raise RuntimeError(f"[renorm] expected maxnorm of at least 0, got {maxnorm}")
    dim = wrap("renorm", dim, input.dim())
    rest = [d for d in range(input.dim()) if d != dim]
    norms = _C.ops.linalg_vector_norm(input, p, rest, True)
    return input * weft.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dims but one, which stay as 1; over all for dim -1.

    [n, *] gives [n, 1, ...] with dim 0, and so on; a 0-d tensor with dim -1.

    >>> weft.norm_except_dim(weft.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5.],
            [1.]])
    """
    if dim == -1:
        return v.norm(pow)
    dim = wrap("norm_except_dim", dim, v.dim())
    if v.dim() == 1:
        return v.abs()
    rest = [d for d, _ in enumerate(v.shape) if d != dim]
    return weft.linalg.vector_norm(v, pow, rest, True)
