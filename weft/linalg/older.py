"""Linear algebra under its older names: functions of `weft`, and methods of tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft import _C, Tensor
from weft.linalg import decompositions, products, systems
from weft.linalg.checks import expect_matrix

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "inverse", "logdet", "matrix_power",
    "pinverse", "qr", "slogdet", "svd",
]  # fmt: skip

det = systems.det
inverse = systems.inv
matrix_power = products.matrix_power
slogdet = systems.slogdet


class _SVD(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: nan where that is negative.

    >>> weft.logdet(weft.eye(2))
    tensor(0.)
    """
    sign, value = systems.slogdet(input)
    return value.masked_fill(sign < 0, float("nan"))


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudo-inverse; see `weft.linalg.pinv`."""
    return systems.pinv(input, rcond=rcond)


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """See `weft.linalg.cholesky`."""
    return decompositions.cholesky(input, upper=upper)


def qr(input: Tensor, some: bool = True) -> Any:
    """See `weft.linalg.qr`; `some=False` is its mode `"complete"`."""
    return decompositions.qr(input, "reduced" if some else "complete")


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """`(U, S, V)`, with V where `weft.linalg.svd` has Vh; `some`: only min(m, n) vectors.

    Without `compute_uv` U and V are zeros.
    """
    if not compute_uv:
        m, n = input.shape[-2:]
        batch = input.shape[:-2]
        zeros = [weft.zeros(*batch, k, k, dtype=input.dtype) for k in (m, n)]
        return _SVD(zeros[0], decompositions.svdvals(input), zeros[1])
    U, S, Vh = decompositions.svd(input, not some)
    return _SVD(U, S, Vh.mT)


def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The X with A X = input for the A whose Cholesky factor is L.

    >>> weft.cholesky_solve(weft.tensor([[4.]]), weft.tensor([[2.]]))
    tensor([[1.]])
    """
    expect_matrix("cholesky_solve", L, square=True)
    lower = L.mT if upper else L
    half = systems.solve_triangular(lower, input, upper=False)
    return systems.solve_triangular(lower.mT, half, upper=True)


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of the A whose Cholesky factor is L.

    >>> weft.cholesky_inverse(weft.tensor([[2.]]))
    tensor([[0.2500]])
    """
    expect_matrix("cholesky_inverse", L, square=True)
    eye = weft.eye(L.shape[-1], dtype=L.dtype).expand(L.shape)
    return cholesky_solve(eye, L, upper)


for _name in __all__:
    _C._extend(_name, globals()[_name])
