"""Counts of elements in bins. PyTorch's semantics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import _C, return_types
from weft._C import Tensor
from weft.autograd._missing import without_derivative
from weft.base.forms import forms, method

__all__ = ["bincount", "histc", "histogram", "histogramdd"]


@method
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number occurs in a vector of ints of at least 0, or the sums of its weights.

    [n] gives [max(largest + 1, minlength)]: int64, or of the weights' dtype (float64 for ints).

    >>> weft.bincount(weft.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    if input.dtype.is_floating_point or input.dtype.is_complex or input.dtype is _C.bool:
        raise NotImplementedError(f"[bincount] expected integers, got {input.dtype}")
    if weights is None:
        return _C.ops._counts(input, minlength)
    input = input.to(_C.int64)
    low, high = (int(input.min()), int(input.max())) if input.numel() else (0, -1)
    if input.dim() != 1 or low < 0:
        raise RuntimeError(
            f"[bincount] expected numbers to count, got {input.dtype} {tuple(input.shape)} "
            "(bincount only supports 1-d non-negative integral inputs.)"
        )
    if minlength < 0:
        raise RuntimeError(f"[bincount] expected minlength of at least 0, got {minlength}")
    size = max(minlength, high + 1)
    if weights.dtype is not _C.float32:
        weights = weights.double()
    counts = weft.zeros(size, dtype=weights.dtype, device=weights.device)
    return counts.scatter_add(0, input, weights)


@forms(method=True, out=True)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts of elements in bins of equal width from `min` to `max`; by the data if both are equal.

    Elements outside and NaN are not counted.

    >>> weft.histc(weft.tensor([1.0, 2.0, 1.0]), 4, 0, 3)
    tensor([0., 2., 1., 0.])
    """
    if bins <= 0:
        raise RuntimeError(
            f"[histc] expected bins, got {bins} (torch.histogram(): bins must be > 0, but got "
            f"{bins} for dimension 0)"
        )
    x = input.detach().reshape(-1)
    low, high = float(min), float(max)
    if low == high and x.numel():
        low, high = float(x.min()), float(x.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"[histc] expected a finite range, got [{low}, {high}]")
    if low > high:
        raise RuntimeError(f"[histc] expected max to be larger than min, got [{low}, {high}]")
    x = x[(x >= low) & (x <= high)]
    if x.dtype.is_floating_point:
        place = ((x - low) / (high - low) * bins).long()
    else:
        place = ((x - low).double() / (high - low) * bins).long()
    out = weft.bincount(place.clamp(max=bins - 1), minlength=bins)
    return out.to(input.dtype)


def _edges(x: Tensor, bins: int, span: Sequence[float] | None) -> Tensor:
    """bins + 1 edges of equal distance over a range, by the data if there is none."""
    if span is not None:
        low, high = map(float, span)
        if low > high:
            raise RuntimeError(f"[histogram] expected max above min, got [{low}, {high}]")
    elif x.numel():
        low, high = float(x.min()), float(x.max())
    else:
        low, high = 0.0, 1.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"[histogram] expected a finite range, got [{low}, {high}]")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return weft.linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)


