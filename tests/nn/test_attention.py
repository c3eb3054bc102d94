"""Scaled dot-product attention: PyTorch's values and gradients, and the fused way against the
composed one, which a mask that wants a gradient selects."""

import math

import numpy as np
import pytest

import weft
from weft.nn import functional as F

torch = pytest.importorskip("torch")

SHAPES = [  # query, key, value
    ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4)),
    ((1, 2, 300, 16), (1, 2, 300, 16), (1, 2, 300, 24)),  # more than one block of each kind
    ((1, 1, 7, 4), (1, 1, 600, 4), (1, 1, 600, 4)),
    ((1, 1, 600, 4), (1, 1, 7, 4), (1, 1, 7, 4)),
    ((4, 5, 8), (4, 6, 8), (4, 6, 8)),
    ((5, 8), (6, 8), (6, 8)),
    ((2, 2, 2, 3, 4), (2, 2, 2, 3, 4), (2, 2, 2, 3, 4)),
    ((2, 3, 1, 1), (2, 3, 1, 1), (2, 3, 1, 1)),
    ((2, 3, 0, 4), (2, 3, 5, 4), (2, 3, 5, 4)),
]
MASKS = ["none", "causal", "bool", "float", "broadcast", "blind row"]


def mask_of(kind, q, k, rng):
    shape = (q[-2], k[-2])
    if kind == "bool":
        mask = rng.random(shape) < 0.7
        mask[:, 0] = True
        return mask
    if kind == "float":
        return rng.normal(size=shape)
    if kind == "broadcast":
        return rng.normal(size=(1,) * (len(q) - 2) + (1, k[-2]))
    if kind == "blind row":
        mask = np.ones(shape, bool)
        mask[:1] = False
        return mask
    return None


def run(lib, arrays, mask, causal, grad_of_mask=False, **options):
    function = lib.nn.functional.scaled_dot_product_attention
    leaves = [lib.from_numpy(a.copy()).requires_grad_() for a in arrays]
    m = None if mask is None else lib.from_numpy(mask.copy())
    if grad_of_mask:
        m.requires_grad_()
    out = function(*leaves, attn_mask=m, is_causal=causal, **options)
    cotangent = np.random.default_rng(9).normal(size=tuple(out.shape))
    out.backward(lib.from_numpy(cotangent).to(out.dtype))
    return [out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


@pytest.mark.parametrize("mask_kind", MASKS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_and_gradients_are_pytorchs(shapes, mask_kind, dtype):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(dtype) for s in shapes]
    mask = mask_of(mask_kind, *shapes[:2], rng)
    if mask is not None and mask.dtype != bool:
        mask = mask.astype(dtype)
    causal = mask_kind == "causal"
    expected = run(torch, arrays, mask, causal)
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    for got, want in zip(run(weft, arrays, mask, causal), expected):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shapes", SHAPES[:4], ids=str)
def test_the_composed_way_agrees(shapes):
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=s) for s in shapes]
    mask = rng.normal(size=(shapes[0][-2], shapes[1][-2]))
    fused, composed = (run(weft, arrays, mask, False, grad_of_mask=g) for g in (False, True))
    for a, b in zip(fused, composed):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_operands_that_are_transposed_views():
    x = weft.randn(2, 9, 3 * 8, dtype=weft.float64, requires_grad=True)

    def heads(lib, t):
        q, k, v = (p.reshape(2, 9, 2, 4).transpose(1, 2) for p in t.chunk(3, -1))
        out = lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).reshape(2, 9, 8)

    y = torch.from_numpy(x.detach().numpy().copy()).requires_grad_()
    a, b = heads(weft, x), heads(torch, y)
    a.square().sum().backward()
    b.square().sum().backward()
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-11, atol=1e-13)


def test_shared_heads_of_key_and_value():
    rng = np.random.default_rng(2)
    arrays = [rng.normal(size=(2, h, 5, 4)) for h in (6, 2, 2)]
    options = {"enable_gqa": True, "scale": 0.3}
    for got, want in zip(
        run(weft, arrays, None, True, **options), run(torch, arrays, None, True, **options)
    ):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_dropout_draws_pytorchs_numbers():
    arrays = [np.random.default_rng(3).normal(size=(2, 2, 5, 4)) for _ in range(3)]
    results = []
    for lib in (weft, torch):
        lib.manual_seed(7)
        results.append(run(lib, arrays, None, False, dropout_p=0.4))
    for got, want in zip(*results):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_second_derivatives():
    q, k, v = (weft.randn(1, 2, 3, 2, dtype=weft.float64, requires_grad=True) for _ in range(3))
    mask = weft.randn(3, 3, dtype=weft.float64)
    assert weft.autograd.gradgradcheck(
        lambda *t: F.scaled_dot_product_attention(*t, attn_mask=mask), (q, k, v)
    )
    assert weft.autograd.gradgradcheck(
        lambda *t: F.scaled_dot_product_attention(*t, is_causal=True), (q, k, v)
    )


@pytest.mark.parametrize(("arguments", "kind"), [
    ((weft.ones(3), weft.ones(3), weft.ones(3)), RuntimeError),
    ((weft.ones(3, 4), weft.ones(3, 5), weft.ones(3, 5)), RuntimeError),
    ((weft.ones(3, 4), weft.ones(3, 4), weft.ones(2, 4)), RuntimeError),
    ((weft.ones(3, 4), weft.ones(3, 4), weft.ones(3, 4).double()), RuntimeError),
    ((weft.ones(3, 4), weft.ones(3, 4), weft.ones(3, 4), weft.ones(5, 5)), RuntimeError),
    ((weft.ones(3, 4), weft.ones(3, 4), weft.ones(3, 4), weft.ones(3, 3), 0.0, True), RuntimeError),
])  # fmt: skip
def test_bad_input(arguments, kind):
    with pytest.raises(kind):
        F.scaled_dot_product_attention(*arguments)


def test_scale_by_default():
    x = weft.randn(3, 4, dtype=weft.float64)
    explicit = F.scaled_dot_product_attention(x, x, x, scale=1 / math.sqrt(4))
    assert weft.equal(F.scaled_dot_product_attention(x, x, x), explicit)
