"""Convolutions, padding, pooling, resampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import weft
from weft.onnx.builder import Builder
from weft.onnx.errors import NeedsKnown, NotOnnx
from weft.onnx.forms_reduce import extreme, place_of_extreme
from weft.onnx.forms_shape import listed, windows
from weft.onnx.graph import Value
from weft.onnx.records import form, needs


def _rows(v: Any, n: int, what: str) -> list[int]:
    values: list[int] = needs(listed(v), what)
    return values * n if len(values) == 1 else values


def _batched(g: Builder, x: Value, n: int) -> tuple[Value, bool]:
    if x.rank == n + 2:
        return x, False
    return g.unsqueeze(x, [0]), True


def _unbatched(g: Builder, out: Value, alone: bool) -> Value:
    return g.op("Squeeze", out, g.ints([0])) if alone else out


def _conv(
    g: Builder,
    x: Value,
    weight: Value,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> Value:
    n = weight.rank - 2
    x, alone = _batched(g, x, n)
    dilation = _rows(dilation, n, "dilation")
    if isinstance(padding, str):
        kernel = [g.fixed(weight, d + 2) for d in range(n)]
        total = [d * (k - 1) for d, k in zip(dilation, kernel)] if padding == "same" else [0] * n
        pads = [t // 2 for t in total] + [t - t // 2 for t in total]
    else:
        pads = _rows(padding, n, "padding") * 2
    out = g.op(
        "Conv",
        x,
        weight,
        bias,
        strides=_rows(stride, n, "stride"),
        pads=pads,
        dilations=dilation,
        group=needs(groups, "groups"),
    )
    return _unbatched(g, out, alone)


_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv1d.text", "conv2d.text", "conv3d.text")


@form(*_CONVOLUTIONS, free=windows)
def _conv_form(
    g: Builder,
    input: Value,
    weight: Value,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> Value:
    return _conv(g, input, weight, bias, stride, padding, dilation, groups)


@form("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(
    g: Builder,
    input: Value,
    weight: Value,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: Any,
    dilation: Any,
) -> Value:
    n = weight.rank - 2
    more, steps = _rows(output_padding, n, "output_padding"), _rows(stride, n, "stride")
    if any(a >= b for a, b in zip(more, steps)) and any(more):
        raise NotOnnx("output_padding that is not below the stride, which runtimes refuse")
    x, alone = _batched(g, input, n)
    out = g.op(
        "ConvTranspose", x, weight, bias, strides=_rows(stride, n, "stride"),
        pads=_rows(padding, n, "padding") * 2, dilations=_rows(dilation, n, "dilation"),
        output_padding=more, group=needs(groups, "groups"),
    )  # fmt: skip
    return _unbatched(g, out, alone)


@form("convolution", free=windows)
def _convolution(
    g: Builder,
    input: Value,
    weight: Value,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: Any,
    output_padding: Any,
    groups: Any,
) -> Value:
    if needs(transposed, "transposed"):
        return _conv_transpose(
            g, input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return _conv(g, input, weight, bias, stride, padding, dilation, groups)


def _columns(_: Any, input: Value, **params: Any) -> list[int]:
    """How many windows there are of a free size."""
    return [input.rank - 2] if None in (input.sizes or ())[-2:] else []


@form("im2col", free=_columns)
def _im2col(
    g: Builder, input: Value, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Value:
    kernel, dilation = _rows(kernel_size, 2, "kernel_size"), _rows(dilation, 2, "dilation")
    padding, stride = _rows(padding, 2, "padding"), _rows(stride, 2, "stride")
    x, alone = _batched(g, input, 2)
    channels = g.fixed(x, 1, "channels")
    pads = [0, 0, *padding, 0, 0, *padding]
    x = _padded(g, x, pads, "constant", 0)
    counts: list[Any] = []
    for d in range(2):
        axis = 2 + 2 * d  # earlier dimensions have become a kernel's and a place's
        n = g.size(input, input.rank - 2 + d) + 2 * padding[d]
        count = (n - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1
        counts.append(count)
        offsets = g.const(np.arange(kernel[d])[:, None] * dilation[d], weft.int64)
        x = g.op("Gather", x, offsets + g.arange(count) * stride[d], axis=axis)
    x = g.op("Transpose", x, perm=[0, 1, 2, 4, 3, 5])
    batch = g.size(input, 0) if not alone else 1
    out = g.reshape(x, [batch, channels * kernel[0] * kernel[1], counts[0] * counts[1]])
    return _unbatched(g, out, alone)


@form("col2im")
def _col2im(
    g: Builder,
    input: Value,
    output_size: Any,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Value:
    x, alone = _batched(g, input, 1)
    out = g.op(
        "Col2Im", x, g.ints(_pair_of(output_size)), g.ints(_rows(kernel_size, 2, "kernel_size")),
        dilations=_rows(dilation, 2, "dilation"), pads=_rows(padding, 2, "padding") * 2,
        strides=_rows(stride, 2, "stride"),
    )  # fmt: skip
    return _unbatched(g, out, alone)


def _pair_of(v: Any) -> list[Any]:
    values = listed(v)
    return values * 2 if len(values) == 1 else values


# ---- padding

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _padded(g: Builder, x: Value, pads: Sequence[Any], mode: str, value: Any) -> Value:
    fill = None if mode != "constant" else g.scalar(value, x.dtype)
    if x.dtype == weft.bool:
        fill = None if fill is None else g.cast(fill, weft.int32)
        number = g.op("Pad", g.cast(x, weft.int32), g.ints(pads), fill, mode=mode)
        return g.truth(number)
    return g.op("Pad", x, g.ints(pads), fill, mode=mode)


def _pads(rank: int, pad: Sequence[Any]) -> list[Any]:
    """PyTorch's pairs from the last dimension back, as ONNX's starts and ends."""
    starts: list[Any] = [0] * rank
    ends: list[Any] = [0] * rank
    for k in range(len(pad) // 2):
        starts[rank - 1 - k], ends[rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    return starts + ends


@form("constant_pad_nd")
def _constant_pad(g: Builder, self: Value, pad: Any, value: Any) -> Value:
    return _padded(g, self, _pads(self.rank, listed(pad)), "constant", value)


@form("pad")
def _pad(g: Builder, input: Value, pad: Any, mode: str, value: Any) -> Value:
    return _padded(
        g, input, _pads(input.rank, listed(pad)), _MODES[mode], 0 if value is None else value
    )


@form("_block_diag")
def _block_diag(g: Builder, tensors: Sequence[Value]) -> Value:
    widths = [g.size(t, t.rank - 1) for t in tensors]
    rows = [
        _padded(g, t, _pads(t.rank, [sum(widths[:i]), sum(widths[i + 1 :])]), "constant", 0)
        for i, t in enumerate(tensors)
    ]
    return g.concat(rows, tensors[0].rank - 2)


@form("_pad_places")
def _pad_places(g: Builder, input: Value, pad: Any, mode: str) -> Value:
    return _pad(g, input, pad, mode, None)


# ---- pooling


def _max_pool(
    g: Builder,
    input: Value,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: Any,
    *,
    n: int,
    indices: bool,
) -> Any:
    kernel_size = _rows(kernel_size, n, "kernel_size")
    stride = _rows(stride, n, "stride") if stride is not None and listed(stride) else kernel_size
    input, alone = _batched(g, input, n)
    out = g.several(
        "MaxPool", input, outputs=2 if indices else 1, kernel_shape=kernel_size, strides=stride,
        pads=_rows(padding, n, "padding") * 2, dilations=_rows(dilation, n, "dilation"),
        ceil_mode=int(needs(ceil_mode, "ceil_mode")),
    )  # fmt: skip
    if not indices:
        return _unbatched(g, out[0], alone)
    # ONNX counts through the whole batch, we within a channel
    inside = math.prod(g.fixed(input, d + 2, "a size that is pooled") for d in range(n))
    at = Value(g.model, out[1].name, weft.int64)
    at = g.op("Mod", at, inside)
    return _unbatched(g, out[0], alone), _unbatched(g, at, alone)


def _avg_pool(
    g: Builder,
    input: Value,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: Any,
    count_include_pad: Any,
    divisor_override: Any = None,
    *,
    n: int,
) -> Value:
    kernel_size = _rows(kernel_size, n, "kernel_size")
    stride = _rows(stride, n, "stride") if stride is not None and listed(stride) else kernel_size
    padding, ceil_mode = _rows(padding, n, "padding"), needs(ceil_mode, "ceil_mode")
    input, alone = _batched(g, input, n)
    pads = padding * 2
    count_include_pad = (
        needs(count_include_pad, "count_include_pad") or divisor_override is not None
    )
    if ceil_mode:
        return _unbatched(
            g,
            _avg_ceil(
                g, input, n, kernel_size, stride, padding, count_include_pad, divisor_override
            ),
            alone,
        )
    out = g.op(
        "AveragePool",
        input,
        kernel_shape=kernel_size,
        strides=stride,
        pads=pads,
        count_include_pad=int(count_include_pad),
    )
    if divisor_override is not None:
        out = out * (math.prod(kernel_size) / needs(divisor_override, "divisor_override"))
    return _unbatched(g, out, alone)


def _avg_ceil(
    g: Builder,
    x: Value,
    n: int,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    include: bool,
    divisor: Any,
) -> Value:
    """Windows over the end: their sum, by a pool over zeros, over how much of them counts."""
    more, counts = [], []
    for d in range(n):
        size = g.fixed(x, d + 2, "a size that is pooled with ceil_mode")
        span = size + 2 * padding[d] - kernel[d]
        count = -(-span // stride[d]) + 1
        if (count - 1) * stride[d] >= size + padding[d]:
            count -= 1
        more.append(max((count - 1) * stride[d] + kernel[d] - size - padding[d], 0))
        starts = np.arange(count) * stride[d] - padding[d]
        ends = np.minimum(starts + kernel[d], size + padding[d])
        inside = np.minimum(ends, size) - np.maximum(starts, 0)
        counts.append(ends - starts if include else inside)
    wide = _padded(g, x, [0, 0, *padding, 0, 0, *more], "constant", 0)
    total = g.op("AveragePool", wide, kernel_shape=kernel, strides=stride) * float(
        math.prod(kernel)
    )
    if divisor is not None:
        return total / needs(divisor, "divisor_override")
    out = counts[0]
    for row in counts[1:]:
        out = out[..., None] * row
    return total / g.const(out, x.dtype)


def _places(size: int, count: int) -> list[tuple[int, int]]:
    return [(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]


def _adaptive(g: Builder, input: Value, output_size: Any, *, n: int) -> Value:
    counts = listed(output_size)
    counts = counts * n if len(counts) == 1 else counts
    first = input.rank - n
    if not input.dtype.is_floating_point:
        raise NotOnnx(f"an average of {input.dtype}")
    if all(c == 1 for c in counts):
        return g.reduce("ReduceMean", input, list(range(first, input.rank)), True)
    for d, count in enumerate(counts):
        axis = first + d
        size = g.fixed(input, axis, "a size that is pooled")
        if size % count == 0:
            own = g.size_list(input)
            input = g.reshape(input, [*own[:axis], count, size // count, *own[axis + 1 :]])
            input = g.reduce("ReduceMean", input, [axis + 1], False)
            continue
        parts = [
            g.reduce("ReduceMean", g.slice(input, axis, a, b), [axis], True)
            for a, b in _places(size, count)
        ]
        input = g.concat(parts, axis)
    return g.op("Identity", input)


def _adaptive_max(g: Builder, input: Value, output_size: Any, *, n: int) -> tuple[Value, Value]:
    """Each window by itself: values, and the place of each in its channel."""
    counts = needs(listed(output_size), "output_size")
    counts = counts * n if len(counts) == 1 else counts
    first = input.rank - n
    if all(c == 1 for c in counts):
        own = g.size_list(input)
        flat = g.reshape(input, [*own[:first], math.prod(own[first:])])
        most = extreme(g, flat, "ReduceMax", [-1], True)
        place = place_of_extreme(g, flat, "ArgMax", -1, True, last_nan=True)
        shown = list(range(first + 1, input.rank))
        return g.unsqueeze(most, shown), g.unsqueeze(place, shown)
    sizes = [g.fixed(input, first + d, "a size that is pooled") for d in range(n)]
    lead = g.size_list(input)[:first]
    if math.prod(counts) > 4096:
        raise NeedsKnown("so many windows")
    windows: list[list[tuple[int, int]]] = [[]]
    for size, count in zip(sizes, counts):
        windows = [[*w, place] for w in windows for place in _places(size, count)]
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    values, places = [], []
    for window in windows:
        part, inside = input, numbers
        for d, (a, b) in enumerate(window):
            part = g.slice(part, first + d, a, b)
            inside = inside.take(range(a, b), d)
        flat = g.reshape(part, [*lead, inside.size])
        values.append(extreme(g, flat, "ReduceMax", [-1], True))
        at = place_of_extreme(g, flat, "ArgMax", -1, True, last_nan=True)
        places.append(g.op("Gather", g.const(inside.reshape(-1), weft.int64), at, axis=0))
    shape = [*lead, *counts]
    joined = [v[0] if len(v) == 1 else g.op("Concat", *v, axis=-1) for v in (values, places)]
    return g.reshape(joined[0], shape), g.reshape(joined[1], shape)


for _n in (1, 2, 3):
    form(f"max_pool{_n}d", free=windows)(partial(_max_pool, n=_n, indices=False))
    form(f"max_pool{_n}d_with_indices", free=windows)(partial(_max_pool, n=_n, indices=True))
    form(f"avg_pool{_n}d", free=windows)(partial(_avg_pool, n=_n))
    form(f"adaptive_avg_pool{_n}d", f"_adaptive_avg_pool{_n}d")(partial(_adaptive, n=_n))
    form(f"adaptive_max_pool{_n}d")(partial(_adaptive_max, n=_n))


@form("_upsample")
def _upsample(
    g: Builder,
    input: Value,
    output_size: Any,
    mode: str,
    align_corners: Any,
    antialias: Any,
    scale_d: Any,
    scale_h: Any,
    scale_w: Any,
) -> Value:
    if needs(antialias, "antialias"):
        raise NotOnnx("interpolate with antialias=True")
    n = input.rank - 2
    sizes = g.ints([*g.size_list(input)[:2], *listed(output_size)])
    given = [s for s in (scale_d, scale_h, scale_w)[3 - n :]]
    how = {"nearest": "nearest", "nearest-exact": "nearest", "bicubic": "cubic"}.get(mode, "linear")
    if mode == "area":
        return _adaptive(g, input, output_size, n=n)
    if needs(align_corners, "align_corners"):
        place = "align_corners"
    else:
        place = "asymmetric" if mode == "nearest" else "half_pixel"
    scales = None
    if any(s is not None for s in given) and place != "align_corners":
        exact = [
            1.0,
            1.0,
            *(float(s) if s is not None else 0.0 for s in needs(given, "scale_factor")),
        ]
        known = [n for n in listed(output_size) if isinstance(n, int)]
        ratios = [o / i for o, i in zip(known, (input.sizes or ())[2:]) if i]
        if 0.0 not in exact and [float(s) for s in exact[2:]] != ratios:
            scales = g.const(exact, weft.float32)
    return g.op(
        "Resize",
        input,
        None,
        scales,
        None if scales is not None else sizes,
        mode=how,
        coordinate_transformation_mode=place,
        cubic_coeff_a=-0.75 if how == "cubic" else None,
        nearest_mode="floor"
        if mode == "nearest"
        else "round_prefer_ceil"
        if how == "nearest"
        else None,
    )


@form("_grid_sample")
def _grid_sample(
    g: Builder, input: Value, grid: Value, mode: str, padding_mode: str, align_corners: Any,
    order: Any,
) -> Value:  # fmt: skip
    if any(needs(listed(order), "order")):
        raise NotOnnx("a derivative of grid_sample")
    how = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    align = int(needs(align_corners, "align_corners"))
    return g.op("GridSample", input, grid, align_corners=align, mode=how, padding_mode=padding_mode)
