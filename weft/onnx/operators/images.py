"""Operators on images: other sizes, points between pixels, regions."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import largest, operator, single, smallest

_MODES = ("nearest", "linear", "cubic")
_PLACES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip


def _unknown(words: dict[str, Any]) -> str | None:
    if (mode := words.get("mode", "nearest")) not in _MODES:
        return f"the mode {mode!r}"
    place = words.get("coordinate_transformation_mode", "half_pixel")
    return None if place in _PLACES else f"coordinates as {place!r}"


def _sources(n: int, out: int, scale: float, how: str, start: float, end: float) -> Tensor:
    """Where each new pixel lies among the old ones."""
    x = weft.arange(out, dtype=weft.float32)  # as ONNX Runtime counts: what is near a half depends
    if how == "align_corners":
        # the standard's text counts n * scale; PyTorch and ONNX Runtime what comes of it
        return x * (n - 1) / (out - 1) if out > 1 else x * 0
    if how == "asymmetric":
        return x / scale
    if how == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if how == "tf_crop_and_resize":
        if out > 1:
            return start * (n - 1) + x * ((end - start) * (n - 1) / (out - 1))
        return x + 0.5 * (start + end) * (n - 1)
    if how == "pytorch_half_pixel" and out == 1:
        return x * 0
    if how == "half_pixel_symmetric":
        offset = n / 2 * (1 - out / (n * scale))
        return offset + (x + 0.5) / scale - 0.5
    return (x + 0.5) / scale - 0.5


def _nearest(x: Tensor, how: str) -> Tensor:
    if how == "floor":
        return weft.floor(x)
    if how == "ceil":
        return weft.ceil(x)
    if how == "round_prefer_ceil":
        return weft.floor(x + 0.5)
    return weft.ceil(x - 0.5)


def _kernel(d: Tensor, mode: str, a: float) -> Tensor:
    """How much a pixel at a distance counts."""
    d = weft.abs(d)
    if mode == "linear":
        return weft.clamp(1 - d, min=0)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return weft.where(d <= 1, near, weft.where(d < 2, far, weft.zeros_like(d)))


def _weights(
    x: Tensor, n: int, scale: float, mode: str, a: float, antialias: int, outside: int
) -> Tensor:
    """A matrix from old pixels to new ones; those beyond the edge count for the edge's pixel."""
    reach = 1 if mode == "linear" else 2
    wide = max(1.0, 1 / scale) if antialias else 1.0
    side = math.ceil(reach * wide)
    steps = weft.arange(-side, side + 1, dtype=weft.float32)
    places = weft.floor(x).unsqueeze(1) + steps
    shares = _kernel((x.unsqueeze(1) - places) / wide, mode, a)
    inside = weft.logical_and(places >= 0, places <= n - 1)
    if outside:
        shares = weft.where(inside, shares, weft.zeros_like(shares))
    shares = shares / shares.sum(1, True)
    at = weft.clamp(places, 0, n - 1).to(weft.int64)
    return weft.zeros(x.shape[0], n, dtype=weft.float32).scatter_add(1, at, shares)


def _sizes(
    X: Tensor, named: list[int], scales: Any, sizes: Any, policy: str
) -> tuple[list[float], list[int]]:
    """How much larger each dimension becomes, and how large."""
    if not sizes:
        ratios = list(scales)
        return ratios, [int(X.shape[a] * r) for a, r in zip(named, ratios)]
    ratios = [n / X.shape[a] if X.shape[a] else 1.0 for a, n in zip(named, sizes)]
    if policy == "stretch":
        return ratios, list(sizes)
    one = min(ratios) if policy == "not_larger" else max(ratios)
    return [one] * len(named), [int(one * X.shape[a] + 0.5) for a in named]


