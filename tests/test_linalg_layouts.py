"""Linear algebra over sizes and layouts beside PyTorch: weft's own loops for small matrices, LAPACK
beyond; batches, broadcasts, matrices that lie otherwise, singular ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

SHAPES = (
    (1, 1), (2, 2), (3, 3), (4, 4), (7, 7), (24, 24), (25, 25), (65, 65), (2, 3, 3), (3, 1, 5, 5),
    (2, 30, 30), (0, 3, 3), (2, 0, 0),
)  # fmt: skip
RECTANGLES = ((3, 2), (2, 5), (30, 7), (7, 30), (2, 4, 3), (0, 3), (2, 26, 25), (25, 60), (2, 3, 0))
DTYPES = ("float32", "float64", "complex64", "complex128")
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: x,
    "transposed": lambda x: x.mT.contiguous().mT,
    "strided": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda x: x.expand(2, *x.shape),
}


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed + sum(shape))
    x = rng.normal(size=shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def positive(a: Any) -> Any:
    return a @ a.mH + a.shape[-1] * a.new_ones(())


def compare(mine: Any, theirs: Any, dtype: str) -> None:
    mine, theirs = ([*x] if isinstance(x, tuple) else [x] for x in (mine, theirs))
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype)
        at = 1e-9 if dtype in ("float64", "complex128") else 3e-3
        size = float(b.abs().max()) if b.numel() else 1
        np.testing.assert_allclose(a.numpy(), b.resolve_conj().numpy(), at, at * max(size, 1))


#: Of square matrices a, and b of their shape.
SQUARE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "inv": lambda L, a, b: tuple(L.inv_ex(a)),
    "solve": lambda L, a, b: tuple(L.solve_ex(a, b)),
    "solve one": lambda L, a, b: L.solve(a, b[..., :1]),
    "solve vectors": lambda L, a, b: L.solve(a, b.sum(-1)),
    "solve right": lambda L, a, b: L.solve(a, b, left=False),
    "solve, one for all": lambda L, a, b: L.solve(a, b.expand(3, *b.shape)[..., :2]),
    "solve, all by one": lambda L, a, b: L.solve(a.expand(3, *a.shape), b),
    "det": lambda L, a, b: L.det(a),
    "slogdet": lambda L, a, b: tuple(L.slogdet(a)),
    "lu_factor": lambda L, a, b: tuple(L.lu_factor_ex(a)),
    "lu": lambda L, a, b: tuple(L.lu(a)),
    "lu_solve": lambda L, a, b: L.lu_solve(*L.lu_factor(a), b),
    "lu_solve one": lambda L, a, b: L.lu_solve(*L.lu_factor(a), b[..., :1]),
    "lu_solve adjoint": lambda L, a, b: L.lu_solve(*L.lu_factor(a), b, adjoint=True),
    "lu_solve adjoint one": lambda L, a, b: L.lu_solve(*L.lu_factor(a), b[..., :1], adjoint=True),
    "lu_solve right": lambda L, a, b: L.lu_solve(*L.lu_factor(a), b, left=False),
    "lu_solve right adjoint": lambda L, a, b: L.lu_solve(
        *L.lu_factor(a), b, left=False, adjoint=True
    ),
    "cholesky": lambda L, a, b: tuple(L.cholesky_ex(positive(a))),
    "cholesky upper": lambda L, a, b: tuple(L.cholesky_ex(positive(a), upper=True)),
    "triangular upper": lambda L, a, b: L.solve_triangular(positive(a), b, upper=True),
    "triangular lower": lambda L, a, b: L.solve_triangular(positive(a), b, upper=False),
    "triangular vector": lambda L, a, b: L.solve_triangular(positive(a), b[..., :1], upper=True),
    "triangular right": lambda L, a, b: L.solve_triangular(positive(a), b, upper=True, left=False),
    "triangular unit": lambda L, a, b: L.solve_triangular(
        a / 50, b, upper=False, unitriangular=True
    ),
    "eigvalsh": lambda L, a, b: L.eigvalsh(a),
    "eigvalsh U": lambda L, a, b: L.eigvalsh(a, "U"),
    "eigh": lambda L, a, b: (lambda e: (e[1] * e[0].unsqueeze(-2)) @ e[1].mH)(L.eigh(a)),
    "eigh U": lambda L, a, b: (lambda e: (e[1] * e[0].unsqueeze(-2)) @ e[1].mH)(L.eigh(a, "U")),
    "eig": lambda L, a, b: (lambda e: e[1] * e[0].unsqueeze(-2) - a.to(e[1].dtype) @ e[1])(
        L.eig(a)
    ),
    "eig, of norm 1": lambda L, a, b: L.vector_norm(L.eig(a)[1], dim=-2),
    "eigvals": lambda L, a, b: L.eigvals(a).abs().sort().values,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices_are_as_pytorchs(torch: Any, name: str, dtype: str) -> None:
    for shape in SHAPES:
        a, b = numbers(shape, dtype), numbers(shape, dtype, 1)
        for layout, lay in LAYOUTS.items():
            if layout != "dense" and (0 in shape or shape[-1] > 30):
                continue
            mine, theirs = (
                SQUARE[name](t.linalg, lay(t.from_numpy(a.copy())), lay(t.from_numpy(b.copy())))
                for t in (weft, torch)
            )
            compare(mine, theirs, dtype)


#: Of any matrices.
ANY: dict[str, Callable[[Any, Any], Any]] = {
    "lu_factor": lambda L, a: tuple(L.lu_factor_ex(a)),
    "lu": lambda L, a: tuple(L.lu(a)),
    "svdvals": lambda L, a: L.svdvals(a),
    "svd": lambda L, a: (lambda s: (s[0] * s[1].unsqueeze(-2)) @ s[2])(L.svd(a, False)),
    "svd, orthonormal": lambda L, a: (lambda s: (s[0].mH @ s[0], s[2] @ s[2].mH))(L.svd(a)),
    "qr": lambda L, a: tuple(L.qr(a)),
    "qr complete": lambda L, a: tuple(L.qr(a, "complete")),
    "qr r": lambda L, a: tuple(L.qr(a, "r")),
    "pinv": lambda L, a: L.pinv(a),
    "rank": lambda L, a: L.matrix_rank(a),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ANY)
def test_any_matrices_are_as_pytorchs(torch: Any, name: str, dtype: str) -> None:
    for shape in RECTANGLES + SHAPES:
        a = numbers(shape, dtype)
        for lay in LAYOUTS.values() if 0 not in shape else (LAYOUTS["dense"],):
            mine, theirs = (ANY[name](t.linalg, lay(t.from_numpy(a.copy()))) for t in (weft, torch))
            compare(mine, theirs, dtype)


FAILING = """
L.inv(a); L.inv(batch); L.solve(a, a); L.solve(batch, batch); L.cholesky(-a - eye);
L.cholesky(batch - 9 * eye); L.eig(a / 0); L.svd(a / 0); L.svdvals(batch / 0)
"""


@pytest.mark.parametrize("size", (3, 30))
@pytest.mark.parametrize(
    "text", [c.strip() for c in FAILING.replace("\n", ";").split(";") if c.strip()]
)
def test_errors_say_pytorchs_sentence(torch: Any, text: str, size: int) -> None:
    said = []
    for t in (torch, weft):
        eye = t.eye(size, dtype=t.float64)
        names = {"L": t.linalg, "a": eye - eye[:1], "eye": eye, "batch": t.stack([eye, 0 * eye])}
        names["a"] = t.diag(t.arange(size).flip(0).double())
        with pytest.raises(Exception) as caught:
            eval(text, names)
        said.append((type(caught.value).__name__.strip("_"), str(caught.value)))
    assert said[0][0] == said[1][0], said
    assert said[0][1].removeprefix("torch.") in said[1][1], said


@pytest.mark.parametrize("size", (3, 30))
def test_a_singular_matrix_harms_no_other(size: int) -> None:
    one = weft.eye(size) * 2
    batch = weft.stack([one, one * 0, one])
    inverse, info = weft.linalg.inv_ex(batch)
    assert info.tolist() == [0, 1, 0]
    assert inverse[1].isnan().all() and bool((inverse[::2] == weft.eye(size) / 2).all())
    X, info = weft.linalg.solve_ex(batch, one.expand_as(batch))
    assert info.tolist() == [0, 1, 0]
    assert X[1].isnan().all() and bool((X[::2] == weft.eye(size)).all())


@pytest.mark.parametrize("size", (3, 30))
@pytest.mark.parametrize("upper", (False, True))
def test_a_factor_that_fails_keeps_its_first_minors(size: int, upper: bool) -> None:
    A = weft.eye(size, dtype=weft.float64)
    A[2, 2] = -1
    factor, info = weft.linalg.cholesky_ex(A, upper=upper)
    assert int(info) == 3
    assert bool((factor == weft.diag(weft.tensor([1.0, 1.0] + [0.0] * (size - 2)))).all())


@pytest.mark.parametrize("size", (3, 30))
def test_examples_of_a_batch_have_their_own_errors(size: int) -> None:
    """The place in the error is that in the example's own tensor, not in the merged one."""

    def f(a: weft.Tensor) -> str:
        try:
            return str(weft.linalg.inv(a).sum().item())
        except weft.linalg.LinAlgError as error:
            return "Batch element 1" * ("(Batch element 1)" in str(error))

    good = weft.stack([weft.eye(size), weft.eye(size)])
    bad = weft.stack([weft.eye(size), weft.zeros(size, size)])
    assert weft.autobatch(f)([good, good, bad, good])[2] == "Batch element 1"


