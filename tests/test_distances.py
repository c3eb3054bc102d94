"""cdist beside PyTorch's: every norm, every way it is computed, gradients of both operands."""

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

MODES = ["use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist"]
SHAPES = [
    ((3, 4), (5, 4)), ((30, 3), (70, 3)), ((30, 40), (28, 40)), ((2, 3, 4), (2, 5, 4)),
    ((2, 1, 3, 4), (3, 5, 4)), ((3, 4), (0, 4)), ((2, 0), (3, 0)), ((0, 3, 2), (0, 4, 2)),
]  # fmt: skip


def both(shapes, p, mode="use_mm_for_euclid_dist_if_necessary", change=lambda *values: None):
    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape) for shape in shapes]
    change(*values)
    results = []
    for lib in (weft, torch):
        a, b = (lib.from_numpy(v.copy()).requires_grad_() for v in values)
        y = lib.cdist(a, b, p, mode)
        y.backward(lib.from_numpy(np.random.default_rng(1).normal(size=tuple(y.shape))))
        results.append([t.detach().numpy() for t in (y, a.grad, b.grad)])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("p", [0.7, 1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_distances_and_gradients(shapes, p, mode):
    both(shapes, p, mode)


@pytest.mark.parametrize("p", [1.0, 2.0, float("inf")])
def test_equal_points_have_no_gradient(p):
    def equal(a, b):
        b[1] = a[2]

    both(((3, 4), (5, 4)), p, change=equal)


def test_of_equal_differences_each_has_the_whole_gradient():
    def tie(a, b):
        a[0], b[0] = 0, 2

    both(((3, 4), (5, 4)), float("inf"), change=tie)


@pytest.mark.parametrize("p", [1.0, 2.0, float("inf")])
def test_second_derivatives(p):
    weft.manual_seed(0)
    a, b = (weft.randn(*s, dtype=weft.float64, requires_grad=True) for s in ((3, 2), (4, 2)))
    assert weft.autograd.gradgradcheck(lambda a, b: weft.cdist(a, b, p), (a, b))


@pytest.mark.parametrize("p", [1.0, 2.0, float("inf")])
def test_the_same_bits_on_any_number_of_threads(p):
    before, results = weft.get_num_threads(), []
    weft.manual_seed(0)
    a, b = weft.randn(300, 30, requires_grad=True), weft.randn(200, 30, requires_grad=True)
    try:
        for threads in (1, 2, 3):
            weft.set_num_threads(threads)
            y = weft.cdist(a, b, p)
            results.append([y, *weft.autograd.grad(y.square().sum(), (a, b))])
    finally:
        weft.set_num_threads(before)
    for other in results[1:]:
        assert all(weft.equal(x, y) for x, y in zip(results[0], other, strict=True))
