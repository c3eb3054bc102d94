"""Multi-head attention as one function: what nn.MultiheadAttention runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft
from weft import _C, Tensor
from weft.base.warn import warn

__all__ = ["multi_head_attention_forward"]

_WHO = "multi_head_attention_forward"


def additive_mask(mask: Tensor | None, name: str, dtype: Any) -> Tensor | None:
    """A mask to add to scores; a bool one hides where it is True. AssertionError for integers."""
    if mask is None:
        return None
    if mask.dtype == weft.bool:
        return weft.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)
    if not mask.dtype.is_floating_point:
        raise AssertionError(
            f"[{_WHO}] expected {name} of dtype bool or floating (only bool and floating types of "
            f"{name} are supported), got {mask.dtype}"
        )
    return mask


def _canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any,
    check_other: bool = True,
) -> Tensor | None:  # fmt: skip
    """`additive_mask`, by the name and arguments that packages take."""
    if mask is not None and check_other and other_type not in (None, mask.dtype):
        warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for "
            "both instead."
        )
    return additive_mask(mask, mask_name, target_type)


def _none_or_dtype(input: Tensor | None) -> Any:
    """The dtype of a mask that is there."""
    return None if input is None else input.dtype


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Queries, keys and values by weights `(3 E, E)` and biases `(3 E)` that lie after another."""
    return tuple(_project((q, k, v), w, b))


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
    b_q: Tensor | None = None, b_k: Tensor | None = None, b_v: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Queries, keys and values by weights `(E, features)` and biases of their own."""
    linear, inputs = _C.ops.linear, (q, k, v)
    return tuple(linear(*each) for each in zip(inputs, (w_q, w_k, w_v), (b_q, b_k, b_v)))


def _check_dims(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None,
    heads: int,
) -> bool:  # fmt: skip
    """Whether there is a batch dim. Raises AssertionError for dims that do not go together."""
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(
            f"[{_WHO}] expected query should be unbatched 2D or batched 3D tensor but received "
            f"{dims}-D query tensor"
        )
    if key.dim() != dims or value.dim() != dims:
        raise AssertionError(
            f"[{_WHO}] expected key and value of {dims} dims as query, got {key.dim()} and "
            f"{value.dim()}"
        )
    if padding is not None and padding.dim() != dims - 1:
        raise AssertionError(
            f"[{_WHO}] expected key_padding_mask of {dims - 1} dims, got {padding.dim()}"
        )
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(f"[{_WHO}] expected attn_mask of 2 or 3 dims, got {mask.dim()}")
    if mask is not None and dims == 2 and mask.dim() == 3:
        wanted = (heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != wanted:
            raise AssertionError(
                f"[{_WHO}] Expected `attn_mask` shape to be {wanted} but got {tuple(mask.shape)}"
            )
    return dims == 3


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, embed: int, heads: int) -> None:
    if query.shape[2] != embed:
        raise AssertionError(
            f"[{_WHO}] was expecting embedding dimension of {embed}, but got {query.shape[2]}"
        )
    if embed % heads:
        raise AssertionError(f"[{_WHO}] embed_dim {embed} not divisible by num_heads {heads}")
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"[{_WHO}] expected key's sequence and batch dims {tuple(key.shape[:2])} to match "
            f"value's, got {tuple(value.shape[:2])}"
        )


def _project(
    inputs: tuple[Tensor, Tensor, Tensor], weights: Any, bias: Tensor | None
) -> list[Tensor]:
    """Queries, keys and values; one product where the three inputs or two of them are one."""
    linear = _C.ops.linear
    query, key, value = inputs
    if not isinstance(weights, Tensor):
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        return [linear(x, w, b) for x, w, b in zip(inputs, weights, biases)]
    if query is key and key is value:
        return list(linear(query, weights, bias).chunk(3, dim=-1))
    embed = weights.shape[1]
    first, rest = weights.split([embed, 2 * embed])
    b_first, b_rest = (None, None) if bias is None else bias.split([embed, 2 * embed])
    q = linear(query, first, b_first)
    if key is value:
        return [q, *linear(key, rest, b_rest).chunk(2, dim=-1)]
    w_k, w_v = rest.chunk(2)
    b_k, b_v = (None, None) if b_rest is None else b_rest.chunk(2)
    return [q, linear(key, w_k, b_k), linear(value, w_v, b_v)]


def _widened(mask: Tensor | None, columns: int) -> Tensor | None:
    """A mask for keys to which `columns` were added that all may see."""
    if mask is None or not columns:
        return mask
    return weft.cat(
        [mask, weft.zeros(*mask.shape[:-1], columns, dtype=mask.dtype, device=mask.device)], -1
    )


def _check_causal(is_causal: bool, mask: Tensor | None) -> None:
    if is_causal and mask is None:
        raise RuntimeError(
            f"[{_WHO}] expected an attn_mask with is_causal, got none (Need attn_mask if "
            "specifying the is_causal hint.)"
        )


def _check_biases(bias_k: Tensor | None, bias_v: Tensor | None) -> None:
    if (bias_k is None) != (bias_v is None):
        raise AssertionError(
            "[multi_head_attention_forward] expected bias_k and bias_v, or neither, got one "
            "(bias_v is set but bias_k is None, or the other way)"
        )


def apart(
    query: Tensor, key: Tensor, value: Tensor, work: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """What `work` gives of each; of one tensor it gives one, as one product serves them all."""
    new_query = work(query)
    new_key = new_query if key is query else work(key)
    new_value = new_query if value is query else new_key if value is key else work(value)
    return new_query, new_key, new_value


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Projects, attends with several heads, projects back (Vaswani et al. 2017).

    query `(L, N, E)`, key `(S, N, Ek)`, value `(S, N, Ev)`, or without N. Masks hide where they
    are True, or are added: key_padding_mask `(N, S)`, attn_mask `(L, S)` or `(N * heads, L, S)`.
    The arguments are PyTorch's, see nn.MultiheadAttention. Returns the output `(L, N, E)` and,
    with `need_weights`, the weights `(N, L, S)`, or `(N, heads, L, S)` if not averaged.

    Raises:
        AssertionError: dims, dtypes or sizes that do not fit.
        RuntimeError: an attn_mask whose sizes do not; is_causal without one.

    >>> x, w = weft.ones(1, 1, 2), weft.eye(2)
    >>> out, weights = weft.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 2, 1, weft.cat([w, w, w]), None, None, None, False, 0.0, w, None
    ... )
    >>> out
    tensor([[[1., 1.]]])
    """
    batched = _check_dims(query, key, value, key_padding_mask, attn_mask, num_heads)
    _check_causal(is_causal, attn_mask)
    if not batched:
        query, key, value = apart(query, key, value, lambda t: t.unsqueeze(1))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    _check_sizes(query, key, value, embed_dim_to_check, num_heads)
    length, batch, embed = query.shape
    head = embed // num_heads
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    weights = separate if use_separate_proj_weight else in_proj_weight
    q, k, v = _project((query, key, value), weights, in_proj_bias)

    def split_heads(t: Tensor) -> Tensor:
        return t.reshape(t.shape[0], batch, num_heads, head).permute(1, 2, 0, 3)

    _check_biases(bias_k, bias_v)
    if bias_k is not None and bias_v is not None:
        k = weft.cat([k, bias_k.expand(1, batch, embed)])
        v = weft.cat([v, bias_v.expand(1, batch, embed)])
    shape = (batch, num_heads, -1, head)
    q = split_heads(q)
    k = split_heads(k) if static_k is None else static_k.reshape(shape)
    v = split_heads(v) if static_v is None else static_v.reshape(shape)
    if add_zero_attn:
        nothing = weft.zeros(batch, num_heads, 1, head, dtype=k.dtype, device=k.device)
        k, v = weft.cat([k, nothing], 2), weft.cat([v, nothing], 2)
    dropped = dropout_p if training else 0.0
    if is_causal and key_padding_mask is None and not need_weights:
        attended, seen = _attend(q, k, v, None, dropped, True, need_weights)
    else:  # by itself, so that a program may choose when it runs
        attn_mask = additive_mask(attn_mask, "attn_mask", query.dtype)
        padding = additive_mask(key_padding_mask, "key_padding_mask", query.dtype)
        added = (bias_k is not None and bias_v is not None) + bool(add_zero_attn)
        attn_mask, padding = _widened(attn_mask, added), _widened(padding, added)
        mask = _joined(attn_mask, padding, (batch, num_heads, length, k.shape[2]))
        attended, seen = _attend(q, k, v, mask, dropped, False, need_weights)
    out = attended.permute(2, 0, 1, 3).reshape(length * batch, embed)
    out = _C.ops.linear(out, out_proj_weight, out_proj_bias)
    out = out.reshape(length, batch, out.shape[1])
    if seen is not None and average_attn_weights:
        seen = seen.mean(1)
    if batched:
        return out, seen
    return out.squeeze(1), None if seen is None else seen.squeeze(0)