def test_many_threads_give_the_same_bits() -> None:
    a = weft.from_numpy(numbers((64, 26, 26), "float64"))
    was, found = weft.get_num_threads(), []
    for count in (1, 4):
        weft.set_num_threads(count)
        found.append([weft.linalg.inv(a), weft.linalg.eigvalsh(a), *weft.linalg.svd(a)])
    weft.set_num_threads(was)
    for one, other in zip(*found, strict=True):
        assert bool((one == other).all())


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("driver", DRIVERS)
def test_least_squares_are_as_pytorchs(torch: Any, driver: str, dtype: str) -> None:
    for shape in ((3, 3), (5, 2), (2, 5), (40, 30), (2, 6, 3), (2, 1, 4, 4)):
        a, b = numbers(shape, dtype), numbers((*shape[:-1], 3), dtype, 1)
        mine, theirs = (
            tuple(t.linalg.lstsq(t.from_numpy(a), t.from_numpy(b), driver=driver))
            for t in (weft, torch)
        )
        for one, other in zip(mine, theirs, strict=True):
            if other.numel() or one.numel():
                compare(one, other, dtype)


def test_least_squares_count_the_rank() -> None:
    a = weft.ones(4, 3, dtype=weft.float64)
    a[0, 1] = 2
    b = weft.ones(4, 1, dtype=weft.float64)
    for driver in DRIVERS[1:]:
        found = weft.linalg.lstsq(a, b, driver=driver)
        assert int(found.rank) == 2
    with pytest.raises(weft.linalg.LinAlgError, match="does not have full rank"):
        weft.linalg.lstsq(a * weft.tensor([1.0, 1.0, 0.0]), b, driver="gels")


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("driver", ("gelsy", "gels"))
@pytest.mark.parametrize("shape", ((150, 40), (70, 70), (2, 3, 90, 33)))
def test_least_squares_of_full_rank_need_no_pivots(
    shape: tuple[int, ...], driver: str, dtype: str
) -> None:
    a, b = numbers(shape, dtype), numbers((*shape[:-1], 3), dtype, 1)
    found = weft.linalg.lstsq(weft.tensor(a), weft.tensor(b), driver=driver)
    exact = np.linalg.pinv(a.astype("float64")) @ b
    assert np.abs(found.solution.numpy() - exact).max() < 1e6 * np.finfo(dtype).eps
    if driver == "gelsy":
        assert (found.rank.numpy() == shape[-1]).all()


