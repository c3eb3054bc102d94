"""Householder's reflections: LAPACK's form of QR, and products with its Q."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor, return_types
from weft.base.checks import also_named
from weft.linalg.checks import expect_like, expect_matrix


def geqrf(input: Tensor) -> Any:
    """LAPACK's QR: R above the vectors of Householder's reflections, and their factors.

    Not differentiable, as PyTorch's; `householder_product` makes Q.

    A [..., m, n] gives [..., m, n] and [..., min(m, n)].

    >>> weft.geqrf(weft.tensor([[3.], [4.]])).a
    tensor([[-5.0000],
            [ 0.5000]])
    """
    return return_types.geqrf(*_C.ops._linalg_geqrf(input))


def _reflected(A: Tensor, tau: Tensor, X: Tensor, forward: bool, adjoint: bool) -> Tensor:
    """H1 H2 ... Hk X (or, not `forward`, Hk ... H1 X), Hi = 1 - tau v vᴴ or its adjoint."""
    V = A.tril(-1) + weft.eye(*A.shape[-2:], dtype=A.dtype, device=A.device)
    order = range(tau.shape[-1])
    for i in reversed(order) if forward else order:
        v = V[..., i : i + 1]
        factor = tau[..., i].unsqueeze(-1).unsqueeze(-1)
        X = X - (factor.conj() if adjoint else factor) * (v @ (v.mH @ X))
    return X


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of Householder's reflections: the Q of `geqrf`.

    Args:
        A: (..., m, n), m >= n: a reflection's vector in each column, below the diagonal.
        tau: (..., k), k <= n: their factors.

    Raises:
        RuntimeError: shapes that do not fit.

    >>> weft.linalg.householder_product(*weft.geqrf(weft.tensor([[3.], [4.]])))
    tensor([[-0.6000],
            [-0.8000]])
    """
    return _C.ops.linalg_householder_product(A, tau)


def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q @ other (other @ Q without `left`, Qᴴ with `transpose`) for the whole Q of `geqrf`.

    Raises:
        RuntimeError: shapes that do not fit.

    >>> weft.ormqr(*weft.geqrf(weft.tensor([[3.], [4.]])), weft.tensor([[1.], [0.]]))
    tensor([[-0.6000],
            [-0.8000]])
    """
    expect_matrix("ormqr", input)
    expect_like("ormqr", input, other)
    if tau.dim() != input.dim() - 1 or other.dim() != input.dim():
        raise RuntimeError(
            "[ormqr] expected tau of one dimension less than input and other of as many, got "
            f"{tuple(input.shape)}, {tuple(tau.shape)} and {tuple(other.shape)}"
        )
    if other.dim() < 2 or other.shape[-2 if left else -1] != input.shape[-2]:
        raise RuntimeError(
            f"[ormqr] expected sizes that fit, got {tuple(input.shape)} and {tuple(other.shape)} "
            "(other.shape must match input.shape[-2])"
        )
    count = min(input.shape[-2:])
    if tau.shape[-1:] != (count,):
        raise RuntimeError(
            f"[ormqr] expected {count} factors, got {tuple(tau.shape)} (tau.shape[-1] must be "
            "equal to min(other.shape[-2], input.shape[-1]))"
        )
    if not left:
        return _reflected(input, tau, other.mH, transpose, not transpose).mH
    return _reflected(input, tau, other, not transpose, transpose)


also_named(input2="tau")(householder_product)
also_named(input2="tau", input3="other")(ormqr)