@operator("Resize", numbers=["roi", "scales", "sizes"], refuses=_unknown)
def resize(
    X: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0,
    axes: Any = None, coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor", version: int,
) -> Tensor:  # fmt: skip
    """Another size, a dimension at a time; before version 11 `asymmetric` and `floor`."""
    how = coordinate_transformation_mode
    if version < 11:
        scales, roi, how, nearest_mode = roi, None, "asymmetric", "floor"
    named = list(range(X.dim())) if axes is None else [a % X.dim() for a in axes]
    ratios, wanted = _sizes(X, named, scales, sizes, keep_aspect_ratio_policy)
    crops, dtype = how == "tf_crop_and_resize", X.dtype
    out, beyond = X, None
    if mode != "nearest" and not X.is_floating_point():
        out = X.to(weft.float32)
    for k in range(len(named)):
        axis, n, ratio = named[k], X.shape[named[k]], ratios[k]
        if wanted[k] == n and ratio == 1 and not crops:
            continue
        start, end = (roi[k], roi[len(named) + k]) if crops else (0.0, 1.0)
        x = _sources(n, wanted[k], ratio, how, start, end)
        if mode == "nearest":
            places = weft.clamp(_nearest(x, nearest_mode), 0, n - 1).to(weft.int64)
            out = weft.index_select(out, axis, places)
        else:
            w = _weights(x, n, ratio, mode, cubic_coeff_a, antialias, exclude_outside)
            out = weft.movedim(weft.movedim(out, axis, -1) @ w.t().to(out.dtype), -1, axis)
        if crops:
            shape = [-1 if d == axis else 1 for d in range(X.dim())]
            off = weft.logical_or(x < 0, x > n - 1).reshape(shape)
            beyond = off if beyond is None else weft.logical_or(beyond, off)
    if beyond is not None:
        out = weft.where(beyond, extrapolation_value, out)
    if out.dtype == dtype or mode == "nearest":
        return out.to(dtype)
    return weft.clamp(weft.round(out), smallest(dtype), largest(dtype)).to(dtype)


