"""Systems of equations, inverses and determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import weft
from weft import _C, Tensor
from weft.base.checks import also_named
from weft.linalg.checks import expect_like, expect_matrix
from weft.return_types import printed_as_pytorchs


@printed_as_pytorchs
class linalg_lstsq(NamedTuple):  # noqa: N801
    """The results of `lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> _C._result_info:
    """As `solve`, with the places where `A` is singular: `(result, info)`.

    A [..., n, n] and B [..., n, k] or [..., n] give X of B's shape, and `info` [...] of int32.

    >>> weft.linalg.solve_ex(weft.tensor([[2.0]]), weft.tensor([[4.0]])).result
    tensor([[2.]])
    """
    return _C.ops.linalg_solve_ex(A, B, left=left, check_errors=check_errors)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X with A X = B; with `left=False`, with X A = B.

    Args:
        A: invertible, (..., n, n).
        B: (..., n, k), or vectors: (n,) or A's shape without its last dimension.

    Raises:
        RuntimeError: not square, shapes that do not fit, unlike dtypes.
        LinAlgError: a singular matrix.

    >>> weft.linalg.solve(weft.tensor([[2., 0.], [0., 4.]]), weft.tensor([2., 4.]))
    tensor([1., 1.])
    """
    return _C.ops.linalg_solve_ex(A, B, left=left, check_errors=True)[0]


def inv_ex(A: Tensor, *, check_errors: bool = False) -> _C._inverse_info:
    """As `inv`, with the places where `A` is singular: `(inverse, info)`.

    A [..., n, n] gives the inverse [..., n, n], and `info` [...] of int32.

    >>> weft.linalg.inv_ex(weft.tensor([[0.0]])).info
    tensor(1, dtype=torch.int32)
    """
    return _C.ops.linalg_inv_ex(A, check_errors=check_errors)


def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices, (..., n, n).

    Raises:
        RuntimeError: not square, not floating.
        LinAlgError: a singular matrix.

    >>> weft.linalg.inv(weft.tensor([[2.]]))
    tensor([[0.5000]])
    """
    return _C.ops.linalg_inv_ex(A, check_errors=True)[0]


def det(A: Tensor) -> Tensor:
    """The determinant of square matrices, (..., n, n).

    Raises:
        RuntimeError: not square, not floating.

    >>> weft.linalg.det(weft.tensor([[2., 0.], [0., 4.]]))
    tensor(8.)
    """
    return _C.ops.linalg_det(A)


def slogdet(A: Tensor) -> _C._sign_logabsdet:
    """The determinant as its sign and the logarithm of its magnitude: `(sign, logabsdet)`.

    [..., n, n] gives two tensors [...].

    Raises:
        RuntimeError: not square, not floating.

    >>> weft.linalg.slogdet(weft.eye(3)).logabsdet
    tensor(0.)
    """
    return _C.ops.linalg_slogdet(A)


def _pinv(A: Tensor, rtol: float, atol: float = 0.0, hermitian: bool = False) -> Tensor:
    return _C.ops.linalg_pinv(A, rtol=rtol, atol=atol, hermitian=hermitian)


def _pinv_each(A: Tensor, rtol: Any, atol: Any, hermitian: bool) -> Tensor:
    """The same with tolerances of each matrix: one by one."""
    rtol, atol = weft.as_tensor(rtol), weft.as_tensor(atol)
    batch = weft.broadcast_shapes(A.shape[:-2], rtol.shape, atol.shape)
    whole = A.expand(*batch, *A.shape[-2:])
    if not whole.numel():
        return whole.mT.clone()
    matrices = whole.reshape(-1, *A.shape[-2:]).unbind()
    tolerances = (t.expand(batch).flatten().tolist() for t in (rtol, atol))
    parts = [
        _pinv(a, rtol=r, atol=t, hermitian=hermitian) for a, r, t in zip(matrices, *tolerances)
    ]
    return weft.stack(parts).reshape(whole.mT.shape)


def pinv(
    A: Tensor,
    rcond: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """The pseudo-inverse (Moore and Penrose), (..., n, m) of (..., m, n).

    Args:
        A: the matrices; with `hermitian` symmetric, of which the lower triangle is read.
        atol, rtol: singular values at most max(atol, rtol * greatest) count as 0. By default rtol
            is max(m, n) times the machine's precision if atol is not given, else 0. Tensors
            broadcast with the batch of matrices.
        rcond: an older name of `rtol`.

    Raises:
        RuntimeError: no matrix, not floating.

    >>> weft.linalg.pinv(weft.tensor([[2.], [0.]]))
    tensor([[0.5000, 0.0000]])
    """
    expect_matrix("linalg.pinv", A, square=hermitian)
    rtol = rcond if rtol is None else rtol
    least = max(A.shape[-2:]) * weft.finfo(A.dtype).eps
    if isinstance(rtol, Tensor) or isinstance(atol, Tensor):
        atol = 0.0 if atol is None else atol
        if rtol is None:
            rtol = weft.where(weft.as_tensor(atol) > 0, 0.0, least)
        return _pinv_each(A, rtol, atol, hermitian)
    if rtol is None:
        rtol = 0.0 if atol else least
    return _pinv(A, rtol=float(rtol), atol=float(atol or 0.0), hermitian=hermitian)


@also_named(b="B")
def lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> linalg_lstsq:
    """The X that makes A X - B least: `(solution, residuals, rank, singular_values)`.

    Args:
        A: (..., m, n).
        B: (..., m, k), or vectors.
        rcond: see `pinv`'s `rtol`; not for the drivers `"gels"`.
        driver: `"gelsy"` (default), `"gels"`, `"gelsd"` or `"gelss"`, which say what is returned:
            only the last two return singular values, `"gels"` no rank, `"gelsy"` no residuals.

    Raises:
        RuntimeError: shapes that do not fit, an unknown driver.

    >>> weft.linalg.lstsq(weft.tensor([[1.], [0.]]), weft.tensor([[2.], [3.]])).solution
    tensor([[2.]])
    """
    expect_matrix("linalg.lstsq", A)
    expect_like("linalg.lstsq", A, B)
    driver = "gelsy" if driver is None else driver
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            "[linalg.lstsq] expected driver 'gels', 'gelsy', 'gelsd' or 'gelss', got "
            f"{driver!r} (parameter `driver` should be one of (gels, gelsy, gelsd, gelss))"
        )
    if not 0 <= A.dim() - B.dim() <= 1:
        raise RuntimeError(
            f"[linalg.lstsq] expected as many dimensions of B as of A or one less, got {B.dim()} "
            f"and {A.dim()} (input.dim() must be greater or equal to other.dim())"
        )
    vectors = B.dim() < A.dim()
    B = B.unsqueeze(-1) if vectors else B
    if A.shape[-2] != B.shape[-2]:
        raise RuntimeError(
            f"[linalg.lstsq] expected as many rows in both, got {A.shape[-2]} and {B.shape[-2]} "
            "(input.size(-2) should match other.size(-2))"
        )
    m, n = A.shape[-2:]
    rtol = max(m, n) * weft.finfo(A.dtype).eps if rcond is None or driver == "gels" else rcond
    X, rank, values = _C.ops._linalg_lstsq(A, B, float(rtol), driver)
    residuals = weft.empty(0, dtype=values.dtype, device=A.device)
    if X.requires_grad:  # no residuals, but in the graph, as PyTorch's
        residuals = X.reshape(-1)[:0].real.clone()
    full = driver == "gels" or (rank.numel() > 0 and not rank.is_meta and bool((rank == n).all()))
    if m > n and full and driver != "gelsy":
        residuals = (A @ X - B).abs().square().sum(-2)
    return linalg_lstsq(X.squeeze(-1) if vectors else X, residuals, rank, values)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of the product over the first `ind` dimensions; see NumPy's.

    Raises:
        RuntimeError: `ind` is not positive, or the two halves are of unlike size.

    >>> weft.linalg.tensorinv(2 * weft.eye(4).view(4, 2, 2), ind=1).shape
    torch.Size([2, 2, 4])
    """
    if ind <= 0:
        raise RuntimeError(
            f"[linalg.tensorinv] expected a positive ind, got {ind} (Expected a strictly positive "
            "integer for 'ind')"
        )
    if ind > A.dim():
        raise RuntimeError(
            f"[linalg.tensorinv] expected at most {A.dim()} as ind, got {ind} (invalid slice)"
        )
    first, rest = A.shape[:ind], A.shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise RuntimeError(
            f"[linalg.tensorinv] expected two halves of one size, got {tuple(first)} and "
            f"{tuple(rest)}"
        )
    return inv(A.reshape(math.prod(first), math.prod(rest))).reshape(*rest, *first)


@also_named(other="B")
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """The X with tensordot(A, X, X.dim()) = B; `dims` of A are moved to its end first.

    Raises:
        RuntimeError: sizes that do not fit.

    >>> weft.linalg.tensorsolve(weft.eye(4).view(2, 2, 2, 2), weft.ones(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    if dims is not None:
        if not all(-A.dim() <= k < A.dim() for k in dims):
            raise IndexError(
                f"[linalg.tensorsolve] expected dims in [{-A.dim()}, {A.dim() - 1}], got {dims}"
            )
        order = [d for d in range(A.dim()) if d not in {k % A.dim() for k in dims}]
        A = A.permute(*order, *(k % A.dim() for k in dims))
    rest = A.shape[B.dim() :]
    if math.prod(rest) != B.numel() or A.numel() != B.numel() ** 2:
        raise RuntimeError(
            f"[linalg.tensorsolve] expected a square system, got {tuple(A.shape)} and "
            f"{tuple(B.shape)}"
        )
    return solve(A.reshape(B.numel(), -1), B.reshape(-1)).reshape(rest)
