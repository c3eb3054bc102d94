"""Linear algebra beside PyTorch's: values, gradients to second order, kinds of errors."""

from __future__ import annotations

import numpy as np
import pytest

import weft

pytestmark = pytest.mark.filterwarnings("ignore:torch.:UserWarning")  # its deprecated names
X = np.random.default_rng(5).normal(size=400)


def made(t, text, grad=False):
    """Tensors in a call's text: M(shape) any, P(n) positive-definite, S(n) symmetric."""
    leaves = []
    at = [0]

    def M(*sizes):
        n = int(np.prod(sizes))
        values = X[at[0] : at[0] + n].reshape(sizes)
        at[0] += n
        x = t.tensor(values, dtype=t.float64)
        if grad:
            leaves.append(x.requires_grad_())
        return x

    def S(*sizes):
        x = M(*sizes)
        return x + x.mT

    def P(*sizes):
        x = M(*sizes)
        return x @ x.mT + t.eye(sizes[-1], dtype=t.float64)

    out = eval(text, {"L": t.linalg, "t": t, "M": M, "S": S, "P": P, "inf": float("inf")})
    return out, leaves


CALLS = """
L.solve(M(3, 3), M(3, 2)); L.solve(M(3, 3), M(3)); L.solve(M(2, 3, 3), M(2, 3))
L.solve(M(3, 3), M(2, 3, 1)); L.solve(M(2, 3, 3), M(3, 2)); L.solve(M(3, 3), M(2, 3), left=False)
L.solve_ex(M(3, 3), M(3, 2))[0]; L.inv(M(3, 3)); L.inv(M(2, 1, 3, 3)); L.inv_ex(M(2, 2))[0]
L.det(M(3, 3)); L.det(M(2, 4, 4)); L.det(M(3, 1) @ M(1, 3)); L.slogdet(M(3, 3))[1]
L.slogdet(M(2, 3, 3)); L.cholesky(P(3, 3)); L.cholesky(P(2, 3, 3), upper=True)
L.cholesky_ex(P(3, 3))[0]; L.qr(M(3, 3)); L.qr(M(4, 2)); L.qr(M(2, 4)); L.qr(M(2, 3, 3))
L.qr(M(3, 3), mode='complete'); L.svdvals(M(3, 2)); L.svdvals(M(2, 2, 4)); L.svd(M(3, 3))[1]
L.eigvalsh(S(3, 3)); L.eigvalsh(S(2, 4, 4), UPLO='U'); L.eigh(S(3, 3))[0]
L.solve_triangular(M(3, 3), M(3, 2), upper=True); L.solve_triangular(M(3, 3), M(3, 2), upper=False)
L.solve_triangular(M(3, 3), M(2, 3), upper=True, left=False)
L.solve_triangular(M(2, 3, 3), M(3, 2), upper=True, unitriangular=True)
L.solve_triangular(M(3, 3), M(3, 2), upper=False, unitriangular=True)
L.pinv(M(3, 2)); L.pinv(M(2, 2, 3)); L.pinv(M(3, 3)); L.pinv(M(3, 3), rtol=0.4)
L.pinv(S(3, 3), hermitian=True)
L.lstsq(M(4, 2), M(4, 3))[0]; L.lstsq(M(4, 2), M(4, 3)); L.lstsq(M(2, 4), M(2, 1))[0]
L.lstsq(M(2, 4, 2), M(2, 4, 3))[0]; L.lstsq(M(4, 2), M(4), driver='gelsd');
L.lstsq(M(4, 2), M(4, 3), driver='gels'); L.matrix_rank(M(3, 4)); L.matrix_rank(M(3, 1) @ M(1, 3))
L.matrix_rank(M(3, 1) @ M(1, 3) + S(3, 3) * 1e-3, tol=0.1); L.matrix_rank(S(3, 3), hermitian=True)
L.vector_norm(M(2, 3)); L.vector_norm(M(2, 3), 3, 1); L.vector_norm(M(4), inf)
L.matrix_norm(M(3, 2)); L.matrix_norm(M(3, 2), 1); L.matrix_norm(M(3, 2), -1)
L.matrix_norm(M(3, 2), inf); L.matrix_norm(M(3, 2), -inf); L.matrix_norm(M(3, 2), 'nuc')
L.matrix_norm(M(2, 3, 2), 2); L.matrix_norm(M(3, 2), -2); L.matrix_norm(M(2, 3, 2), 'fro', (0, 2))
L.matrix_norm(M(2, 3, 4), 1, (0, 1), keepdim=True); L.matrix_norm(M(2, 3, 4), 2, (2, 0), True)
L.norm(M(2, 3, 2)); L.norm(M(3, 2), 2); L.norm(M(3, 2), 'nuc'); L.norm(M(4), 1)
L.norm(M(2, 3), None, 1); L.norm(M(2, 3), 1, (0, 1)); L.norm(M(2, 3), keepdim=True)
L.cond(M(3, 3)); L.cond(M(3, 3), 1); L.cond(M(3, 3), 'fro'); L.cond(M(3, 2), -2)
L.matrix_power(M(3, 3), 5); L.matrix_power(M(3, 3), -2); L.matrix_power(M(2, 3, 3), 0)
L.matrix_power(M(3, 3), 1); L.multi_dot([M(2, 3), M(3, 4), M(4, 2)]); L.vander(M(3))
L.multi_dot([M(3), M(3, 4), M(4)]); L.multi_dot([M(2, 3), M(3)]); L.cross(M(2, 3), M(2, 3))
L.cross(M(3, 2), M(3, 2), dim=0); L.diagonal(M(2, 3, 3), offset=1); L.vecdot(M(2, 3), M(3))
L.vander(M(2, 3), N=4); L.tensorinv(M(2, 3, 6)); L.tensorinv(M(6, 2, 3), ind=1)
L.tensorsolve(M(2, 3, 6), M(2, 3)); L.tensorsolve(M(2, 6, 3), M(2, 3), dims=(1,))
L.inv(M(0, 3, 3)); L.det(M(2, 0, 0)); L.solve(M(0, 0), M(0, 2)); L.pinv(M(0, 3)); L.qr(M(0, 2, 2))
"""
CALLS += """
t.inverse(M(3, 3)); t.det(M(3, 3)); t.logdet(P(3, 3)); t.pinverse(M(3, 2)); t.cholesky(P(3, 3))
t.svd(M(3, 2))[1]; t.svd(M(3, 2), compute_uv=False)[1]; t.cholesky_inverse(M(3, 3).tril())
t.cholesky_solve(M(3, 2), M(3, 3).tril()); t.cholesky_solve(M(3, 2), M(3, 3).triu(), upper=True)
t.slogdet(M(3, 3))[1]; t.matrix_power(M(3, 3), 2); M(3, 3).inverse(); M(3, 3).det(); t.qr(M(3, 3))
M(3, 3).matrix_power(3); P(3, 3).logdet(); t.logdet(-P(1, 1)); M(3, 2).pinverse()
"""
CASES = [c.strip() for c in CALLS.replace("\n", ";").split(";") if c.strip()]
# Products of factors that do not depend on the factors' signs.
CASES += [
    "(lambda u: u.Q.abs() @ u.R.abs())(L.qr(M(4, 3)))",
    "(lambda e: e[1].square() @ e[0].exp())(L.eigh(S(3, 3)))",
    "(lambda s: (s[0].abs() * s[1]) @ s[2].abs())(L.svd(M(4, 3), full_matrices=False))",
    "(lambda s: (s[0].abs() * s[1]) @ s[2].abs())(L.svd(M(2, 4), full_matrices=False))",
]