def _joined(
    mask: Tensor | None, padding: Tensor | None, shape: tuple[int, int, int, int]
) -> Tensor | None:
    """Both masks as one that broadcasts to `shape`. Raises RuntimeError for sizes that do not."""
    batch, heads, length, keys = shape
    if mask is not None:
        wanted = [(length, keys), (batch * heads, length, keys)][mask.dim() - 2]
        if tuple(mask.shape) != wanted:
            raise RuntimeError(
                f"[{_WHO}] expected attn_mask of shape {wanted} (The shape of the "
                f"{mask.dim()}D attn_mask should be {wanted}), got {tuple(mask.shape)}"
            )
        mask = mask if mask.dim() == 2 else mask.reshape(shape)
    if padding is None:
        return mask
    if tuple(padding.shape) != (batch, keys):
        raise AssertionError(
            f"[{_WHO}] expecting key_padding_mask shape of {(batch, keys)}, but got "
            f"{tuple(padding.shape)}"
        )
    padding = padding.reshape(batch, 1, 1, keys)
    return padding if mask is None else mask + padding


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropped: float, is_causal: bool,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    if not need_weights:
        out = _C.ops.scaled_dot_product_attention(q, k, v, mask, dropped, is_causal)
        return out, None
    scores = (q * math.sqrt(1.0 / q.shape[-1])) @ k.transpose(-2, -1)
    weights = weft.softmax(scores if mask is None else scores + mask, dim=-1)
    if dropped > 0:
        weights = weft.nn.functional.dropout(weights, dropped)
    return weights @ v, weights
