"""Factors with row swaps: LU and LDL."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft import _C, Tensor, return_types
from weft.linalg.checks import expect_matrix, raise_if_singular
from weft.return_types import printed_as_pytorchs


@printed_as_pytorchs
class linalg_lu_factor(NamedTuple):  # noqa: N801
    """The results of `lu_factor`."""

    LU: Tensor
    pivots: Tensor


@printed_as_pytorchs
class linalg_lu(NamedTuple):  # noqa: N801
    """The results of `lu`."""

    P: Tensor
    L: Tensor
    U: Tensor


@printed_as_pytorchs
class linalg_ldl_factor(NamedTuple):  # noqa: N801
    """The results of `ldl_factor`."""

    LD: Tensor
    pivots: Tensor


def _parts(LU: Tensor) -> tuple[Tensor, Tensor]:
    """L with its unit diagonal, and U."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    L = LU[..., :k].tril(-1)
    return L + weft.eye(m, k, dtype=LU.dtype, device=LU.device), LU[..., :k, :].triu()


def _permutation(pivots: Tensor, rows: int, dtype: _C.dtype) -> Tensor:
    return _C.ops._linalg_permutation(pivots, rows, dtype)


def _expect_pivoting(who: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(
            f"[{who}] expected pivot=True, got False ({who}: LU without pivoting is not "
            "implemented on the CPU)"
        )


def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> _C._LU_pivots_info:
    """As `lu_factor`, with the column of the first zero pivot or 0: `(LU, pivots, info)`.

    LU is [..., m, n], the pivots [..., min(m, n)] and `info` [...] of int32.

    >>> weft.linalg.lu_factor_ex(weft.tensor([[2.0]])).LU
    tensor([[2.]])
    """
    _expect_pivoting("linalg.lu_factor_ex", pivot)
    return _C.ops.linalg_lu_factor_ex(A, check_errors=check_errors)


def lu_factor(A: Tensor, *, pivot: bool = True) -> linalg_lu_factor:
    """The factors of A = P L U in one matrix, and LAPACK's row swaps: `(LU, pivots)`.

    LU is [..., m, n], the pivots [..., min(m, n)] of int32.

    Args:
        A: (..., m, n).
        pivot: has to be true.

    Raises:
        RuntimeError: no matrix, not floating, no pivoting.
        RuntimeError: a zero pivot.

    >>> weft.linalg.lu_factor(weft.tensor([[1., 2.], [2., 2.]])).LU
    tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]])
    """
    _expect_pivoting("linalg.lu_factor", pivot)
    found = _C.ops.linalg_lu_factor_ex(A, check_errors=True, who="linalg.lu_factor")
    return linalg_lu_factor(found[0], found[1])


def lu(A: Tensor, *, pivot: bool = True) -> linalg_lu:
    """A = P L U with a permutation, a unit lower and an upper triangle: `(P, L, U)`.

    P is [..., m, m], L [..., m, k], U [..., k, n], with k = min(m, n).

    Args:
        A: (..., m, n).
        pivot: has to be true.

    Raises:
        RuntimeError: no matrix, not floating, no pivoting.

    >>> weft.linalg.lu(weft.tensor([[1., 2.], [2., 2.]])).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    _expect_pivoting("linalg.lu", pivot)
    out = _C.ops.linalg_lu_factor_ex(A, who="linalg.lu")
    return linalg_lu(_permutation(out.pivots, A.shape[-2], A.dtype), *_parts(out.LU))


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """The X with A X = B for the A of `lu_factor`'s results.

    Args:
        LU: (..., n, n).
        pivots: (..., n) int32.
        B: (..., n, k), or (..., k, n) with `left=False`.
        left: solve X A = B if false.
        adjoint: A's conjugate transpose instead of A.

    Raises:
        RuntimeError: shapes that do not fit, unlike dtypes, pivots that are not int32.

    >>> A = weft.tensor([[1., 2.], [2., 2.]])
    >>> weft.linalg.lu_solve(*weft.linalg.lu_factor(A), weft.ones(2, 1))
    tensor([[0.0000],
            [0.5000]])
    """
    return _C.ops.linalg_lu_solve(LU, pivots, B, left=left, adjoint=adjoint)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """`(P, L, U)` of `lu_factor`'s results; what is not wanted is empty.

    P is [..., m, m], L [..., m, k], U [..., k, n], with k = min(m, n).

    >>> LU, pivots = weft.linalg.lu_factor(weft.tensor([[1., 2.], [2., 2.]]))
    >>> weft.lu_unpack(LU, pivots)[2]
    tensor([[2., 2.],
            [0., 1.]])
    """
    expect_matrix("lu_unpack", LU_data)
    if unpack_pivots and LU_pivots.dtype != weft.int32:
        raise RuntimeError(
            f"[lu_unpack] expected int32 pivots, got {LU_pivots.dtype} (torch.lu_unpack: LU_pivots "
            "is expected to be a contiguous tensor of torch.int32 dtype.)"
        )
    empty = weft.empty(0, dtype=LU_data.dtype, device=LU_data.device)
    L, U = _parts(LU_data) if unpack_data else (empty, empty)
    P = _permutation(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else empty
    return return_types.lu_unpack(P, L, U)


def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> _C._LD_pivots_info:
    """As `ldl_factor`, with the place of the first zero in D or 0: `(LD, pivots, info)`.

    LD is [..., n, n], the pivots [..., n] and `info` [...] of int32.

    >>> weft.linalg.ldl_factor_ex(weft.tensor([[2.0]])).LD
    tensor([[2.]])
    """
    expect_matrix("linalg.ldl_factor_ex", A, square=True)
    out = _C.ops.linalg_ldl_factor_ex(A, hermitian=hermitian)
    if check_errors:
        raise_if_singular("linalg.ldl_factor_ex", out[2])
    return out


def ldl_factor(A: Tensor, *, hermitian: bool = False) -> linalg_ldl_factor:
    """The factors of a symmetric A = L D Lᵀ in one matrix, LAPACK's swaps: `(LD, pivots)`.

    LD is [..., n, n], the pivots [..., n] of int32.

    Args:
        A: symmetric (or with `hermitian` Hermitian), (..., n, n); the lower triangle is read.

    Raises:
        RuntimeError: not square, not floating.
        RuntimeError: D has a zero.

    >>> weft.linalg.ldl_factor(weft.tensor([[4., 2.], [2., 2.]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 1.0000]])
    """
    expect_matrix("linalg.ldl_factor", A, square=True)
    out = _C.ops.linalg_ldl_factor_ex(A, hermitian=hermitian)
    raise_if_singular("linalg.ldl_factor", out[2])
    return linalg_ldl_factor(out[0], out[1])


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """The X with A X = B for the A of `ldl_factor`'s results; not differentiable, as PyTorch's.

    Raises:
        RuntimeError: shapes that do not fit, unlike dtypes.

    >>> factors = weft.linalg.ldl_factor(weft.tensor([[4., 2.], [2., 2.]]))
    >>> weft.linalg.ldl_solve(*factors, weft.ones(2, 1))
    tensor([[0.0000],
            [0.5000]])
    """
    return _C.ops.linalg_ldl_solve(LD, pivots, B, hermitian=hermitian)