def flat(out):
    return list(out) if isinstance(out, tuple) else [out]


def compare(a, b, rtol=1e-9, atol=1e-10):
    assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype)
    np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol, atol)


@pytest.mark.parametrize("text", CASES)
def test_values_are_those_of_torch(torch, text):
    ours, theirs = flat(made(weft, text)[0]), flat(made(torch, text)[0])
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        compare(a, b)


def gradients(t, text, order):
    outs, leaves = made(t, text, grad=True)
    outs = flat(outs)
    rng = np.random.default_rng(1)
    for _ in range(order):
        total = None
        for out in outs:
            weight = t.tensor(rng.normal(size=tuple(getattr(out, "shape", ()))))
            if out is not None and out.requires_grad:
                part = (out * weight).sum()
                total = part if total is None else total + part
        if total is None:
            return []
        outs = t.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    return list(outs)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("text", CASES)
def test_gradients_are_those_of_torch(torch, text, order):
    if order == 2 and "M(3, 1) @" in text:
        pytest.skip("a singular matrix: the second derivative of det is not taken through the SVD")
    ours = gradients(weft, text, order)
    try:
        theirs = gradients(torch, text, order)
    except RuntimeError as error:
        assert "inplace operation" in str(error)  # cond writes into what inv has saved
        pytest.skip("PyTorch cannot differentiate this call")
    width = max(len(ours), len(theirs))  # without any gradient: zeros here, nothing there
    ours += [None] * (width - len(ours))
    theirs += [None] * (width - len(theirs))
    for a, b in zip(ours, theirs):
        if a is None or b is None:
            other = b if a is None else a
            assert other is None or float(other.detach().abs().sum()) == 0
        else:
            compare(a, b, 1e-6, 1e-7)


