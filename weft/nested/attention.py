"""Attention over nested tensors: each part by itself, none padded, in one call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft
import weft.nested.parts as ps
from weft import Tensor
from weft.nested.tensor import NestedTensor, like, raw

__all__ = ["TABLE", "attend"]

_NAME = "scaled_dot_product_attention"


def _check(query: Any, key: Any, value: Any, attn_mask: Any) -> None:
    given = (query, key, value)
    if not all(isinstance(t, NestedTensor) for t in given):
        kinds = [isinstance(t, NestedTensor) for t in given]
        raise ValueError(
            f"[{_NAME}] expected nested query, key and value, got others (Expected query, key, and "
            f"value to be nested tensors, but got query.is_nested: {kinds[0]}, key.is_nested: "
            f"{kinds[1]}, and value.is_nested: {kinds[2]} instead.)"
        )
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(
            f"[{_NAME}] expected one dtype, got several (Expected query, key, and value to have "
            f"the same dtype, but got query.dtype: {query.dtype}, key.dtype: {key.dtype}, and "
            f"value.dtype: {value.dtype} instead.)"
        )
    if min(t.dim() for t in given) < 3:
        raise ValueError(
            f"[{_NAME}] expected 3 dims at least, got {[t.dim() for t in given]} (Expected query, "
            "key, and value to all be  at least 3 dimensional)"
        )
    if len({t._ragged_idx for t in given}) > 1:
        raise ValueError(
            f"[{_NAME}] expected one ragged dim, got several (Expected query, key, and value to "
            f"all be ragged on the same dimension, but got ragged dims {query._ragged_idx}, "
            f"{key._ragged_idx}, and {value._ragged_idx}, respectively.)"
        )
    if attn_mask is not None:
        raise ValueError(f"[{_NAME}] expected no mask, got one (Masks are not yet supported!)")


def _attention(
    func: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> NestedTensor:
    _check(query, key, value, attn_mask)
    q, k, v = (ps.whole(t) for t in (query, key, value))
    if q._jagged.parts != k._jagged.parts or k._jagged.counts != v._jagged.counts:
        raise RuntimeError(
            f"[{_NAME}] expected keys for each query and values for each key, got "
            f"{q._jagged.parts} queries, lengths {k._jagged.counts} and {v._jagged.counts}"
        )
    if q._ragged_idx != q.dim() - 2 or q.dim() > 4 or dropout_p > 0:
        return _by_loop(func, q, k, v, dropout_p, is_causal, scale, enable_gqa)
    if enable_gqa and q.dim() == 4:
        k, v = (_for_each_head(t, q) for t in (k, v))
    return attend(q, k, v, is_causal, scale)


def _for_each_head(t: NestedTensor, q: NestedTensor) -> NestedTensor:
    heads, wanted = t.shape[1], q.shape[1]
    if not heads or wanted % heads:
        raise RuntimeError(
            f"[{_NAME}] expected a number of heads that divides the query's {wanted}, got {heads}"
        )
    return like(t, raw(lambda: t.repeat_interleave(wanted // heads, 0)))


def attend(
    q: NestedTensor, k: NestedTensor, v: NestedTensor, is_causal: bool, scale: float | None
) -> NestedTensor:
    """`(B, heads, j, E)`, or without heads: each part's kernel reads its rows where they lie."""
    rows = [_with_heads(ps.rows(t)) for t in (q, k, v)]
    one = [tuple(t.shape[1:]) for t in rows]
    by = 1 / math.sqrt(one[0][1]) if scale is None else scale
    _expect_fit(one)
    shapes = [ps.sizes(t._jagged, s) for t, s in zip((q, k, v), one, strict=True)]
    flat = ps.over_parts("_attention_of_sequence", shapes, *rows, is_causal, by)[0]
    heads, width = one[2]
    out = flat.view(-1, heads, width) if q.dim() == 4 else flat.view(-1, width)
    return ps.from_rows(q, out)


def _with_heads(rows: Tensor) -> Tensor:
    return rows if rows.dim() == 3 else rows.unsqueeze(1)


def _expect_fit(one: list[tuple[int, ...]]) -> None:
    heads = {s[0] for s in one}
    if len(heads) > 1 or one[0][1] != one[1][1]:
        raise RuntimeError(
            f"[{_NAME}] expected as many heads of query, key and value and keys as wide as queries,"
            f" got {one}"
        )


def _by_loop(
    func: Callable[..., Any], q: NestedTensor, k: NestedTensor, v: NestedTensor, dropout_p: float,
    is_causal: bool, scale: float | None, enable_gqa: bool,
) -> NestedTensor:  # fmt: skip
    """Part by part: what the kernel for parts does not do."""
    done = ps.loop(
        lambda a, b, c: func(
            a, b, c, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        ), q, k, v,
    )  # fmt: skip
    return like(q, weft.cat(done, q._ragged_idx - 1))


TABLE: dict[str, Callable[..., Any]] = {_NAME: _attention}
