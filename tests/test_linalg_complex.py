"""LU, LDL, eigenvectors, exponentials; and complex matrices in all of linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

import weft

pytestmark = pytest.mark.filterwarnings("ignore:torch.:UserWarning")  # its deprecated names

# K is M (float64) or C (complex128); H(x) is x + xᴴ, Q(x) is x xᴴ + 1
BOTH = """
L.lu(K(3, 3)); L.lu(K(2, 4)); L.lu(K(4, 2)); L.lu(K(2, 3, 3)); L.lu(K(2, 1, 2, 3)); L.lu(K(0, 3))
L.lu_factor(K(3, 3))[0]; L.lu_factor(K(3, 2))[0]; L.lu_factor_ex(K(2, 2, 3))[0]
t.lu_unpack(*L.lu_factor(K(3, 2))); t.lu(K(3, 3))[0]; t.lu_unpack(*K(2, 3, 3).lu())
L.lu_solve(*L.lu_factor(K(3, 3)), K(3, 2)); L.lu_solve(*L.lu_factor(K(2, 3, 3)), K(3, 2))
L.lu_solve(*L.lu_factor(K(3, 3)), K(2, 3), left=False); t.lu_solve(K(3, 2), *t.lu(K(3, 3)))
L.lu_solve(*L.lu_factor(K(3, 3)), K(3, 2), adjoint=True)
L.lu_solve(*L.lu_factor(K(3, 3)), K(2, 3), left=False, adjoint=True)
L.eigvals(K(3, 3)).abs().sort()[0]; L.matrix_exp(K(3, 3)); L.matrix_exp(K(2, 2, 2) * 9)
L.matrix_exp(K(3, 3) * 0.01); t.matrix_exp(K(0, 2, 2)); K(2, 2).matrix_exp(); L.matrix_exp(K(1, 1))
L.householder_product(K(4, 3), K(3)); L.householder_product(K(2, 3, 3), K(2, 2))
t.orgqr(K(3, 2), K(2)); t.ormqr(K(3, 2), K(2), K(3, 4)); t.ormqr(K(3, 3), K(3), K(4, 3), left=False)
t.ormqr(K(3, 2), K(2), K(3, 4), transpose=True); t.ormqr(K(3, 2), K(2), K(1, 3), False, True)
L.inv(K(3, 3)); L.det(K(3, 3)); L.slogdet(K(3, 3)); L.solve(K(2, 3, 3), K(3, 2))
L.solve(K(2, 2), K(2))
L.solve(K(3, 3), K(2, 3), left=False); L.solve_triangular(K(3, 3), K(3, 2), upper=True)
L.solve_triangular(K(3, 3), K(2, 3), upper=False, left=False, unitriangular=True)
L.solve_triangular(K(2, 3, 3), K(3, 1), upper=False); L.cholesky(Q(K(3, 3)))
L.cholesky(Q(K(2, 2, 2)), upper=True); L.qr(K(3, 3)); L.qr(K(4, 2)); L.qr(K(2, 4))
L.svdvals(K(3, 2)); L.eigvalsh(H(K(3, 3))); L.eigvalsh(H(K(3, 3)), UPLO='U'); L.pinv(K(3, 2))
L.pinv(H(K(3, 3)), hermitian=True); L.lstsq(K(4, 2), K(4, 3))[0]; L.matrix_power(K(3, 3), -2)
L.multi_dot([K(2, 3), K(3, 4), K(4)]); L.cross(K(2, 3), K(2, 3)); L.vecdot(K(2, 3), K(3))
L.vander(K(3)); L.matrix_norm(K(3, 2)); L.matrix_norm(K(3, 2), 'nuc'); L.matrix_norm(K(3, 2), 1)
L.vector_norm(K(3)); L.norm(K(2, 3)); L.cond(K(3, 3)); L.matrix_rank(K(3, 4))
L.tensorinv(K(2, 3, 6))
t.cholesky_solve(K(3, 2), K(3, 3)); t.cholesky_solve(K(2, 3, 2), K(3, 3), upper=True)
t.cholesky_inverse(L.cholesky(Q(K(3, 3))))
t.cholesky_inverse(L.cholesky(Q(K(3, 3)), upper=True), upper=True); t.svd(K(3, 2))[1]
t.nuclear_norm(K(2, 3)); t.frobenius_norm(K(2, 3), 1)
(lambda s: s[0] @ (s[1].unsqueeze(-1) * s[2]))(L.svd(K(3, 3)))
(lambda s: (s[0].abs() @ s[1].exp(), s[2].abs()))(L.svd(K(4, 2), full_matrices=False))
(lambda s: (s[0].abs() @ s[1].exp(), s[2].abs()))(L.svd(K(2, 3), full_matrices=False))
(lambda e: e[1].abs() @ e[0].exp())(L.eigh(H(K(3, 3))))
(lambda e: (e[1] @ t.diag_embed(e[0].exp()) @ L.inv(e[1])))(L.eig(K(3, 3)))
(lambda e: e[1].abs().square().sum())(L.eig(K(3, 3)))
"""
VALUES = """
L.ldl_factor(H(K(3, 3)), hermitian=True); L.ldl_factor(S(K(3, 3))); L.ldl_factor_ex(H(K(2, 2, 2)))[2]
L.ldl_solve(*L.ldl_factor(S(K(3, 3))), K(3, 2)); L.ldl_factor(S(K(0, 2, 2)))
L.ldl_solve(*L.ldl_factor(H(K(2, 3, 3)), hermitian=True), K(2, 3, 2), hermitian=True)
t.geqrf(K(3, 2)); K(2, 3).geqrf(); t.geqrf(K(2, 3, 3)); L.lu_factor(K(2, 3, 3)); L.lu_factor_ex(K(2, 3))
t.lu(K(3, 3), get_infos=True); t.lu_unpack(*L.lu_factor(K(3, 2)), unpack_data=False)[0]
t.lu_unpack(*L.lu_factor(K(3, 2)), unpack_pivots=False)[1:]; L.inv(K(2, 2), out=K(2, 2))
L.qr(K(3, 2), out=(K(3, 2), K(2, 2))); L.lu_factor(K(2, 2), out=(K(2, 2), t.zeros(2, dtype=t.int32)))
L.eig(t.tensor([[1.0, 2.0], [2.0, 1.0]]))[0]; L.eigvals(K(0, 2, 2)); L.inv_ex(t.zeros(2, 2))[1]
"""  # noqa: E501


def listed(text):
    return [c.strip() for c in text.replace("\n", ";").split(";") if c.strip()]


def expanded(text, kinds):
    adjoint = "(lambda x: x + x.mH)"
    for shorthand, full in (
        ("L.", "t.linalg."),
        ("H(", adjoint + "("),
        ("S(", "(lambda x: x + x.mT)("),
        ("Q(", "(lambda x: x @ x.mH + t.eye(x.shape[-1], dtype=x.dtype))("),
    ):
        text = text.replace(shorthand, full)
    return [text.replace("K(", kind + "(") for kind in kinds]


CASES = [c for text in listed(BOTH) for c in expanded(text, "MC")]
MADE = [c for text in listed(VALUES) for c in expanded(text, "MC")]


@pytest.mark.parametrize("text", CASES + MADE)
def test_values_are_those_of_torch(beside, text):
    beside.values(text, 1e-6 if "tensor(" in text else 1e-8, 1e-8)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("text", CASES)
def test_gradients_are_those_of_torch(beside, text, order):
    try:
        beside.derived(beside.peer, text, order)
    except RuntimeError as error:
        assert "inplace operation" in str(error) or "derivative" in str(error), error
        pytest.skip("PyTorch cannot differentiate this call")
    beside.gradients(text, order, 1e-6, 1e-7)


ERRORS = """
L.lu(M(3)); L.lu(M(3, 3), pivot=False); L.lu_factor(t.zeros(2, 2));
L.lu_solve(M(3, 3), t.ones(3), M(3, 1)); L.lu_solve(M(3, 3), t.ones(2, dtype=t.int32), M(3, 1))
L.lu_solve(*L.lu_factor(M(3, 3)), M(2, 1)); L.eig(M(2, 3)); L.eig(t.tensor([[float('nan')]]))
L.matrix_exp(M(2, 3)); L.matrix_exp(M(2, 2).long()); L.householder_product(M(2, 3), M(2))
L.householder_product(M(3, 2), M(3)); L.householder_product(M(3, 2), C(2)); L.ldl_factor(M(2, 3))
L.ldl_solve(M(2, 2), t.ones(2), M(2, 1)); t.ormqr(M(3, 2), M(2), M(2, 2)); t.lu_unpack(M(2, 2), M(2))
t.pca_lowrank(M(3, 3), q=4); t.pca_lowrank(M(3, 3), niter=-1); t.geqrf(M(3)); L.solve(M(2, 2), C(2, 1))
t.cholesky_solve(M(2, 1), M(3, 3)); L.inv(M(2, 2), out=t.zeros(2, 2, dtype=t.int64))
L.eigh(H(C(2, 2)).requires_grad_())[1].sum().backward()
L.eig(C(2, 2).requires_grad_())[1].real.sum().backward()
L.svd(C(2, 2).requires_grad_())[0].real.sum().backward()
"""  # noqa: E501


@pytest.mark.parametrize("text", [c for e in listed(ERRORS) for c in expanded(e, "M")])
def test_errors_are_of_torchs_kind(beside, text):
    beside.error(text)


def test_low_ranks():
    rng = np.random.default_rng(0)
    A = weft.from_numpy(rng.normal(size=(20, 3)) @ rng.normal(size=(3, 12)))
    for B in (A, A.T.contiguous(), A.to(weft.complex128)):
        U, S, V = weft.svd_lowrank(B, q=4)
        np.testing.assert_allclose(((U * S) @ V.mH).numpy(), B.numpy(), 1e-9, 1e-9)
        np.testing.assert_allclose(S[:3].numpy(), weft.linalg.svdvals(B)[:3].numpy(), 1e-9)
    U, S, V = weft.pca_lowrank(A, q=3)
    centred = A - A.mean(0)
    np.testing.assert_allclose(((U * S) @ V.T).numpy(), centred.numpy(), 1e-9, 1e-9)


def test_exponentials_of_large_matrices_and_batches_of_unlike_size():
    scale = weft.tensor([1e-8, 1.0, 30.0], dtype=weft.float64).reshape(3, 1, 1)
    A = scale * weft.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=weft.float64)
    out = weft.linalg.matrix_exp(A)
    for k, angle in enumerate((1e-8, 1.0, 30.0)):
        turn = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        np.testing.assert_allclose(out[k].numpy(), turn, 1e-13, 1e-13)
    assert weft.linalg.matrix_exp(weft.eye(2) * float("nan")).isnan().all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("norm", [0, 1e-9, 1e-4, 0.03, 0.2, 0.5, 0.9, 1.4, 2.5, 20])
def test_exponentials_of_every_degree(dtype, norm):
    """Each Taylor polynomial, beside a series of long doubles; a batch has its parts' bits."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((2, 6, 6)) + 1j * rng.standard_normal((2, 6, 6))
    A = (A if dtype.startswith("complex") else A.real) / np.abs(A).sum(-2).max() * norm
    A = A.astype(dtype)
    scaled = A.astype(np.clongdouble if dtype.startswith("complex") else np.longdouble) / 64
    series = term = np.broadcast_to(np.eye(6, dtype=scaled.dtype), A.shape)
    for k in range(1, 20):
        term = np.einsum("bij,bjk->bik", term, scaled) / k
        series = series + term
    for _ in range(6):
        series = np.einsum("bij,bjk->bik", series, series)
    out = weft.linalg.matrix_exp(weft.tensor(A))
    assert np.abs(out.numpy() - series).max() <= 20 * np.finfo(dtype).eps * np.abs(series).max()
    assert all(weft.equal(weft.linalg.matrix_exp(weft.tensor(A[k])), out[k]) for k in (0, 1))
