"""Linear algebra under its older names: functions of `weft`, and methods of tensors."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor, return_types
from weft.base.checks import also_named
from weft.base.forms import attach, with_out
from weft.base.warn import warn_once
from weft.linalg import decompositions, eigen, factors, products, reflections, systems
from weft.linalg.checks import expect_matrix

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "frobenius_norm", "geqrf", "inverse",
    "logdet", "lu", "lu_solve", "lu_unpack", "matrix_exp", "matrix_power", "nuclear_norm", "orgqr",
    "ormqr", "pca_lowrank", "pinverse", "qr", "slogdet", "svd", "svd_lowrank",
]  # fmt: skip

det = systems.det
geqrf = reflections.geqrf
inverse = systems.inv
lu_unpack = factors.lu_unpack
matrix_exp = eigen.matrix_exp
matrix_power = products.matrix_power
orgqr = reflections.householder_product
ormqr = reflections.ormqr


def slogdet(input: Tensor) -> Any:
    """See `weft.linalg.slogdet`.

    [..., n, n] gives the sign [...] and the logarithm of the magnitude [...].

    >>> weft.slogdet(weft.tensor([[-1.0]]))
    torch.return_types.slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))
    """
    return return_types.slogdet(*systems.slogdet(input))


def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: nan where that is negative.

    [..., n, n] gives [...].

    >>> weft.logdet(weft.eye(2))
    tensor(0.)
    """
    sign, value = systems.slogdet(input)
    return value.masked_fill(sign < 0, float("nan"))


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudo-inverse; see `weft.linalg.pinv`.

    [..., m, n] gives [..., n, m].

    >>> weft.pinverse(weft.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return systems.pinv(input, rcond=rcond)


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The triangular factor of positive definite matrices; see `weft.linalg.cholesky`.

    [..., n, n] gives [..., n, n]. RuntimeError for another matrix.

    >>> weft.cholesky(weft.tensor([[4.0]]))
    tensor([[2.]])
    """
    return decompositions.cholesky(input, upper=upper)


def qr(input: Tensor, some: bool = True) -> Any:
    """See `weft.linalg.qr`, which is to be used instead; `some=False` is its mode `"complete"`.

    [..., m, n] gives Q [..., m, k] and R [..., k, n], k = min(m, n), or m if not `some`.

    >>> weft.qr(weft.tensor([[2.0]])).R.abs()
    tensor([[2.]])
    """
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future "
        "PyTorch release.\nThe boolean parameter 'some' has been replaced with a string parameter "
        "'mode'.\nQ, R = torch.qr(A, some)\nshould be replaced with\n"
        "Q, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
    )
    return return_types.qr(*decompositions.qr(input, "reduced" if some else "complete"))


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """`(U, S, V)`, with V where `weft.linalg.svd` has Vh; `some`: only min(m, n) vectors.

    Without `compute_uv` U and V are zeros.

    [..., m, n] gives U [..., m, k], S [..., k], V [..., n, k], k = min(m, n).

    >>> weft.svd(weft.diag(weft.tensor([1.0, 2.0]))).S
    tensor([2., 1.])
    """
    if not compute_uv:
        m, n = input.shape[-2:]
        batch = input.shape[:-2]
        zeros = [weft.zeros(*batch, k, k, dtype=input.dtype, device=input.device) for k in (m, n)]
        return return_types.svd(zeros[0], decompositions.svdvals(input), zeros[1])
    U, S, Vh = decompositions.svd(input, not some)
    return return_types.svd(U, S, Vh.mH)


@also_named(B="input", input2="L")
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The X with A X = input for the A whose Cholesky factor is L.

    input [..., n, k] and L [..., n, n] give [..., n, k].

    >>> weft.cholesky_solve(weft.tensor([[4.]]), weft.tensor([[2.]]))
    tensor([[1.]])
    """
    return _C.ops._cholesky_solve(input, L, upper)


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of the A whose Cholesky factor is L.

    [..., n, n] gives [..., n, n].

    >>> weft.cholesky_inverse(weft.tensor([[2.]]))
    tensor([[0.2500]])
    """
    expect_matrix("cholesky_inverse", L, square=True)
    eye = weft.eye(L.shape[-1], dtype=L.dtype, device=L.device).expand(L.shape)
    return cholesky_solve(eye, L, upper)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """`weft.linalg.lu_factor`'s `(LU, pivots)`, with `get_infos` and the first zero pivot or 0.

    [..., m, n] gives LU [..., m, n] and pivots [..., min(m, n)] of int32.

    >>> weft.lu(weft.tensor([[2.]]))[1]
    tensor([1], dtype=torch.int32)
    """
    out = factors.lu_factor_ex(A, pivot=pivot)
    return tuple(out) if get_infos else tuple(out[:2])


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """The X with A X = b for the A of `lu`'s results; see `weft.linalg.lu_solve`.

    b [..., n, k], LU_data [..., n, n], LU_pivots [..., n]; the result is [..., n, k].

    >>> weft.lu_solve(weft.tensor([[4.0]]), *weft.lu(weft.tensor([[2.0]])))
    tensor([[2.]])
    """
    return factors.lu_solve(LU_data, LU_pivots, b)


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over `dim`.

    The input's shape without `dim`, which has size 1 with `keepdim`.

    >>> weft.frobenius_norm(weft.tensor([[3.0, 4.0]]), (0, 1))
    tensor(5.)
    """
    return products.vector_norm(input, 2, dim, keepdim)


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of the singular values.

    The input's shape without the two dims, which have size 1 with `keepdim`.

    >>> weft.nuclear_norm(weft.eye(3))
    tensor(3.)
    """
    return products.matrix_norm(input, "nuc", dim, keepdim)


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> Any:
    """The q greatest singular values and their vectors, nearly: `(U, S, V)`.

    A random subspace, sharpened `niter` times: Halko, Martinsson and Tropp, "Finding structure with
    randomness", 2011, algorithms 4.4 and 5.1.

    A [..., m, n] gives U [..., m, q], S [..., q], V [..., n, q].

    Args:
        A: (..., m, n).
        q: how many; a little more than the rank is right.
        niter: rounds.
        M: taken from A first.

    >>> weft.svd_lowrank(weft.ones(5, 4), q=2)[0].shape
    torch.Size([5, 2])
    """
    expect_matrix("svd_lowrank", A)
    A = A if M is None else A - M
    wide = A.shape[-2] < A.shape[-1]
    A = A.mH if wide else A
    start = weft.randn(A.shape[-1], 6 if q is None else q, dtype=A.dtype, device=A.device)
    Q = decompositions.qr(A @ start).Q
    for _ in range(2 if niter is None else niter):
        Q = decompositions.qr(A.mH @ Q).Q
        Q = decompositions.qr(A @ Q).Q
    U, S, Vh = decompositions.svd(Q.mH @ A, False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """The principal components of the rows of A: `svd_lowrank` after taking the mean of the rows.

    A [..., m, n] gives U [..., m, q], S [..., q], V [..., n, q].

    >>> weft.pca_lowrank(weft.tensor([[1., 0.], [3., 0.]]), q=1)[1]
    tensor([1.4142])
    """
    expect_matrix("pca_lowrank", A)
    most = min(A.shape[-2:])
    q = min(6, most) if q is None else q
    if not 0 <= q <= most:
        raise ValueError(
            f"[pca_lowrank] expected q in [0, {most}], got {q} (q(={q}) must be non-negative "
            f"integer and not greater than min(m, n)={most})"
        )
    if niter < 0:
        raise ValueError(
            f"[pca_lowrank] expected niter of at least 0, got {niter} (niter(={niter}) must be "
            "non-negative integer)"
        )
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


_FUNCTIONS = ("frobenius_norm", "lu_unpack", "nuclear_norm", "pca_lowrank", "svd_lowrank")
for _name in __all__:
    globals()[_name] = with_out(_name, globals()[_name])
    if _name not in _FUNCTIONS:
        attach(_name, globals()[_name])
