"""Factors of matrices: Cholesky, QR, eigenvectors of symmetric matrices, singular values."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft import Tensor
from weft._library_ops import Gradients, layout_of, library_op
from weft.linalg import lapack
from weft.linalg.checks import (
    LinAlgError,
    any_failed,
    expect_matrix,
    expect_phase_free,
    wants_gradient,
)
from weft.linalg.triangular import solve_triangular
from weft.return_types import printed_as_pytorchs


@printed_as_pytorchs
class linalg_qr(NamedTuple):  # noqa: N801
    """The results of `qr`."""

    Q: Tensor
    R: Tensor


@printed_as_pytorchs
class linalg_eigh(NamedTuple):  # noqa: N801
    """The results of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@printed_as_pytorchs
class linalg_svd(NamedTuple):  # noqa: N801
    """The results of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@printed_as_pytorchs
class linalg_cholesky_ex(NamedTuple):  # noqa: N801
    """The results of `cholesky_ex`."""

    L: Tensor
    info: Tensor


def _gradient_cholesky(g: Gradients) -> Any:
    # Murray, "Differentiation of the Cholesky decomposition", 2016
    (L, _), grad = g.outputs, g.grads[0]
    if grad is None:
        return None
    P = (L.mH @ grad).tril()
    P = P - 0.5 * weft.diag_embed(P.diagonal(0, -2, -1))
    left = _cholesky_solve_from_left(L, P)
    return 0.5 * (left + left.mH)


def _cholesky_solve_from_left(L: Tensor, P: Tensor) -> Tensor:
    """L⁻ᴴ P L⁻¹."""
    Y = solve_triangular(L.mH, P, upper=True)
    return solve_triangular(L.mH, Y.mH, upper=True).mH


def _layout_cholesky(A: Tensor, **options: Any) -> Any:
    return layout_of((A.shape, A.dtype), (A.shape[:-2], weft.int32))


@library_op(
    "linalg_cholesky_ex(Tensor self, *, bool upper=False) -> (Tensor L, Tensor info)",
    autocast=True,
    gradient=_gradient_cholesky,
    saves=["L"],
    results=linalg_cholesky_ex,
    layout=_layout_cholesky,
)
def _cholesky(A: Any) -> Any:
    """The lower Cholesky factor of each matrix, and for each the order of the minor that fails."""
    return lapack.factor_cholesky(A)


def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False
) -> linalg_cholesky_ex:
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
    expect_matrix("linalg.cholesky", A, square=True)
    L, info = _cholesky(A.mH if upper else A)
    if check_errors and any_failed(info):
        at = int(info.reshape(-1).nonzero()[0, 0])
        order = int(info.reshape(-1)[at])
        where = f"(Batch element {at}): " if info.dim() else ""
        raise LinAlgError(
            "[linalg.cholesky] expected a positive-definite matrix, got another (linalg.cholesky: "
            f"{where}The factorization could not be completed because the input is not "
            f"positive-definite (the leading minor of order {order} is not positive-definite).)"
        )
    return linalg_cholesky_ex(L.mH if upper else L, info)


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
    return cholesky_ex(A, upper=upper, check_errors=True)[0]


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


def _gradient_eigh(g: Gradients) -> Any:
    # Giles, "Collected matrix derivative results", 2008
    (values, V), (g_values, gV) = g.outputs, g.grads
    if g_values is None and gV is None:
        return None
    inner = weft.diag_embed(weft.zeros_like(values) if g_values is None else g_values)
    if gV is not None:
        P = V.mH @ gV
        expect_phase_free("linalg.eigh", P)
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
        diagonal = weft.eye(values.shape[-1], dtype=weft.bool, device=values.device)
        scale = (0.5 / gaps.masked_fill(diagonal, 1)).masked_fill(diagonal, 0)
        inner = inner + (P - P.mH) * scale
    return V @ inner.to(V.dtype) @ V.mH


def _layout_eigh(A: Tensor, compute_v: bool, **options: Any) -> Any:
    return layout_of((A.shape[:-1], A.dtype.to_real()), (A.shape if compute_v else (0,), A.dtype))


@library_op(
    "linalg_eigh(Tensor A, str UPLO='L', *, bool compute_v=True)"
    " -> (Tensor eigenvalues, Tensor eigenvectors)",
    autocast=True,
    gradient=_gradient_eigh,
    saves=["eigenvalues", "eigenvectors"],
    results=linalg_eigh,
    layout=_layout_eigh,
)
def _eigh(A: Any, UPLO: Any = "L", compute_v: bool = True) -> Any:
    """Eigenvalues, ascending, and, with `compute_v`, eigenvectors of symmetric matrices."""
    import numpy as np

    if not compute_v:
        return np.linalg.eigvalsh(A, UPLO), np.zeros((0,), A.dtype)
    return tuple(np.linalg.eigh(A, UPLO))


def eigh(A: Tensor, UPLO: str = "L") -> linalg_eigh:
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
    _expect_symmetric(A, UPLO)
    return _eigh(A, UPLO=UPLO.upper())


def _expect_symmetric(A: Tensor, UPLO: str) -> None:
    expect_matrix("linalg.eigh", A, square=True)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(
            f"[linalg.eigh] expected UPLO 'L' or 'U', got {UPLO!r} (Expected UPLO argument to be "
            f"'L' or 'U', but got {UPLO})"
        )


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, ascending; see `eigh`.

    [..., n, n] gives [..., n], real and ascending.

    >>> weft.linalg.eigvalsh(weft.diag(weft.tensor([2.0, 1.0])))
    tensor([1., 2.])
    """
    _expect_symmetric(A, UPLO)
    return _eigh(A, UPLO=UPLO.upper(), compute_v=wants_gradient(A))[0]


