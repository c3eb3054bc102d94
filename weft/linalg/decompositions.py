"""Factors of matrices: Cholesky, QR, eigenvectors of symmetric matrices, singular values."""

from __future__ import annotations

from weft import _C, Tensor
from weft.linalg.checks import wants_gradient


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> _C._L_info:
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


def qr(A: Tensor, mode: str = "reduced") -> _C._Q_R:
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
    return _C.ops.linalg_qr(A, mode)


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