@pytest.mark.parametrize("gap", (0.0, 1e-12))
def test_least_squares_of_a_lower_rank_are_the_shortest(gap: float) -> None:
    a, b = numbers((3, 120, 50), "float64"), numbers((3, 120, 2), "float64", 1)
    a[1, :, 20] = a[1, :, 30] + gap * a[1, :, 40]
    found = weft.linalg.lstsq(weft.tensor(a), weft.tensor(b), rcond=1e-10)
    assert found.rank.tolist() == [50, 49, 50]
    expected = np.linalg.pinv(a, rcond=1e-10) @ b
    assert np.abs(found.solution.numpy() - expected).max() < 1e-9


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hermitian", (False, True))
def test_ldl_factors_are_as_pytorchs(torch: Any, hermitian: bool, dtype: str) -> None:
    for shape in ((1, 1), (5, 5), (2, 7, 7), (40, 40), (2, 0, 0)):
        a, b = numbers(shape, dtype), numbers((*shape[:-1], 2), dtype, 1)
        made = []
        for t in (weft, torch):
            x = t.from_numpy(a.copy())
            x = x + (x.mH if hermitian else x.mT)
            factors = t.linalg.ldl_factor_ex(x, hermitian=hermitian)
            X = t.linalg.ldl_solve(factors[0], factors[1], t.from_numpy(b), hermitian=hermitian)
            made.append((*factors, X))
        compare(*made, dtype)


