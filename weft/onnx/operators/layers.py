"""Products, normalizations and attention."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import operator


@operator("Gemm")
def gemm(
    A: Tensor, B: Tensor, C: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Tensor:  # fmt: skip
    """A product of matrices, and what is added."""
    if transB and not transA and alpha == 1 and beta == 1 and C is not None and C.dim() == 1:
        return weft.nn.functional.linear(A, B, C)
    out = (weft.t(A) if transA else A) @ (weft.t(B) if transB else B)
    if alpha != 1:
        out = (out * alpha).to(A.dtype)
    if C is None or beta == 0:
        return out
    return out + (C if beta == 1 else (C * beta).to(A.dtype))


@operator("BatchNormalization")
def batch_normalization(
    X: Tensor, scale: Tensor, B: Tensor, input_mean: Tensor, input_var: Tensor, *,
    epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0, spatial: int = 1,
    outputs: int,
) -> Any:  # fmt: skip
    """Ioffe & Szegedy 2015: by the statistics of the file, or in training mode of the batch."""
    if not training_mode:
        return weft.nn.functional.batch_norm(
            X, input_mean, input_var, scale, B, False, 0.0, epsilon
        )
    dims = [0, *range(2, X.dim())]
    mean, var = weft.mean(X, dims), weft.var(X, dims, correction=0)
    out = weft.nn.functional.batch_norm(X, mean, var, scale, B, False, 0.0, epsilon)
    if outputs == 1:
        return out
    kept, new = momentum, 1 - momentum
    return (out, input_mean * kept + mean * new, input_var * kept + var * new)[:outputs]


@operator("InstanceNormalization")
def instance_normalization(
    input: Tensor, scale: Tensor, B: Tensor, *, epsilon: float = 1e-5
) -> Tensor:
    """Each channel of each example by its own mean and variance."""
    return weft.nn.functional.group_norm(input, input.shape[1], scale, B, epsilon)


@operator("GroupNormalization")
def group_normalization(
    X: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5,
    stash_type: weft.dtype | None = None, version: int,
) -> Tensor:  # fmt: skip
    """Wu & He 2018; before version 21 scale and bias are those of groups."""
    if version < 21:
        each = X.shape[1] // num_groups
        scale, bias = (weft.repeat_interleave(t, each) for t in (scale, bias))
    return weft.nn.functional.group_norm(X, num_groups, scale, bias, epsilon)


@operator("LayerNormalization")
def layer_normalization(
    X: Tensor, Scale: Tensor, B: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: weft.dtype | None = None, outputs: int,
) -> Any:  # fmt: skip
    """Ba et al. 2016; also the mean, and one over the deviation."""
    shape = list(X.shape[axis:]) if axis else list(X.shape)
    if outputs == 1 and list(Scale.shape) == shape and (B is None or list(B.shape) == shape):
        return weft.nn.functional.layer_norm(X, shape, Scale, B, epsilon)
    dims = list(range(axis % X.dim(), X.dim()))
    mean = weft.mean(X, dims, True)
    inverse = weft.rsqrt(weft.mean((X - mean) ** 2, dims, True) + epsilon)
    out = (X - mean) * inverse * Scale
    out = out if B is None else out + B
    return (out, mean, inverse)[:outputs] if outputs > 1 else out


@operator("RMSNormalization")
def rms_normalization(
    X: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: weft.dtype | None = None,
) -> Tensor:  # fmt: skip
    """Zhang & Sennrich 2019."""
    shape = list(X.shape[axis:]) if axis else list(X.shape)
    if list(scale.shape) == shape:
        return weft.nn.functional.rms_norm(X, shape, scale, epsilon)
    return weft.nn.functional.rms_norm(X, shape, None, epsilon) * scale


@operator("LRN")
def lrn(
    X: Tensor, *, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Krizhevsky et al. 2012: by the squares of near channels."""
    sides = [0, 0] * (X.dim() - 2) + [(size - 1) // 2, size // 2]
    padded = weft.constant_pad_nd(X * X, sides, 0)
    sums = padded.narrow(1, 0, X.shape[1])
    for k in range(1, size):
        sums = sums + padded.narrow(1, k, X.shape[1])
    return X / (bias + alpha / size * sums) ** beta


def _heads(x: Tensor, count: int | None) -> Tensor:
    """[batch, steps, heads * size] as [batch, heads, steps, size]."""
    assert count is not None
    return x.reshape([x.shape[0], x.shape[1], count, -1]).transpose(1, 2)


def _mask(
    mask: Tensor | None, dtype: weft.dtype, rows: int, columns: int, is_causal: int, past: int
) -> Tensor | None:
    """What is added to the scores; None if nothing is."""
    added = None
    if mask is not None:
        if mask.shape[-1] < columns:  # of no use are steps that it does not speak of
            filler = False if mask.dtype == weft.bool else -float("inf")
            mask = weft.constant_pad_nd(mask, [0, columns - mask.shape[-1]], filler)
        added = mask
        if mask.dtype == weft.bool:
            added = _hidden(weft.logical_not(mask), dtype)
    if is_causal:
        later = _hidden(weft.ones(rows, columns, dtype=weft.bool).triu(1 + past), dtype)
        added = later if added is None else added + later
    return added


def _hidden(mask: Tensor, dtype: weft.dtype) -> Tensor:
    """-inf where a mask says so, else zero."""
    return weft.zeros_like(mask, dtype=dtype).masked_fill(mask, -float("inf"))


def _beside_cache(mask: Tensor | None, lengths: Tensor, rows: int, columns: int, is_causal: int,
                  dtype: weft.dtype) -> Tensor:  # fmt: skip
    """What is added to the scores where the first steps of keys count, for each row its own."""
    added = _mask(mask, dtype, rows, columns, 0, 0)
    ends = lengths.reshape([-1, 1, 1, 1])
    over = weft.arange(columns) >= ends
    if is_causal:
        last = ends - rows + weft.arange(rows).reshape([-1, 1])
        over = weft.logical_or(over, weft.arange(columns) > last)
    return _hidden(over, dtype) if added is None else added + _hidden(over, dtype)


@operator("Attention")
def attention(
    Q: Tensor, K: Tensor, V: Tensor, attn_mask: Tensor | None = None,
    past_key: Tensor | None = None, past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None, *, is_causal: int = 0,
    kv_num_heads: int | None = None, q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: weft.dtype | None = None, outputs: int,
) -> Any:  # fmt: skip
    """Vaswani et al. 2017, with heads in groups, a cache, and the scores on demand."""
    is_flat = Q.dim() == 3
    if is_flat:
        Q = _heads(Q, q_num_heads)
        K, V = _heads(K, kv_num_heads), _heads(V, kv_num_heads)
    past = 0
    if past_key is not None:
        past = past_key.shape[2]
        K, V = weft.cat([past_key, K], 2), weft.cat([past_value, V], 2)  # type: ignore[list-item]
    rows, columns = Q.shape[2], K.shape[2]
    added: Tensor | None
    if nonpad_kv_seqlen is not None:
        added = _beside_cache(attn_mask, nonpad_kv_seqlen, rows, columns, is_causal, Q.dtype)
    else:
        added = _mask(attn_mask, Q.dtype, rows, columns, is_causal, past)
    groups = Q.shape[1] // K.shape[1]
    keys, values = K, V
    if groups > 1:
        keys, values = (weft.repeat_interleave(t, groups, 1) for t in (K, V))
    factor = scale if scale is not None else 1 / math.sqrt(Q.shape[-1])
    if outputs < 4 and not softcap:
        out = weft.nn.functional.scaled_dot_product_attention(
            Q, keys, values, added, 0.0, False, scale=factor
        )
        scores = None
    else:
        raw = Q @ keys.transpose(-2, -1) * factor
        capped = weft.tanh(raw / softcap) * softcap if softcap else raw
        masked = capped if added is None else capped + added
        shares = weft.softmax(masked, -1, dtype=softmax_precision).to(Q.dtype)
        shares = weft.nan_to_num(shares, 0.0)  # of rows that see nothing
        out = shares @ values
        scores = (raw, capped, masked, shares)[qk_matmul_output_mode]
    if is_flat:
        out = out.transpose(1, 2).reshape([out.shape[0], rows, -1])
    return (out, K, V, scores)[:outputs] if outputs > 1 else out