@operator("Upsample", numbers=["scales"])
def upsample(
    X: Tensor, scales: Any = None, *, mode: str = "nearest", height_scale: float = 1.0,
    width_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """A larger size."""
    ratios = [1.0, 1.0, height_scale, width_scale] if scales is None else scales
    how = "linear" if mode == "bilinear" else mode
    return resize(X, ratios, mode=how, version=10)


def _mirrored(x: Tensor, low: float, high: float) -> Tensor:
    """Coordinates folded back between two ends."""
    size = high - low
    if size <= 0:
        return weft.zeros_like(x)
    x = weft.abs(x - low)
    turns = weft.floor(x / size)
    over = x - turns * size
    return weft.where(weft.remainder(turns, 2) == 0, over + low, high - over)


def _place(x: Tensor, n: int, padding: str, align: int) -> Tensor:
    """Coordinates within the image, as the mode of padding has it."""
    if padding == "border":
        return weft.clamp(x, 0, n - 1)
    if padding == "reflection":
        ends = (0.0, n - 1.0) if align else (-0.5, n - 0.5)
        return weft.clamp(_mirrored(x, *ends), 0, n - 1)
    return x


def _pixels(X: Tensor, places: list[Tensor], padding: str) -> Tensor:
    """X[b, :, *places[b]], zero outside unless the padding says otherwise."""
    sizes = X.shape[2:]
    inside = places[0] >= 0
    flat = weft.zeros_like(places[0], dtype=weft.int64)
    for p, n in zip(places, sizes):
        inside = weft.logical_and(inside, weft.logical_and(p >= 0, p <= n - 1))
        flat = flat * n + weft.clamp(p, 0, n - 1).to(weft.int64)
    shape = flat.shape
    rows = X.reshape([X.shape[0], X.shape[1], -1])
    at = flat.reshape([shape[0], 1, -1]).expand([X.shape[0], X.shape[1], flat[0].numel()])
    found = weft.gather(rows, 2, at).reshape([*X.shape[:2], *shape[1:]])
    if padding != "zeros":
        return found
    return weft.where(inside.unsqueeze(1), found, weft.zeros_like(found))


@operator("GridSample")
def grid_sample(
    X: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:  # fmt: skip
    """Values at points between pixels, of any number of spatial dimensions."""
    how = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    n = X.dim() - 2
    if n == 2 or (n == 3 and how != "cubic"):
        if X.is_floating_point() and X.dtype == grid.dtype:
            plain = {"linear": "bilinear", "cubic": "bicubic"}.get(how, how)
            f = weft.nn.functional
            return f.grid_sample(X, grid, plain, padding_mode, align_corners != 0)
    axes = []
    for k in range(n):
        size = X.shape[2 + k]
        g = grid.select(-1, n - 1 - k)
        axes.append((g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2)
    if how == "cubic":
        return _sample_cubic(X, axes, padding_mode, align_corners)
    axes = [_place(x, X.shape[2 + k], padding_mode, align_corners) for k, x in enumerate(axes)]
    if how == "nearest":
        return _pixels(X, [weft.round(x) for x in axes], padding_mode)
    out = None
    low = [weft.floor(x) for x in axes]
    for corner in range(2**n):
        bits = [corner >> k & 1 for k in range(n)]
        share = weft.ones_like(axes[0])
        for k in range(n):
            part = axes[k] - low[k]
            share = share * (part if bits[k] else 1 - part)
        value = _pixels(X, [low[k] + bits[k] for k in range(n)], padding_mode)
        value = value * share.unsqueeze(1)
        out = value if out is None else out + value
    assert out is not None
    return out


def _sample_cubic(X: Tensor, axes: list[Tensor], padding: str, align: int) -> Tensor:
    low = [weft.floor(x) for x in axes]
    out = None
    n = len(axes)
    for corner in range(4**n):
        steps = [corner // 4**k % 4 - 1 for k in range(n)]
        share = weft.ones_like(axes[0])
        places = []
        for k in range(n):
            share = share * _kernel(axes[k] - low[k] - steps[k], "cubic", -0.75)
            places.append(_place(low[k] + steps[k], X.shape[2 + k], padding, align))
        value = _pixels(X, places, padding) * share.unsqueeze(1)
        out = value if out is None else out + value
    assert out is not None
    return out


@operator("RoiAlign")
def roi_align(
    X: Tensor, rois: Tensor, batch_indices: Tensor, *,
    coordinate_transformation_mode: str | None = None, mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0, version: int,
) -> Tensor:  # fmt: skip
    """He et al. 2017: regions as images of one size."""
    default = "half_pixel" if version >= 16 else "output_half_pixel"
    half = (coordinate_transformation_mode or default) == "half_pixel"
    h, w = X.shape[2:]
    out = []
    for k in range(rois.shape[0]):
        box = rois[k] * spatial_scale - (0.5 if half else 0.0)
        x1, y1, x2, y2 = box.unbind()
        wide, high = x2 - x1, y2 - y1
        if not half:
            wide, high = weft.clamp(wide, min=1), weft.clamp(high, min=1)
        bin_h, bin_w = high / output_height, wide / output_width
        count_h = sampling_ratio or max(int(weft.ceil(bin_h).item()), 1)
        count_w = sampling_ratio or max(int(weft.ceil(bin_w).item()), 1)
        steps = weft.arange(output_height * count_h, dtype=X.dtype)
        y = y1 + (steps + 0.5) * (bin_h / count_h)
        steps = weft.arange(output_width * count_w, dtype=X.dtype)
        x = x1 + (steps + 0.5) * (bin_w / count_w)
        image = weft.index_select(X, 0, batch_indices[k].reshape([1]).to(weft.int64))[0]
        found = _bilinear(image, y, x, h, w)
        shape = [X.shape[1], output_height, count_h, output_width, count_w]
        if mode == "avg":
            out.append(found[0].reshape(shape).mean([2, 4]))
        else:
            out.append(weft.amax(found[1].reshape(shape), [2, 4]))
    if not out:
        return weft.zeros([0, X.shape[1], output_height, output_width], dtype=X.dtype)
    return weft.stack(out)


def _bilinear(image: Tensor, y: Tensor, x: Tensor, h: int, w: int) -> tuple[Tensor, Tensor]:
    """Means of the four pixels around points of a raster, and the largest of their parts."""
    off = weft.logical_or(
        weft.logical_or(y < -1, y > h).unsqueeze(1), weft.logical_or(x < -1, x > w)
    )
    y, x = weft.clamp(y, 0, h - 1), weft.clamp(x, 0, w - 1)
    y0, x0 = weft.floor(y), weft.floor(x)
    y1, x1 = weft.clamp(y0 + 1, max=h - 1), weft.clamp(x0 + 1, max=w - 1)
    fy, fx = (y - y0).unsqueeze(1), x - x0
    parts = []
    for rows, wy in ((y0, 1 - fy), (y1, fy)):
        for columns, wx in ((x0, 1 - fx), (x1, fx)):
            value = weft.index_select(image, 1, rows.to(weft.int64))
            value = weft.index_select(value, 2, columns.to(weft.int64)) * (wy * wx)
            parts.append(weft.where(off, weft.zeros_like(value), value))
    whole = weft.stack(parts)
    return whole.sum(0), weft.amax(whole, 0)


def _overlaps(boxes: Tensor, center: int) -> Tensor:
    """The shared area of boxes [..., n, 4] over that of both together, [..., n, n]."""
    a, b, c, d = boxes.unbind(-1)
    if center:
        y1, x1, y2, x2 = b - d / 2, a - c / 2, b + d / 2, a + c / 2
    else:
        y1, y2 = weft.minimum(a, c), weft.maximum(a, c)
        x1, x2 = weft.minimum(b, d), weft.maximum(b, d)
    sides = []
    for low, high in ((y1, y2), (x1, x2)):
        end = weft.minimum(high.unsqueeze(-1), high.unsqueeze(-2))
        start = weft.maximum(low.unsqueeze(-1), low.unsqueeze(-2))
        sides.append(weft.clamp(end - start, min=0))
    shared, area = sides[0] * sides[1], (y2 - y1) * (x2 - x1)
    union = area.unsqueeze(-1) + area.unsqueeze(-2) - shared
    return weft.where(union > 0, shared / union, weft.zeros_like(union))


@operator("NonMaxSuppression", numbers=[
    "max_output_boxes_per_class", "iou_threshold", "score_threshold",
])  # fmt: skip
def non_max_suppression(
    boxes: Tensor, scores: Tensor, max_output_boxes_per_class: Any = None,
    iou_threshold: Any = None, score_threshold: Any = None, *, center_point_box: int = 0,
) -> Tensor:  # fmt: skip
    """The best of boxes that overlap: rows of batch, class and box."""
    most = int(single(max_output_boxes_per_class or 0))
    over = _overlaps(boxes, center_point_box) > (single(iou_threshold) or 0.0)
    least = single(score_threshold)
    rows = []
    for b in range(scores.shape[0]):
        hits = over[b].tolist()
        for c in range(scores.shape[1]):
            values = scores[b][c].tolist()
            order = weft.argsort(scores[b][c], descending=True, stable=True).tolist()
            kept: list[int] = []
            for k in order:
                if len(kept) == most or least is not None and values[k] <= least:
                    break
                if not any(hits[k][j] for j in kept):
                    kept.append(k)
            rows += [[b, c, k] for k in kept]
    return weft.tensor(rows, dtype=weft.int64).reshape([-1, 3])


@operator("MaxRoiPool")
def max_roi_pool(
    X: Tensor, rois: Tensor, *, pooled_shape: list[int], spatial_scale: float = 1.0
) -> Tensor:
    """Girshick 2015: the largest of each part of a region."""
    h, w = X.shape[2:]
    out = []
    for row in rois.tolist():
        b = int(row[0])
        x1, y1, x2, y2 = (int(math.floor(v * spatial_scale + 0.5)) for v in row[1:])
        high, wide = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        lines = []
        for i in range(pooled_shape[0]):
            top = min(max(i * high // pooled_shape[0] + y1, 0), h)
            bottom = min(max(-(-(i + 1) * high // pooled_shape[0]) + y1, 0), h)
            for j in range(pooled_shape[1]):
                left = min(max(j * wide // pooled_shape[1] + x1, 0), w)
                right = min(max(-(-(j + 1) * wide // pooled_shape[1]) + x1, 0), w)
                part = X[b, :, top:bottom, left:right]
                lines.append(
                    weft.amax(part, [1, 2]) if part.numel() else weft.zeros_like(X[b, :, 0, 0])
                )
        out.append(weft.stack(lines, 1).reshape([X.shape[1], *pooled_shape]))
    if not out:
        return weft.zeros([0, X.shape[1], *pooled_shape], dtype=X.dtype)
    return weft.stack(out)