def _gradient_svd(g: Gradients) -> Any:
    # Giles, "Collected matrix derivative results", 2008; with the parts outside of the two bases
    (A,), (U, S, Vh), (gU, gS, gVh) = g.inputs, g.outputs, g.grads
    if gU is None and gS is None and gVh is None:
        return None
    m, n, k = A.shape[-2], A.shape[-1], S.shape[-1]
    U, V = U[..., :k], Vh[..., :k, :].mH
    inner = weft.diag_embed(weft.zeros_like(S) if gS is None else gS).to(A.dtype)
    if gU is None and gVh is None:
        return U @ inner @ V.mH
    diagonal = weft.eye(k, dtype=weft.bool)
    gaps = S.unsqueeze(-2).square() - S.unsqueeze(-1).square()
    E = (1 / gaps.masked_fill(diagonal, 1)).masked_fill(diagonal, 0)
    outside = None
    phases = weft.zeros_like(inner)  # of the pairs of vectors: together they must not count
    if gU is not None:
        gU = gU[..., :k]
        P = U.mH @ gU
        phases = phases + P
        inner = inner + ((P - P.mH) * E) * S.unsqueeze(-2)
        if m > k:
            outside = ((gU - U @ P) / S.unsqueeze(-2)) @ V.mH
        if A.is_complex() and gVh is not None:
            skew = (P - P.mH).diagonal(0, -2, -1)
            inner = inner + weft.diag_embed(skew / (2 * S))
    if gVh is not None:
        gV = gVh[..., :k, :].mH
        P = V.mH @ gV
        phases = phases + P
        inner = inner + S.unsqueeze(-1) * ((P - P.mH) * E)
        if n > k:
            part = U @ ((gV - V @ P) / S.unsqueeze(-2)).mH
            outside = part if outside is None else outside + part
    expect_phase_free("linalg.svd", phases)
    result = U @ inner @ V.mH
    return result if outside is None else result + outside


def _layout_svd(A: Tensor, full_matrices: bool, compute_uv: bool) -> Any:
    *outer, m, n = A.shape
    k = min(m, n)
    left, right = (m, n) if full_matrices else (k, k)
    vectors = ((*outer, m, left), (*outer, right, n)) if compute_uv else ((0,), (0,))
    U, Vh = ((shape, A.dtype) for shape in vectors)
    return layout_of(U, ((*outer, k), A.dtype.to_real()), Vh)


@library_op(
    "linalg_svd(Tensor A, bool full_matrices=True, *, bool compute_uv=True)"
    " -> (Tensor U, Tensor S, Tensor Vh)",
    autocast=True,
    gradient=_gradient_svd,
    saves=["U", "S", "Vh"],
    results=linalg_svd,
    layout=_layout_svd,
)
def _svd(A: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular values, descending, and singular vectors; without `compute_uv` the values alone."""
    import numpy as np

    if not compute_uv:
        none = np.zeros((0,), A.dtype)
        return none, np.linalg.svd(A, compute_uv=False), none
    return tuple(np.linalg.svd(A, full_matrices))


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> linalg_svd:
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
    expect_matrix("linalg.svd", A)
    _expect_no_driver(driver)
    return _svd(A, full_matrices=full_matrices)


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
    expect_matrix("linalg.svd", A)
    _expect_no_driver(driver)
    return _svd(A, full_matrices=False, compute_uv=wants_gradient(A))[1]
