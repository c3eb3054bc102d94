"""What nn.MultiheadAttention does with nested tensors."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import Tensor
from weft.nested.parts import loop
from weft.nested.tensor import NestedTensor
from weft.nn.functional_attention import _project

__all__ = ["multi_head"]

_REASON = (
    "MultiheadAttention does not support NestedTensor outside of its fast path. The fast path was "
    "not hit because"
)


def _check(layer: Any, key: Any, value: Any, padding: Any, mask: Any, is_causal: bool) -> None:
    reasons = (
        (not layer.batch_first, "batch_first was not True"),
        (layer.bias_k is not None, "self.bias_k was not None"),
        (layer.add_zero_attn, "add_zero_attn was enabled"),
        (padding is not None, "key_padding_mask is not supported with NestedTensor input"),
        (mask is not None and not is_causal, "attn_mask is not supported with NestedTensor input"),
        (not (key.is_nested and value.is_nested), "key and value are not nested"),
    )
    for holds, why in reasons:
        if holds:
            raise AssertionError(
                f"[MultiheadAttention] expected what nested tensors are attended with, got "
                f"something else ({_REASON} {why})"
            )


def multi_head(
    layer: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    need_weights: bool,
    attn_mask: Tensor | None,
    average_attn_weights: bool,
    is_causal: bool,
) -> tuple[Tensor, Tensor | None]:
    """The output, nested as query `(N, L, E)`, and the weights if wanted, padded with zeros.

    Raises:
        AssertionError: masks but the causal one, added keys, or another order than batch_first.
    """
    _check(layer, key, value, key_padding_mask, attn_mask, is_causal)
    separate = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    weights = layer.in_proj_weight if layer._qkv_same_embed_dim else separate
    q, k, v = (
        t.unflatten(-1, (layer.num_heads, layer.head_dim)).transpose(1, 2)
        for t in _project((query, key, value), weights, layer.in_proj_bias)
    )
    dropped = layer.dropout if layer.training else 0.0
    out = weft.nn.functional.scaled_dot_product_attention(
        q, k, v, dropout_p=dropped, is_causal=is_causal
    )
    out = out.transpose(1, 2).flatten(2, 3)
    out = weft.nn.functional.linear(out, layer.out_proj.weight, layer.out_proj.bias)
    if not need_weights:
        return out, None
    return out, _weights(q, k, is_causal, average_attn_weights)


def _weights(q: Any, k: Any, is_causal: bool, average: bool) -> Tensor:
    """`(N, L, S)`, or `(N, heads, L, S)`, zeros where there is no query or key."""
    assert isinstance(q, NestedTensor) and isinstance(k, NestedTensor)
    sizes = q._jagged.longest(), k._jagged.longest()

    def one(a: Tensor, b: Tensor) -> Tensor:
        scores = (a * math.sqrt(1.0 / a.shape[-1])) @ b.transpose(-2, -1)
        if is_causal:
            hidden = weft.ones(scores.shape[-2:], dtype=weft.bool).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        seen = weft.softmax(scores, -1)
        seen = seen.mean(0) if average else seen
        more = [sizes[1] - seen.shape[-1], sizes[0] - seen.shape[-2]]
        return weft.nn.functional.pad(seen, (0, more[0], 0, more[1]))

    return weft.stack(loop(one, q, k))
