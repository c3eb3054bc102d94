"""Attention and normalization in odd sizes, masks and dtypes, with the operators of opset 23 and
without: ONNX Runtime gives what eager gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from weft.onnx import export  # noqa: E402

F, R = nn.functional, weft.randn
onnxruntime.set_default_logger_severity(4)
WITH_MASK = [
    ((4, 5), True), ((1, 5), True), ((4, 1), True), ((5,), True), ((1,), True), ((3, 1, 5), False),
    ((2, 1, 4, 5), True), ((1, 1, 1, 5), False), ((4, 1), False), ((5,), False), ((1, 5), False),
]  # fmt: skip


def rows(*batch: int, q: int = 4, k: int = 5, dtype: weft.dtype = weft.float32) -> Any:
    return tuple(R(*batch, n, 8).to(dtype) for n in (q, k, k))


def agrees(f: Callable[..., Any], args: Any, opset: int, uses: str = "", **words: Any) -> None:
    calls = [args, *words.pop("more", ())]
    made = export(f, args, opset_version=opset, **words).model_proto
    if uses:
        assert (uses in {n.op_type for n in made.graph.node}) == (opset == 23)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    for given in calls:
        fed = {i.name: t.numpy() for i, t in zip(session.get_inputs(), given, strict=True)}
        (got,), wanted = session.run(None, fed), f(*given).numpy()
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        close = 1e-2 if weft.float16 in {t.dtype for t in given} else 1e-4
        np.testing.assert_allclose(got, wanted, close, close)


by_opset = pytest.mark.parametrize("opset", [16, 21, 23])


@by_opset
@pytest.mark.parametrize(("sizes", "is_bool"), WITH_MASK)
def test_masks_of_fewer_sizes(sizes: Any, is_bool: bool, opset: int) -> None:
    mask = R(*sizes) > -0.5 if is_bool else R(*sizes)

    def f(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    agrees(f, (*rows(2, 3), mask), opset, "Attention")


@by_opset
@pytest.mark.parametrize("is_bool", [True, False])
def test_rows_that_see_nothing_are_zero(is_bool: bool, opset: int) -> None:
    """They were not a number where the mask is of floats, before opset 23."""
    seen = weft.tensor([[True] * 5, [False] * 5, [False, True] * 2 + [False], [True] * 5])
    mask = seen if is_bool else weft.where(seen, 0.5, -weft.inf)

    def f(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    agrees(f, (*rows(2, 3), mask), opset)


@by_opset
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 2, 3), (0, 3), (2, 0)])
@pytest.mark.parametrize("q", [0, 1, 4, 7])
def test_causal_rows(batch: Any, q: int, opset: int) -> None:
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)

    agrees(f, rows(*batch, q=q), opset)


@by_opset
def test_heads_that_are_shared_or_broadcast(opset: int) -> None:
    def shared(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, is_causal=True)

    def plain(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    agrees(shared, (R(2, 6, 4, 8), R(2, 3, 5, 8), R(2, 3, 5, 8)), opset, "Attention")
    agrees(shared, (R(6, 4, 8), R(2, 5, 8), R(2, 5, 8)), opset)
    agrees(plain, (R(2, 3, 4, 8), R(1, 3, 5, 8), R(2, 1, 5, 8)), opset)
    agrees(plain, (R(2, 3, 4, 8), R(3, 5, 8), R(5, 8)), opset)


@by_opset
def test_free_rows_and_a_mask_of_them(opset: int) -> None:
    def f(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    free = {"q": {2: "l"}, "k": {2: "s"}, "v": {2: "s"}, "mask": {1: "s"}}
    more = [(*rows(2, 3, q=2, k=7), R(1, 7)), (*rows(2, 3, q=1, k=1), R(1, 1))]
    agrees(f, (*rows(2, 3), R(1, 5)), opset, "Attention", dynamic_shapes=free, more=more)


@by_opset
def test_narrow_attention(opset: int) -> None:
    def f(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    agrees(f, (*rows(2, 3, dtype=weft.float16), R(4, 5).half()), opset, "Attention")


NORMS: dict[str, Callable[..., Any]] = {
    "layer": lambda x, w: F.layer_norm(x, (3,), w, w),
    "rms": lambda x, w: F.rms_norm(x, (3,), w, 1e-5),
    "group": lambda x, w: F.group_norm(x.mT, 1, w, w),
    "batch": lambda x, w: F.batch_norm(x.mT, w, w.abs() + 1, w, w),
    "instance": lambda x, w: F.instance_norm(x.mT, weight=w, bias=w),
}


@by_opset
@pytest.mark.parametrize("name", NORMS)
def test_weights_that_are_wider_than_what_they_scale(name: str, opset: int) -> None:
    """The model was one that ONNX Runtime refuses."""
    agrees(NORMS[name], (R(2, 4, 3).half(), R(3)), opset)
    agrees(NORMS[name], (R(2, 4, 3), R(3)), opset)


@by_opset
def test_rows_of_nothing(opset: int) -> None:
    agrees(lambda x, w: F.rms_norm(x, (0,), w), (weft.ones(2, 0), weft.ones(0)), opset)
    agrees(lambda x, w: F.rms_norm(x, (3,), w), (weft.ones(0, 3), weft.ones(3)), opset)
