"""Layers: products, convolutions, pooling, normalization, attention, cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
from weft.onnx.builder import Builder
from weft.onnx.errors import NotOnnx
from weft.onnx.forms_shape import listed
from weft.onnx.graph import Value
from weft.onnx.records import form, needs, weft_result_type
from weft.onnx.values import Repeated, bare


@form("softmax")
def _softmax(g: Builder, self: Value, dim: Any, dtype: Any) -> Value:
    return _soft(g, "Softmax", self, dim)


@form("log_softmax")
def _log_softmax(g: Builder, self: Value, dim: Any, dtype: Any) -> Value:
    return _soft(g, "LogSoftmax", self, dim)


@form("softmin")
def _softmin(g: Builder, input: Value, dim: Any, dtype: Any) -> Value:
    return _soft(g, "Softmax", -input, dim)


def _soft(g: Builder, name: str, x: Value, dim: Any) -> Value:
    x = g.cast(x, g.result.dtype)
    if not x.rank:
        return g.op("Squeeze", g.op(name, g.reshape(x, [1]), axis=0), g.ints([0]))
    return g.op(name, x, axis=needs(dim, "dim"))


# ---- products


@form("addmm")
def _addmm(g: Builder, self: Value, mat1: Value, mat2: Value, beta: Any, alpha: Any) -> Value:
    if not self.dtype.is_floating_point or needs(beta, "beta") == 0:
        return g.op("MatMul", mat1, mat2) * alpha + (self * beta if beta else self * 0)
    return g.op("Gemm", mat1, mat2, self, alpha=float(needs(alpha, "alpha")), beta=float(beta))


@form("_linear_each")
def _linear_each(g: Builder, input: Value, weight: Value, bias: Value | None) -> Value:
    return _linear(g, input, weight, bias)


@form("linear")
def _linear(g: Builder, input: Value, weight: Value, bias: Value | None) -> Value:
    if input.rank == 2 and weight.rank == 2:
        return g.op("Gemm", input, weight, bias, transB=1)
    turned = g.swap(weight, -2, -1) if weight.rank > 1 else weight
    out = g.op("MatMul", input, turned)
    return out if bias is None else out + bias


def _gates(g: Builder, x: Value, w: Value, b: Value | None) -> Value:
    out = g.op("MatMul", x, g.swap(w, 0, 1))
    return out if b is None else out + b


def _parts(g: Builder, x: Value, n: int) -> list[Value]:
    return list(g.several("Split", x, axis=-1, num_outputs=n, outputs=n))


@form("gru_cell")
def _gru_cell(
    g: Builder, input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Any, b_hh: Any
) -> Value:
    r, z, n = _parts(g, _gates(g, input, w_ih, b_ih), 3)
    hr, hz, hn = _parts(g, _gates(g, hx, w_hh, b_hh), 3)
    r, z = g.op("Sigmoid", r + hr), g.op("Sigmoid", z + hz)
    n = g.op("Tanh", n + r * hn)
    return n + z * (hx - n)


@form("rnn_tanh_cell")
def _rnn_tanh(
    g: Builder, input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Any, b_hh: Any
) -> Value:
    return g.op("Tanh", _gates(g, input, w_ih, b_ih) + _gates(g, hx, w_hh, b_hh))


@form("rnn_relu_cell")
def _rnn_relu(
    g: Builder, input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Any, b_hh: Any
) -> Value:
    return g.op("Relu", _gates(g, input, w_ih, b_ih) + _gates(g, hx, w_hh, b_hh))


@form("_lstm_cell")
def _lstm_cell(
    g: Builder, input: Value, h: Value, c: Value, w_ih: Value, w_hh: Value, b_ih: Any, b_hh: Any
) -> tuple[Value, Value]:
    i, f, o, n = _lstm_order(_parts(g, _gates(g, input, w_ih, b_ih) + _gates(g, h, w_hh, b_hh), 4))
    i, f, o = (g.op("Sigmoid", v) for v in (i, f, o))
    c = f * c + i * g.op("Tanh", n)
    return o * g.op("Tanh", c), c


def _lstm_order(parts: Sequence[Value]) -> tuple[Value, Value, Value, Value]:
    i, f, n, o = parts
    return i, f, o, n


@form("_rnn_sequence")
def _rnn_sequence(
    g: Builder,
    x: Value,
    h: Value,
    c: Value | None,
    w_ih: Value,
    w_hh: Value,
    b_ih: Any,
    b_hh: Any,
    batch_sizes: Any,
    cell: str,
    reverse: Any,
) -> tuple[Value, ...]:
    """A direction of a layer: ONNX's GRU, LSTM and RNN, or step by step if lines are of unlike
    length."""
    if isinstance(batch_sizes, Repeated):
        steps, batch = bare(batch_sizes.count), bare(batch_sizes.item)
    elif _is_one_size(given := listed(batch_sizes)):
        steps, batch = len(given), given[0]
    else:
        batches = needs(given, "batch_sizes")
        if len(set(batches)) != 1:
            return _by_steps(
                g, x, h, c, (w_ih, w_hh, b_ih, b_hh), batches, cell, needs(reverse, "reverse")
            )
        steps, batch = len(batches), batches[0]
    hidden = g.fixed(h, h.rank - 1, "the width of a recurrent layer")
    name, order = {"gru": ("GRU", (1, 0, 2)), "lstm": ("LSTM", (0, 3, 1, 2))}.get(
        cell, ("RNN", (0,))
    )
    reset = 1 if name == "GRU" else None

    def ordered(w: Value | None) -> Value | None:
        if w is None:
            return None
        parts = [g.slice(w, 0, k * hidden, (k + 1) * hidden) for k in order]
        return g.op("Concat", *parts, axis=0) if len(parts) > 1 else w

    def lead(v: Value | None) -> Value | None:
        return None if v is None else g.op("Unsqueeze", v, g.ints([0]))

    both = None
    if b_ih is not None or b_hh is not None:
        none = g.full([hidden * len(order)], 0, x.dtype)
        b_ih, b_hh = (none if b is None else b for b in (b_ih, b_hh))
        both = lead(g.op("Concat", ordered(b_ih), ordered(b_hh), axis=0))
    lines = g.reshape(x, [steps, batch, g.size(x, x.rank - 1)])
    acts = {"tanh": ["Tanh"], "relu": ["Relu"]}.get(cell)
    inputs = [lines, lead(ordered(w_ih)), lead(ordered(w_hh)), both, None, lead(h),
              lead(c) if name == "LSTM" else None]  # fmt: skip
    way = "reverse" if needs(reverse, "reverse") else "forward"
    states = 2 if name == "LSTM" else 1

    def layer(g: Builder) -> Sequence[Value]:
        return g.several(
            name, *inputs, outputs=1 + states, hidden_size=hidden, linear_before_reset=reset,
            activations=acts, direction=way,
        )  # fmt: skip

    # ONNX Runtime ends the process for a batch of none
    shapes = [[steps, 1, batch, hidden], *[[1, batch, hidden]] * states]
    out = g.unless_empty(batch, layer, shapes)
    y = g.reshape(out[0], [steps * batch, hidden])
    last = g.reshape(out[1], [batch, hidden])
    end = g.reshape(out[2], [batch, hidden]) if name == "LSTM" else last * 0
    return y, last, end, g.op("Identity", y)


def _is_one_size(sizes: Sequence[Any]) -> bool:
    """Whether sizes are one that only a run knows, again and again."""
    return all(isinstance(n, Value) for n in sizes) and len({n.name for n in sizes}) == 1


def _by_steps(
    g: Builder,
    x: Value,
    h: Value,
    c: Value | None,
    weights: tuple[Any, ...],
    batches: Sequence[int],
    cell: str,
    reverse: bool,
) -> tuple[Value, ...]:
    """Lines of unlike length, packed: in each step the first few have rows."""
    starts = [sum(batches[:t]) for t in range(len(batches))]
    outs: dict[int, Value] = {}
    for t in reversed(range(len(batches))) if reverse else range(len(batches)):
        b = batches[t]
        row, mine = g.slice(x, 0, starts[t], starts[t] + b), g.slice(h, 0, 0, b)
        more = None
        if cell == "lstm":
            assert c is not None
            new, more = _lstm_cell(g, row, mine, g.slice(c, 0, 0, b), *weights)
            c = g.op("Concat", more, g.slice(c, 0, b, batches[0]), axis=0, sizes=c.sizes)
        else:
            new = {"gru": _gru_cell, "tanh": _rnn_tanh, "relu": _rnn_relu}[cell](
                g, row, mine, *weights
            )
        outs[t] = new
        h = g.op("Concat", new, g.slice(h, 0, b, batches[0]), axis=0, sizes=h.sizes)
    y = g.op("Concat", *(outs[t] for t in range(len(batches))), axis=0)
    return y, h, c if c is not None else g.op("Identity", h), g.op("Identity", y)


# ---- normalization


def _scaled(g: Builder, x: Value, weight: Value | None, bias: Value | None) -> Value:
    """x * weight + bias by channels (dimension 1)."""
    shape = [-1] + [1] * (x.rank - 2)
    if weight is not None:
        x = x * g.reshape(weight, shape)
    return x if bias is None else x + g.reshape(bias, shape)


def _norm(name: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """The form of a normalization, in the widest dtype of its tensors: weights and statistics may
    be wider than what they scale."""

    def register(write: Callable[..., Value]) -> Callable[..., Value]:
        @form(name)
        def widened(g: Builder, **params: Any) -> Value:
            given = {n: v for n, v in params.items() if isinstance(v, Value)}
            into = weft_result_type(list(given.values()))
            cast = {n: g.cast(v, into) for n, v in given.items()}
            return g.cast(write(g, **{**params, **cast}), g.result.dtype)

        return write

    return register


@_norm("layer_norm")
def _layer_norm(
    g: Builder, input: Value, normalized_shape: Any, weight: Any, bias: Any, eps: Any
) -> Value:
    shape = listed(normalized_shape)
    scale = weight if weight is not None else g.full(shape, 1, input.dtype)
    return g.op("LayerNormalization", input, scale, bias, axis=-len(shape), epsilon=float(eps))


@_norm("rms_norm")
def _rms_norm(g: Builder, input: Value, normalized_shape: Any, weight: Any, eps: Any) -> Value:
    eps = weft.finfo(g.result.dtype).eps if eps is None else needs(eps, "eps")
    shape = listed(normalized_shape)
    if g.opset >= 23 and 0 not in shape:  # ONNX Runtime refuses rows of nothing
        scale = weight if weight is not None else g.full(shape, 1, input.dtype)
        return g.op("RMSNormalization", input, scale, axis=-len(shape), epsilon=float(eps))
    dims = list(range(-len(shape), 0))
    mean = g.reduce("ReduceMean", input * input, dims, True)
    out = input / g.op("Sqrt", mean + float(eps))
    return out if weight is None else out * weight


@_norm("group_norm")
def _group_norm(
    g: Builder, input: Value, num_groups: Any, weight: Any, bias: Any, eps: Any, cudnn_enabled: Any
) -> Value:
    groups = needs(num_groups, "num_groups")
    batch, channels, *spatial = g.size_list(input)
    rows = g.reshape(input, [batch, groups, g.product([channels, *spatial]) // groups])
    ones, zeros = g.full([groups], 1, input.dtype), g.full([groups], 0, input.dtype)
    out = g.op("InstanceNormalization", rows, ones, zeros, epsilon=float(eps))
    out = g.op("Reshape", out, g.shape(input), sizes=input.sizes)
    return _scaled(g, out, weight, bias)


def _by_statistics(
    g: Builder, x: Value, mean: Value, var: Value, weight: Any, bias: Any, eps: Any
) -> Value:
    return _scaled(g, (x - mean) / g.op("Sqrt", var + float(eps)), weight, bias)


@_norm("batch_norm")
def _batch_norm(
    g: Builder,
    input: Value,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: Any,
    momentum: Any,
    eps: Any,
    cudnn_enabled: Any,
) -> Value:
    if needs(training, "training"):
        if running_mean is not None and momentum != 0:
            raise NotOnnx(
                "batch_norm in training, which writes its statistics", "call eval() first"
            )
        dims = [d for d in range(input.rank) if d != 1]
        mean = g.reduce("ReduceMean", input, dims, True)
        var = g.reduce("ReduceMean", (input - mean) * (input - mean), dims, True)
        return _by_statistics(g, input, mean, var, weight, bias, eps)
    n = g.fixed(input, 1, "channels")
    scale = weight if weight is not None else g.full([n], 1, input.dtype)
    shift = bias if bias is not None else g.full([n], 0, input.dtype)
    return g.op(
        "BatchNormalization", input, scale, shift, running_mean, running_var, epsilon=float(eps)
    )


@_norm("instance_norm")
def _instance_norm(
    g: Builder,
    input: Value,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: Any,
    momentum: Any,
    eps: Any,
    cudnn_enabled: Any,
) -> Value:
    if not needs(use_input_stats, "use_input_stats"):
        return _batch_norm(g, input, weight, bias, running_mean, running_var, False, 0, eps, True)
    if running_mean is not None and momentum != 0:
        raise NotOnnx("instance_norm in training, which writes its statistics", "call eval() first")
    n = g.fixed(input, 1, "channels")
    scale = weight if weight is not None else g.full([n], 1, input.dtype)
    shift = bias if bias is not None else g.full([n], 0, input.dtype)
    return g.op("InstanceNormalization", input, scale, shift, epsilon=float(eps))


# ---- attention


@form("scaled_dot_product_attention")
def _attention(
    g: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Any,
    dropout_p: Any,
    is_causal: Any,
    scale: Any,
    enable_gqa: Any,
) -> Value:
    if needs(dropout_p, "dropout_p"):
        raise NotOnnx("attention with dropout", "call eval() first")
    causal, gqa = needs(is_causal, "is_causal"), needs(enable_gqa, "enable_gqa")
    if g.opset >= 23 and _is_of_heads(query, key, value, gqa):
        factor = None if scale is None else float(needs(scale, "scale"))

        def attended(g: Builder) -> Sequence[Value]:
            mask = _whole_mask(g, attn_mask, query, key)
            return [g.op("Attention", query, key, value, mask, is_causal=int(causal), scale=factor)]

        rows = [*g.size_list(query)[:-1], g.size(value, -1)]
        return g.unless_empty(g.size(query, 0), attended, [rows])[0]
    if gqa:
        key, value = (_repeated_heads(g, v, query) for v in (key, value))
    width = g.size(query, -1)
    if scale is None:
        root: Any = (
            g.op("Sqrt", g.cast(width, query.dtype))
            if isinstance(width, Value)
            else math.sqrt(width)
        )
        query = query / root
    else:
        query = query * scale
    scores = g.op("MatMul", query, g.swap(key, -2, -1))
    if causal:
        columns = g.arange(g.size(key, -2))
        hidden = columns > g.unsqueeze(g.arange(g.size(query, -2)), [1])
        scores = g.op("Where", hidden, -math.inf, scores)
    elif attn_mask is not None and attn_mask.dtype == weft.bool:
        scores = g.op("Where", attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = scores + g.cast(attn_mask, query.dtype)
    weights = g.op("Softmax", scores, axis=-1)
    if attn_mask is not None:  # a row of which nothing may be seen is 0
        most = g.op("ReduceMax", scores, g.ints([-1]), keepdims=1)
        weights = g.op("Where", g.op("Equal", most, -math.inf), 0, weights)
    return g.op("MatMul", weights, value)


def _is_of_heads(query: Value, key: Value, value: Value, gqa: bool) -> bool:
    """Whether the operator Attention takes them: [batch, heads, rows, width], of which none is
    broadcast, and ONNX Runtime refuses tensors without rows."""
    sizes = [v.sizes for v in (query, key, value)]
    if any(n is None or len(n) != 4 or 0 in n for n in sizes):
        return False
    (q, k, v) = (n or () for n in sizes)
    return q[0] == k[0] == v[0] and k[1] == v[1] and (gqa or q[1] == k[1])


def _whole_mask(g: Builder, mask: Value | None, query: Value, key: Value) -> Value | None:
    """A mask of as many rows and columns as the scores have, which ONNX Runtime's Attention does
    not broadcast to."""
    if mask is None:
        return None
    assert mask.sizes is not None and query.sizes is not None and key.sizes is not None
    rows = query.sizes[-2], key.sizes[-2]
    if mask.sizes[-2:] == rows and None not in rows:
        return mask
    full = g.ints([g.size(query, -2), g.size(key, -2)])
    return g.op("Expand", mask, full, sizes=(*mask.sizes[:-2], *rows))


def _repeated_heads(g: Builder, x: Value, query: Value) -> Value:
    have, want = g.fixed(x, -3, "a number of heads"), g.fixed(query, -3, "a number of heads")
    at = g.const(np.repeat(np.arange(have), want // have), weft.int64)
    return g.op(
        "Gather", x, at, axis=x.rank - 3, sizes=(*(x.sizes or ())[:-3], want, *(x.sizes or ())[-2:])
    )
