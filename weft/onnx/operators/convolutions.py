"""Convolutions and pools, of any number of spatial dimensions."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import operator


def _sides(
    sizes: list[int], kernel: list[int], strides: list[int], dilations: list[int],
    pads: list[int] | None, auto_pad: str,
) -> tuple[list[int], list[int]]:  # fmt: skip
    """What is put before and after each dimension."""
    n = len(sizes)
    if auto_pad in ("NOTSET", ""):
        return (pads[:n], pads[n:]) if pads else ([0] * n, [0] * n)
    if auto_pad == "VALID":
        return [0] * n, [0] * n
    before, after = [], []
    for k in range(n):
        out = -(-sizes[k] // strides[k])
        reach = dilations[k] * (kernel[k] - 1) + 1
        whole = max((out - 1) * strides[k] + reach - sizes[k], 0)
        small = whole // 2
        before.append(small if auto_pad == "SAME_UPPER" else whole - small)
        after.append(whole - small if auto_pad == "SAME_UPPER" else small)
    return before, after


def _padded(x: Tensor, before: list[int], after: list[int], value: float) -> Tensor:
    """More around the spatial dimensions; less where it is negative."""
    if not any(before) and not any(after):
        return x
    sides = []
    for k in range(len(before) - 1, -1, -1):
        sides += [before[k], after[k]]
    return weft.constant_pad_nd(x, sides, value)


@operator("Conv")
def conv(
    X: Tensor, W: Tensor, B: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Tensor:  # fmt: skip
    """A convolution."""
    n = X.dim() - 2
    strides, dilations = strides or [1] * n, dilations or [1] * n
    before, after = _sides(list(X.shape[2:]), list(W.shape[2:]), strides, dilations, pads, auto_pad)
    if before != after:
        X, before = _padded(X, before, after, 0), [0] * n
    return weft.convolution(X, W, B, strides, before, dilations, False, [0] * n, group)


@operator("ConvTranspose")
def conv_transpose(
    X: Tensor, W: Tensor, B: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, output_padding: Any = None,
    output_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    """A transposed convolution."""
    n = X.dim() - 2
    strides, dilations = strides or [1] * n, dilations or [1] * n
    extra = output_padding or [0] * n
    before, after = (pads[:n], pads[n:]) if pads else ([0] * n, [0] * n)
    if output_shape is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for k in range(n):
            size = X.shape[2 + k]
            wanted = size * strides[k] if output_shape is None else output_shape[k - n]
            full = strides[k] * (size - 1) + extra[k] + (W.shape[2 + k] - 1) * dilations[k] + 1
            whole = full - wanted
            small = whole // 2
            before.append(small if auto_pad == "SAME_UPPER" else whole - small)
            after.append(whole - before[k])
    fits = all(e < s or e < d for e, s, d in zip(extra, strides, dilations))
    if before == after and min(before) >= 0 and fits:
        return weft.convolution(X, W, B, strides, before, dilations, True, extra, group)
    full = weft.convolution(X, W, None, strides, [0] * n, dilations, True, [0] * n, group)
    cut = _padded(full, [-b for b in before], [e - a for e, a in zip(extra, after)], 0)
    return cut if B is None else cut + B.reshape([-1] + [1] * n)


def _pool_sides(
    sizes: list[int], kernel: list[int], strides: list[int], dilations: list[int], pads: Any,
    auto_pad: str, ceil_mode: int,
) -> tuple[list[int], list[int], list[int]]:  # fmt: skip
    """What is put before and after, and what after that so that the last window is whole."""
    before, after = _sides(sizes, kernel, strides, dilations, pads, auto_pad)
    more = [0] * len(sizes)
    if ceil_mode and auto_pad in ("NOTSET", ""):
        for k in range(len(sizes)):
            reach = dilations[k] * (kernel[k] - 1) + 1
            whole = sizes[k] + before[k] + after[k]
            out = -(-(whole - reach) // strides[k]) + 1
            if (out - 1) * strides[k] >= sizes[k] + before[k]:
                out -= 1  # the last window begins in the padding
            more[k] = max((out - 1) * strides[k] + reach - whole, 0)
    return before, after, more


def _max_pool(
    x: Tensor, kernel: list[int], strides: list[int], pads: list[int], dilations: list[int],
    places: bool,
) -> Any:  # fmt: skip
    n = x.dim() - 2
    f = weft.nn.functional
    if places:
        if n == 1:
            return f.max_pool1d(x, kernel, strides, pads, dilations, return_indices=True)
        if n == 2:
            return f.max_pool2d(x, kernel, strides, pads, dilations, return_indices=True)
        return f.max_pool3d(x, kernel, strides, pads, dilations, return_indices=True)
    if n == 1:
        return weft.max_pool1d(x, kernel, strides, pads, dilations)
    if n == 2:
        return weft.max_pool2d(x, kernel, strides, pads, dilations)
    return weft.max_pool3d(x, kernel, strides, pads, dilations)


def _more_than_three(words: dict[str, Any]) -> str | None:
    n = len(words.get("kernel_shape", [0]))
    return f"pools over {n} dimensions" if n > 3 else None


@operator("MaxPool", refuses=_more_than_three)
def max_pool(
    X: Tensor, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: Any = None, pads: Any = None, storage_order: int = 0, strides: Any = None,
    outputs: int,
) -> Any:  # fmt: skip
    """The largest of each window, and where it is in the whole tensor."""
    n, dtype = X.dim() - 2, X.dtype
    if not X.is_floating_point():
        X = X.to(weft.float32)
    strides, dilations = strides or [1] * n, dilations or [1] * n
    sizes = list(X.shape[2:])
    before, after, more = _pool_sides(
        sizes, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    after = [a + m for a, m in zip(after, more)]
    is_even = before == after and all(2 * b <= k for b, k in zip(before, kernel_shape))
    if outputs == 1 and is_even:
        return _max_pool(X, kernel_shape, strides, before, dilations, False).to(dtype)
    x = _padded(X, before, after, -float("inf"))
    zeros = [0] * n
    if outputs == 1:
        return _max_pool(x, kernel_shape, strides, zeros, dilations, False).to(dtype)
    values, places = _max_pool(x, kernel_shape, strides, zeros, dilations, True)
    flat, step = weft.zeros_like(places), 1
    order = range(n) if storage_order else range(n - 1, -1, -1)
    rest, at = places, [places] * n
    for k in range(n - 1, -1, -1):
        at[k] = rest % x.shape[2 + k] - before[k]
        rest = weft.div(rest, x.shape[2 + k], rounding_mode="floor")
    for k in order:
        flat, step = flat + at[k] * step, step * sizes[k]
    planes = weft.arange(X.shape[0] * X.shape[1]).reshape([*X.shape[:2], *[1] * n])
    return values.to(dtype), flat + planes * step


def _window_sums(x: Tensor, kernel: list[int], strides: list[int], dilations: list[int]) -> Tensor:
    """The sum over each window."""
    n, (rows, channels) = x.dim() - 2, x.shape[:2]
    flat = x.reshape([rows * channels, 1, *x.shape[2:]])
    ones = weft.ones([1, 1, *kernel], dtype=x.dtype)
    zeros = [0] * n
    out = weft.convolution(flat, ones, None, strides, zeros, dilations, False, zeros, 1)
    return out.reshape([rows, channels, *out.shape[2:]])


def _avg_pool(
    x: Tensor, kernel: list[int], strides: list[int], pads: list[int], whole: bool
) -> Tensor:
    f = weft.nn.functional
    if x.dim() == 3:
        return f.avg_pool1d(x, kernel, strides, pads, False, whole)
    if x.dim() == 4:
        return f.avg_pool2d(x, kernel, strides, pads, False, whole)
    return f.avg_pool3d(x, kernel, strides, pads, False, whole)


@operator("AveragePool", refuses=_more_than_three)
def average_pool(
    X: Tensor, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    count_include_pad: int = 0, dilations: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    """The mean of each window."""
    n = X.dim() - 2
    strides, dilations = strides or [1] * n, dilations or [1] * n
    sizes = list(X.shape[2:])
    before, after, more = _pool_sides(
        sizes, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    is_even = before == after and not any(more) and all(d == 1 for d in dilations)
    if is_even and all(2 * b <= k for b, k in zip(before, kernel_shape)):
        return _avg_pool(X, kernel_shape, strides, before, bool(count_include_pad))
    ones = weft.ones([1, 1, *sizes], dtype=X.dtype)
    ones = _padded(ones, before, after, 1 if count_include_pad else 0)
    zeros, end = [0] * n, [a + m for a, m in zip(after, more)]
    counts = _window_sums(_padded(ones, zeros, more, 0), kernel_shape, strides, dilations)
    sums = _window_sums(_padded(X, before, end, 0), kernel_shape, strides, dilations)
    return sums / counts


@operator("LpPool", refuses=_more_than_three)
def lp_pool(
    X: Tensor, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: Any = None, p: int = 2, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    """The norm of each window."""
    n = X.dim() - 2
    strides, dilations = strides or [1] * n, dilations or [1] * n
    before, after, more = _pool_sides(
        list(X.shape[2:]), kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    x = _padded(weft.abs(X) ** p, before, [a + m for a, m in zip(after, more)], 0)
    return _window_sums(x, kernel_shape, strides, dilations) ** (1 / p)


def _spatial(x: Tensor) -> list[int]:
    return list(range(2, x.dim()))


@operator("GlobalAveragePool")
def global_average_pool(X: Tensor) -> Tensor:
    """The mean of each channel."""
    return weft.mean(X, _spatial(X), True)


@operator("GlobalMaxPool")
def global_max_pool(X: Tensor) -> Tensor:
    """The largest of each channel."""
    return weft.amax(X, _spatial(X), True)


@operator("GlobalLpPool")
def global_lp_pool(X: Tensor, *, p: int = 2) -> Tensor:
    """The norm of each channel."""
    return weft.sum(weft.abs(X) ** p, _spatial(X), True) ** (1 / p)


@operator("MaxUnpool", numbers=["output_shape"])
def max_unpool(
    X: Tensor, I: Tensor, output_shape: Any = None, *, kernel_shape: Any, pads: Any = None,  # noqa: E741
    strides: Any = None,
) -> Tensor:  # fmt: skip
    """Elements put back to where MaxPool found them."""
    n = X.dim() - 2
    strides, pads = strides or [1] * n, pads or [0] * (2 * n)
    least = [
        (X.shape[2 + k] - 1) * strides[k] - pads[k] - pads[n + k] + kernel_shape[k]
        for k in range(n)
    ]
    shape = [*X.shape[:2], *least]
    count = 1
    for size in shape:
        count *= size
    flat = weft.zeros([count], dtype=X.dtype).scatter(0, I.reshape([-1]), X.reshape([-1]))
    out = flat.reshape(shape)
    if output_shape is None:
        return out
    return _padded(out, [0] * n, [output_shape[2 + k] - least[k] for k in range(n)], 0)


@operator("Col2Im", numbers=["image_shape", "block_shape"])
def col2im(
    input: Tensor, image_shape: Any, block_shape: Any, *, dilations: Any = None, pads: Any = None,
    strides: Any = None,
) -> Tensor:  # fmt: skip
    """Columns added into an image."""
    n = len(image_shape)
    strides, dilations, pads = strides or [1] * n, dilations or [1] * n, pads or [0] * (2 * n)
    whole = [image_shape[k] + pads[k] + pads[n + k] for k in range(n)]
    windows = []
    for k in range(n):
        reach = dilations[k] * (block_shape[k] - 1) + 1
        windows.append((whole[k] - reach) // strides[k] + 1)
    place = weft.zeros([1] * (2 * n), dtype=weft.int64)  # of each block's and window's element
    for k in range(n):
        block = [-1 if d == k else 1 for d in range(2 * n)]
        window = [-1 if d == n + k else 1 for d in range(2 * n)]
        at = weft.arange(block_shape[k]).reshape(block) * dilations[k]
        at = at + weft.arange(windows[k]).reshape(window) * strides[k]
        place = place * whole[k] + at
    rows, size = input.shape[0], 1
    for k in range(n):
        size *= whole[k]
    values = input.reshape([rows, -1, place.numel()])
    flat = weft.zeros([rows, values.shape[1], size], dtype=input.dtype)
    flat = weft.index_add(flat, 2, place.reshape([-1]), values)
    image = flat.reshape([rows, -1, *whole])
    return _padded(image, [-p for p in pads[:n]], [-p for p in pads[n:]], 0)