@pytest.mark.parametrize("pivots", ((-1, 2, 3), (0, 2, 3), (1, 2, 4), (1, 2, -3), (1, -2, -3)))
def test_swaps_that_are_none_of_lapacks_are_refused(pivots: tuple[int, ...]) -> None:
    swaps = weft.tensor(pivots, dtype=weft.int32)
    with pytest.raises(RuntimeError, match="swaps"):
        weft.linalg.ldl_solve(weft.eye(3), swaps, weft.ones(3, 1))


@pytest.mark.parametrize("dtype", ("float64", "complex128"))
@pytest.mark.parametrize("shape", ((3, 3), (4, 2), (2, 5, 3), (70, 3)))
def test_products_of_reflections_are_as_pytorchs(
    torch: Any, shape: tuple[int, ...], dtype: str
) -> None:
    made = []
    for t in (weft, torch):
        a, tau = t.geqrf(t.from_numpy(numbers(shape, dtype)))
        a, tau = a.requires_grad_(), tau.requires_grad_()
        Q = t.linalg.householder_product(a, tau)
        weight = t.from_numpy(numbers(shape, dtype, 2))
        grads = t.autograd.grad((Q * weight).abs().square().sum(), (a, tau))
        made.append((a.detach(), tau.detach(), Q.detach(), *grads))
    compare(*made, dtype)


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize(
    "shape", ((70, 70), (300, 64), (65, 200), (300, 150), (1000, 5), (5000, 1), (2, 100, 81))
)
def test_factors_in_blocks_are_lapacks(shape: tuple[int, ...], dtype: str) -> None:
    """By our own products: columns in panels, panels in blocks; of few columns by LAPACK."""
    a = numbers(shape, dtype)
    k, tolerance = min(shape[-2:]), 200 * np.finfo(dtype).eps
    Q, R = (t.numpy() for t in weft.linalg.qr(weft.tensor(a), mode="complete"))
    assert np.abs(Q @ R - a).max() < tolerance
    assert np.abs(np.swapaxes(Q, -1, -2) @ Q - np.eye(shape[-2])).max() < tolerance
    assert np.abs(R[..., :k, :] - np.linalg.qr(a)[1]).max() < 10 * tolerance
    again = weft.linalg.householder_product(*weft.geqrf(weft.tensor(a[..., :k])))
    assert np.abs(again.numpy() - Q[..., :k]).max() < tolerance
    assert np.abs(weft.linalg.qr(weft.tensor(a))[0].numpy() - Q[..., :k]).max() < tolerance