ERRORS = """
L.solve(t.ones(2, 2), M(2)); L.solve(M(2, 3), M(2)); L.solve(M(2, 2), M(3, 1)); L.inv(t.zeros(2, 2))
L.inv(M(2, 3)); L.inv(M(3)); L.det(M(2, 3)); L.det(t.ones(2, 2, dtype=t.int64))
L.cholesky(-t.eye(2)); L.cholesky(M(2, 3)); L.qr(M(3)); L.qr(M(3, 3), 'full'); L.svd(M(3))
L.eigh(M(2, 3)); L.matrix_norm(M(3)); L.matrix_norm(M(3, 3), 5); L.norm(M(2, 3, 4), 2)
L.matrix_norm(M(3, 3), 'max'); L.matrix_norm(M(3, 3), dim=(0, 0)); L.matrix_power(M(2, 3), 2)
L.multi_dot([M(2, 2)]); L.multi_dot([M(2, 2), M(2, 2, 2)]); L.cross(M(2), M(2)); L.pinv(M(3))
L.lstsq(M(3, 2), M(4, 2)); L.lstsq(M(3, 2), M(3, 2), driver='best'); L.tensorinv(M(2, 3), ind=0)
L.solve_triangular(M(2, 3), M(2, 2), upper=True); L.vander(M(3), N=1); L.slogdet(M(3))
"""


@pytest.mark.parametrize(
    "text", [c.strip() for c in ERRORS.replace("\n", ";").split(";") if c.strip()]
)
def test_errors_are_of_torchs_kind(torch, text):
    kinds = []
    for t in (torch, weft):
        with pytest.raises(Exception) as caught:
            made(t, text)
        kinds.append((type(caught.value).__name__.strip("_"), str(caught.value)))
    assert kinds[0][0] == kinds[1][0], kinds
    assert kinds[1][1].startswith("[linalg."), kinds


@pytest.mark.parametrize(
    ("call", "node"),
    [
        ("L.solve(M(2, 2), M(2, 1))", "LinalgSolveExBackward0"),
        ("L.inv(M(2, 2))", "LinalgInvExBackward0"),
        ("L.det(M(2, 2))", "LinalgDetBackward0"),
        ("L.slogdet(M(2, 2))[1]", "LinalgSlogdetBackward0"),
        ("L.cholesky(P(2, 2))", "LinalgCholeskyExBackward0"),
        ("L.qr(M(2, 2))[1]", "LinalgQrBackward0"),
        ("L.svdvals(M(2, 2))", "LinalgSvdBackward0"),
        ("L.eigvalsh(S(2, 2))", "LinalgEighBackward0"),
    ],
)
def test_nodes_are_named_as_torchs(torch, call, node):
    for t in (torch, weft):
        assert made(t, call, grad=True)[0].grad_fn.name() == node


def test_float32_stays():
    for f in (weft.linalg.inv, weft.linalg.det, weft.linalg.svdvals, weft.linalg.pinv):
        assert f(weft.eye(3)).dtype == weft.float32


def test_records_are_listed_with_the_tables():
    names = {r["name"] for r in weft._library_ops.records()}
    assert {"mul", "linalg_svd", "linalg_det"} <= names


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n, k", [(40, 2), (64, 3), (97, 5), (300, 16)])
def test_systems_of_few_columns_are_solved_in_blocks(dtype, n, k):
    """Both triangles and their transposes; what lies in the other triangle is not read."""
    rng = np.random.default_rng(n)
    full = (rng.standard_normal((n, n)) / n + np.eye(n)).astype(dtype)
    B = rng.standard_normal((n, k)).astype(dtype)
    near = 200 * np.finfo(dtype).eps
    for upper in (False, True):
        T = np.triu(full) if upper else np.tril(full)
        A = weft.tensor(T + np.where(T == 0, np.nan, 0).astype(dtype))
        for unit in (False, True):
            M = T - np.diag(np.diag(T)) + np.eye(n, dtype=dtype) if unit else T
            X = weft.linalg.solve_triangular(A, weft.tensor(B), upper=upper, unitriangular=unit)
            assert np.abs(M @ X.numpy() - B).max() <= near * np.abs(B).max()
        X = weft.cholesky_solve(weft.tensor(B), weft.tensor(T), upper=upper).numpy()
        product = T.T @ (T @ X) if upper else T @ (T.T @ X)
        assert np.abs(product - B).max() <= near * np.abs(B).max()