def _places(x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """The bin of each element, and whether it is in one; the last bin has both its edges."""
    bins = edges.shape[0] - 1
    place = weft.searchsorted(edges, x.contiguous(), right=True) - 1
    return place.clamp(0, bins - 1), (x >= edges[0]) & (x <= edges[-1])


def _counted(
    places: Tensor, inside: Tensor, weight: Tensor | None, size: int, like: Tensor
) -> Tensor:
    if weight is None:
        weight = weft.ones(places.shape, dtype=like.dtype, device=places.device)
    weights = weight.detach().reshape(-1)
    return weft.zeros(size, dtype=like.dtype, device=places.device).index_add(
        0, places[inside], weights[inside]
    )


@forms(method=True, out=True)
def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> return_types.histogram:
    """Counts (or sums of weights) in bins, a number of them or their edges, and those edges.

    With `density` the integral over the range is 1.

    The counts are [bins], the edges [bins + 1].

    >>> weft.histogram(weft.tensor([1.0, 2.0, 1.0]), 4, range=(0.0, 3.0)).hist
    tensor([0., 2., 1., 0.])
    """
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"[histogram] expected a floating input, got {input.dtype}")
    if weight is not None and weight.shape != input.shape:
        raise RuntimeError(
            f"[histogram] expected a weight of shape {tuple(input.shape)}, got "
            f"{tuple(weight.shape)}"
        )
    x = input.detach().reshape(-1)
    if isinstance(bins, Tensor):
        if range is not None:
            raise TypeError("[histogram] expected bins or a range, got edges and a range")
        if bins.dim() != 1 or bins.shape[0] < 2:
            raise RuntimeError(
                f"[histogram] expected two edges or more in a vector, got {tuple(bins.shape)} "
                "(bins must be > 0)"
            )
        edges = bins.detach().clone()
    else:
        if bins <= 0:
            raise RuntimeError(f"[histogram] expected bins above 0, got {bins}")
        edges = _edges(x, bins, range)
    place, inside = _places(x, edges)
    hist = _counted(place, inside, weight, edges.shape[0] - 1, x)
    if density:
        hist = hist / hist.sum() / (edges[1:] - edges[:-1])
    made = without_derivative("histogram", (input,), (hist, edges))
    return return_types.histogram(*made)


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> return_types.histogramdd:
    """A histogram in D dimensions of points `(..., D)`, and the edges of each dimension.

    `bins`: a number, one for each dimension, or the edges of each; `range`: 2 D numbers.

    The counts are [bins1, ..., binsD].

    >>> weft.histogramdd(weft.tensor([[0.0, 0.0], [1.0, 1.0]]), [2, 2]).hist
    tensor([[1., 0.],
            [0., 1.]])
    """
    if input.dim() < 2:
        raise RuntimeError(
            f"[histogramdd] expected points in two dimensions at least, got {input.dim()} (input "
            "tensor should have at least 2 dimensions)"
        )
    x = input.detach().reshape(-1, input.shape[-1])
    width = x.shape[1]
    counts: list[Any] = list(bins) if isinstance(bins, (list, tuple)) else [bins] * width
    if len(counts) != width:
        raise RuntimeError(f"[histogramdd] expected {width} bins, got {len(counts)}")
    edges: list[Tensor] = []
    for d, b in enumerate(counts):
        if isinstance(b, Tensor) and (b.dim() != 1 or b.dtype is not input.dtype):
            raise RuntimeError(
                f"[histogramdd] expected edges {input.dtype} in a vector, got {b.dtype} "
                f"{tuple(b.shape)} (bins tensor should have one dimension)"
            )
        span = None if range is None else range[2 * d : 2 * d + 2]
        edges.append(b if isinstance(b, Tensor) else _edges(x[:, d], b, span))
    flat = weft.zeros(x.shape[0], dtype=_C.int64, device=x.device)
    inside = weft.ones(x.shape[0], dtype=_C.bool, device=x.device)
    for d, e in enumerate(edges):
        place, within = _places(x[:, d], e)
        flat = flat * (e.shape[0] - 1) + place
        inside = inside & within
    sizes = [e.shape[0] - 1 for e in edges]
    hist = _C.ops._relaid(_counted(flat, inside, weight, math.prod(sizes), x), sizes)
    if density:
        hist = hist / hist.sum()
        for d, e in enumerate(edges):
            shape = [1] * width
            shape[d] = -1
            hist = hist / (e[1:] - e[:-1]).reshape(shape)
    hist, *edges = without_derivative("_histogramdd_from_bin_cts", (input,), (hist, *edges))
    return return_types.histogramdd(hist, tuple(edges))