@pytest.mark.parametrize("scale", (0.0, 1e-35, 1e-22, 1e22, 1e35))
def test_factors_in_blocks_of_columns_of_any_size(scale: float) -> None:
    """Squares of some are no float32; one column is twice there, one is e."""
    a = numbers((200, 100), "float32")
    a[:, 3::5] *= scale
    a[:, 40] = a[:, 7]
    a[:, 50] = np.arange(200) == 0
    Q, R = (t.double().numpy() for t in weft.linalg.qr(weft.tensor(a)))
    assert np.abs(Q.T @ Q - np.eye(100)).max() < 1e-5
    sizes = np.linalg.norm(a.astype(float), axis=0) + (scale == 0)
    assert (np.abs(Q @ R - a).max(0) < 1e-5 * sizes).all()


def test_small_singular_values_of_any_size() -> None:
    """Rotated, not LAPACK's: neither overflow nor underflow spoils them."""
    one = weft.tensor([[3.0, 0.0, 1.0], [0.0, 4.0, 0.0]], dtype=weft.float64)
    expected = weft.tensor([4.0, 10**0.5], dtype=weft.float64)
    for scale in (1.0, 1e300, 1e-300):
        found = weft.linalg.svdvals(weft.stack([one * scale, (one * scale).flip(1)])) / scale
        assert weft.allclose(found, expected.expand(2, 2), rtol=1e-14)
    assert weft.linalg.svdvals(one * 0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("shape", ((256, 64), (2, 41, 100), (90, 60), (3000, 1), (1, 1030)))
def test_singular_values_of_long_matrices(shape: tuple[int, ...], dtype: str) -> None:
    a = numbers(shape, dtype)
    tolerance = 50 * np.finfo(dtype).eps
    values = np.linalg.svd(a.astype("float64"), compute_uv=False)
    x = weft.tensor(a)
    U, S, Vh = (t.numpy() for t in weft.linalg.svd(x, full_matrices=False))
    for found in (S, weft.linalg.svdvals(x).numpy()):
        assert np.abs(found - values).max() < tolerance * values.max()
    assert np.abs(U * S[..., None, :] @ Vh - a).max() < tolerance * values.max()
    for rows in (np.swapaxes(U, -1, -2), Vh):
        assert np.abs(rows @ np.swapaxes(rows, -1, -2) - np.eye(rows.shape[-2])).max() < tolerance
    with pytest.raises(weft.linalg.LinAlgError):
        weft.linalg.svdvals(weft.where(x == x.max(), float("nan"), x))


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("scale", (0.0, 1e-30, 1.0, 1e30))
@pytest.mark.parametrize("n", (3, 31, 64))
def test_eigenvalues_of_small_symmetric_matrices(n: int, scale: float, dtype: str) -> None:
    """Made tridiagonal by our own loops, but where squares are no numbers of the type."""
    a = numbers((2, n, n), dtype) * np.dtype(dtype).type(scale)
    a[1, 2:] = 0
    for triangle in "LU":
        whole = np.tril(a) if triangle == "L" else np.swapaxes(np.triu(a), -1, -2)
        whole = (whole + np.swapaxes(np.tril(whole, -1), -1, -2)).astype("float64")
        values = np.linalg.eigvalsh(whole)
        tolerance = 50 * np.finfo(dtype).eps * np.abs(values).max()
        found, V = (t.double().numpy() for t in weft.linalg.eigh(weft.tensor(a), UPLO=triangle))
        alone = weft.linalg.eigvalsh(weft.tensor(a), UPLO=triangle).numpy()
        assert np.abs(found - values).max() <= tolerance
        assert np.abs(alone - values).max() <= tolerance
        assert np.abs(V * found[:, None] @ np.swapaxes(V, -1, -2) - whole).max() <= tolerance
        assert np.abs(np.swapaxes(V, -1, -2) @ V - np.eye(n)).max() < 50 * np.finfo(dtype).eps


@pytest.mark.parametrize("size", (2, 30))
def test_determinants_of_what_is_not_finite(torch: Any, size: int) -> None:
    for value in (float("nan"), float("inf"), -float("inf")):
        made = []
        for t in (weft, torch):
            a = t.eye(size) * 2
            a[1, 1] = value
            made.append((t.linalg.det(a), *t.linalg.slogdet(a)))
        for one, other in zip(*made, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
