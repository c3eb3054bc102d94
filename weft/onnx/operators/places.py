"""Operators that read and write at places."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import operator


def _counted(indices: Tensor, size: int) -> Tensor:
    """Places as int64, those below zero from the end on."""
    places = indices if indices.dtype == weft.int64 else indices.to(weft.int64)
    return weft.where(places < 0, places + size, places)


@operator("Gather", scalars=True)
def gather(data: Tensor, indices: Any, *, axis: int = 0) -> Tensor:
    """Slices along a dimension."""
    if not isinstance(indices, Tensor):
        return data.select(axis, indices)
    places = _counted(indices, data.shape[axis])
    if indices.dim() == 1:
        return weft.index_select(data, axis, places)
    at = axis % data.dim()
    found = weft.index_select(data, at, places.reshape([-1]))
    shape = [*data.shape[:at], *indices.shape, *data.shape[at + 1 :]]
    return found.reshape(shape)


@operator("GatherElements")
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Elements along a dimension."""
    return weft.gather(data, axis, _counted(indices, data.shape[axis]))


def _columns(indices: Tensor, sizes: list[int]) -> list[Tensor]:
    """The coordinates in the last dimension of `indices`, one tensor for each."""
    return [_counted(indices.select(-1, k), n) for k, n in enumerate(sizes)]


@operator("GatherND")
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices at coordinates."""
    b, m = batch_dims, indices.shape[-1]
    found = _columns(indices, list(data.shape[b : b + m]))
    rows = []
    for k in range(b):
        shape = [data.shape[k] if d == k else 1 for d in range(indices.dim() - 1)]
        rows.append(weft.arange(data.shape[k]).reshape(shape))
    return data[(*rows, *found)]


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scattered(data: Tensor, dim: int, places: Tensor, values: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return weft.scatter(data, dim, places, values)
    return data.scatter_reduce(dim, places, values, _REDUCE[reduction])


@operator("ScatterElements")
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Elements written along a dimension."""
    places = _counted(indices, data.shape[axis])
    return _scattered(data, axis, places, updates, reduction)


@operator("Scatter")
def scatter(data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0) -> Tensor:
    """Elements written along a dimension."""
    return scatter_elements(data, indices, updates, axis=axis)


@operator("ScatterND")
def scatter_nd(
    data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none"
) -> Tensor:
    """Slices written at coordinates."""
    m = indices.shape[-1]
    columns = _columns(indices, list(data.shape[:m]))
    if reduction == "none" or reduction == "add":
        return weft.index_put(data, columns, updates, accumulate=reduction == "add")
    place = weft.zeros_like(columns[0])
    for k in range(m):
        place = place * data.shape[k] + columns[k]
    rest = list(data.shape[m:])
    flat = data.reshape([-1, *rest])
    places = place.reshape([-1] + [1] * len(rest)).expand([place.numel(), *rest])
    found = _scattered(flat, 0, places, updates.reshape([-1, *rest]), reduction)
    return found.reshape(data.shape)


@operator("NonZero")
def non_zero(X: Tensor) -> Tensor:
    """Places that are not zero, a row for each dimension."""
    return weft.t(weft.nonzero(X))


@operator("Compress")
def compress(input: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """Slices where a condition holds."""
    places = weft.nonzero(condition).reshape([-1])
    if axis is None:
        return weft.index_select(input.reshape([-1]), 0, places)
    return weft.index_select(input, axis, places)


@operator("Unique")
def unique(X: Tensor, *, axis: int | None = None, sorted: int = 1, outputs: int) -> Any:
    """Different slices, where each first was, which each is, and how many there are."""
    values, inverse, counts = weft.unique(X, True, True, True, axis)
    n, flat = values.shape[axis or 0], inverse.reshape([-1])
    first = weft.full([n], flat.numel()).scatter_reduce(0, flat, weft.arange(flat.numel()), "amin")
    if not sorted:
        order = weft.argsort(first)
        values = weft.index_select(values, axis or 0, order)
        rank = weft.empty_like(order).scatter(0, order, weft.arange(n))
        first, flat, counts = first[order], rank[flat], counts[order]
    found = (values, first, flat, counts)[:outputs]
    return found if outputs > 1 else values


@operator("TensorScatter")
def tensor_scatter(
    past_cache: Tensor, update: Tensor, write_indices: Tensor | None = None, *,
    mode: str = "linear", axis: int = -2,
) -> Tensor:  # fmt: skip
    """A cache with new steps written, for each row of the batch at a place of its own."""
    at, n, size = axis % past_cache.dim(), update.shape[axis], past_cache.shape[axis]
    steps = weft.arange(n)
    if write_indices is not None:
        steps = write_indices.reshape([-1, 1]) + steps
    if mode == "circular":
        steps = steps % size
    shape = [1] * past_cache.dim()
    shape[at] = n
    if write_indices is not None:
        shape[0] = past_cache.shape[0]
    return weft.scatter(past_cache, at, steps.reshape(shape).expand(update.shape), update)
