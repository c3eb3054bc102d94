"""Factors of matrices: Cholesky, QR, eigenvectors of symmetric matrices, singular values."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft import _C, Tensor
from weft._library_ops import Gradients, layout_of, library_op
from weft.linalg.checks import expect_matrix, wants_gradient
from weft.linalg.triangular import solve_triangular
from weft.return_types import printed_as_pytorchs


@printed_as_pytorchs
class linalg_qr(NamedTuple):  # noqa: N801
    """The results of `qr`."""

    Q: Tensor
    R: Tensor


def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False
) -> _C._L_info:
    """The Cholesky factor, and where it does not exist: `(L, info)`.

    The factor is [..., n, n], `info` [...] of int32.

    Args:
        A: symmetric positive-definite, (..., n, n); the lower triangle is read, or the upper one.
        upper: return the factor's transpose.
        check_errors: raise where the factor does not exist.

    Raises:
        RuntimeError: not square, not floating.
        LinAlgError: with `check_errors`, a matrix that is not positive-definite.

    >>> weft.linalg.cholesky_ex(weft.tensor([[4.]])).L
    tensor([[2.]])
    """
    return _C.ops.linalg_cholesky_ex(A, upper=upper, check_errors=check_errors)


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with A = L Lᴴ; with `upper`, its conjugate transpose.

    Args:
        A: symmetric positive-definite, (..., n, n).
        upper: see above.

    Raises:
        RuntimeError: not square, not floating.
        LinAlgError: not positive-definite.

    >>> weft.linalg.cholesky(weft.tensor([[4., 2.], [2., 2.]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return _C.ops.linalg_cholesky_ex(A, upper=upper, check_errors=True)[0]


def _gradient_qr(g: Gradients) -> Any:
    # Walter and Lehmann, "Algorithmic differentiation of linear algebra functions", 2010
    (A,), (Q, R), (gQ, gR) = g.inputs, g.outputs, g.grads
    if gQ is None and gR is None:
        return None
    m, n = A.shape[-2:]
    if g.options["mode"] == "r":
        raise RuntimeError(
            "[linalg.qr] expected a mode that computes Q, got 'r' (The derivative of linalg.qr "
            "depends on Q, which is not computed when mode='r'.) Hint: use mode='reduced'"
        )
    if m > n and g.options["mode"] == "complete":
        raise RuntimeError(
            "[linalg.qr] expected mode='reduced', got 'complete' (The QR decomposition is not "
            "differentiable when mode='complete' and nrows > ncols)"
        )
    gQ = weft.zeros_like(Q) if gQ is None else gQ
    gR = weft.zeros_like(R) if gR is None else gR
    if m >= n:
        return _of_tall(Q, R, gQ, gR)
    # A = [X Y]: the QR of X, and R's rest is Qᵀ Y
    Y = Q @ R[..., m:]
    gY = Q @ gR[..., m:]
    gX = _of_tall(Q, R[..., :m], gQ + Y @ gR[..., m:].mH, gR[..., :m])
    return weft.cat([gX, gY], -1)


def _of_tall(Q: Tensor, R: Tensor, gQ: Tensor, gR: Tensor) -> Tensor:
    M = R @ gR.mH - gQ.mH @ Q
    below = M.tril(-1)
    M = below + below.mH + weft.diag_embed(M.diagonal(0, -2, -1).real)
    return solve_triangular(R.mH, gQ + Q @ M, upper=False, left=False)


def _layout_qr(A: Tensor, mode: str) -> Any:
    *outer, m, n = A.shape
    k = m if mode == "complete" else min(m, n)
    Q = (0,) if mode == "r" else (*outer, m, k)
    return layout_of((Q, A.dtype), ((*outer, k, n), A.dtype))


@library_op(
    "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
    autocast=True,
    gradient=_gradient_qr,
    saves=["Q", "R"],
    samples=["f(T(3, 3))", "f(T(4, 2))", "f(T(2, 3, 3))", "f(T(2, 3))"],
    results=linalg_qr,
    layout=_layout_qr,
)
def _qr(A: Any, mode: Any = "reduced") -> Any:
    """The QR decomposition: orthonormal columns and an upper triangle."""
    import numpy as np

    if mode == "r":
        return np.zeros((0,), A.dtype), np.linalg.qr(A, "r")
    Q, R = np.linalg.qr(A, mode)
    return Q, R


def qr(A: Tensor, mode: str = "reduced") -> linalg_qr:
    """A = Q R, with orthonormal columns in Q and an upper triangular R: `(Q, R)`.

    Args:
        A: (..., m, n).
        mode: `"reduced"`: Q is m by min(m, n); `"complete"`: m by m; `"r"`: Q is empty.

    Raises:
        RuntimeError: no matrix, not floating, an unknown mode.

    >>> weft.linalg.qr(weft.eye(2)).Q.abs()
    tensor([[1., 0.],
            [0., 1.]])
    """
    expect_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"[linalg.qr] expected another mode, got {mode!r} (qr received unrecognized mode "
            f"'{mode}' but expected one of 'reduced' (default), 'r', or 'complete')"
        )
    return _qr(A, mode=mode)


def eigh(A: Tensor, UPLO: str = "L") -> _C._eigenvalues_eigenvectors:
    """Eigenvalues and eigenvectors of symmetric matrices: `(eigenvalues, eigenvectors)`.

    Args:
        A: symmetric, (..., n, n).
        UPLO: which triangle is read, `"L"` or `"U"`.

    Raises:
        RuntimeError: not square, not floating.
        ValueError: another UPLO.

    >>> weft.linalg.eigh(weft.tensor([[2., 0.], [0., 1.]])).eigenvalues
    tensor([1., 2.])
    """
    return _C.ops.linalg_eigh(A, UPLO)


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, ascending; see `eigh`.

    [..., n, n] gives [..., n], real and ascending.

    >>> weft.linalg.eigvalsh(weft.diag(weft.tensor([2.0, 1.0])))
    tensor([1., 2.])
    """
    return _C.ops.linalg_eigh(A, UPLO, compute_v=wants_gradient(A))[0]


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> _C._U_S_Vh:
    """A = U diag(S) Vh, with orthonormal U and V and descending S: `(U, S, Vh)`.

    Args:
        A: (..., m, n).
        full_matrices: U and V are square; otherwise they have min(m, n) columns.
        driver: of CUDA; has to be None.

    Raises:
        RuntimeError: no matrix, not floating, a driver.

    >>> weft.linalg.svd(weft.tensor([[3., 0.], [0., 4.]])).S
    tensor([4., 3.])
    """
    _expect_no_driver(driver)
    return _C.ops.linalg_svd(A, full_matrices)


def _expect_no_driver(driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            "[linalg.svd] expected no driver, got one (keyword argument `driver=` is only "
            "supported on CUDA inputs)"
        )


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, descending; see `svd`.

    [..., m, n] gives [..., min(m, n)].

    >>> weft.linalg.svdvals(weft.diag(weft.tensor([1.0, 2.0])))
    tensor([2., 1.])
    """
    _expect_no_driver(driver)
    return _C.ops.linalg_svd(A, False, compute_uv=wants_gradient(A))[1]
