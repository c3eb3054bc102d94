"""Gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import weft
from weft.onnx.builder import Builder
from weft.onnx.errors import NotOnnx
from weft.onnx.graph import Size, Value
from weft.onnx.records import form, needs


def _indices(g: Builder, index: Value) -> Value:
    return g.cast(index, weft.int64)


@form("index_select")
def _index_select(g: Builder, self: Value, dim: Any, index: Value) -> Value:
    if not self.rank:
        return g.op("Identity", self)
    index = g.reshape(index, [1]) if index.rank == 0 else index
    return g.op("Gather", self, _indices(g, index), axis=needs(dim, "dim") % self.rank)


@form("gather", "_pick_along")
def _gather(g: Builder, self: Value, dim: Any, index: Value, sparse_grad: Any = False) -> Value:
    dim = needs(dim, "dim")
    if not self.rank:
        return g.op("Expand", self, g.shape(index))
    if not index.rank:
        index = g.reshape(index, [1])
        return g.reshape(g.op("GatherElements", self, _indices(g, index), axis=dim), [])
    self = cut(g, self, index, dim % self.rank)
    return g.op("GatherElements", self, _indices(g, index), axis=dim % index.rank)


def cut(g: Builder, x: Value, index: Value, dim: int) -> Value:
    """The part of `x` that an index reaches: ONNX wants equal sizes but along `dim`."""
    for d in range(x.rank):
        if d == dim:
            continue
        n, m = g.size(index, d), x.sizes[d] if x.sizes is not None else None
        if not isinstance(n, int) or n != m:
            x = g.slice(x, d, 0, n)
    return x


@form("take")
def _take(g: Builder, self: Value, index: Value) -> Value:
    return g.op("Gather", g.reshape(self, [-1]), _indices(g, index), axis=0)


@form("take_along_dim")
def _take_along(g: Builder, self: Value, indices: Value, dim: Any) -> Value:
    if dim is None:
        flat = g.reshape(self, [-1])
        return g.op("GatherElements", flat, g.reshape(_indices(g, indices), [-1]), axis=0)
    dim = needs(dim, "dim") % self.rank
    own, other = g.size_list(self), g.size_list(indices)
    common = [b if a == 1 else a for a, b in zip(own, other)]
    self = g.expand(self, [*common[:dim], own[dim], *common[dim + 1 :]])
    indices = g.expand(_indices(g, indices), [*common[:dim], other[dim], *common[dim + 1 :]])
    return g.op("GatherElements", self, indices, axis=dim)


@form("embedding")
def _embedding(
    g: Builder,
    weight: Value,
    indices: Value,
    padding_idx: Any,
    scale_grad_by_freq: Any,
    sparse: Any,
) -> Value:
    return g.op("Gather", weight, _indices(g, indices), axis=0)


def _classes(_: Any, self: Value, num_classes: Any) -> list[int]:
    """One more than the largest, unless they are told."""
    return [] if isinstance(num_classes, int) and num_classes >= 0 else [self.rank]


@form("one_hot", "_one_hot", "_one_hot_open", free=_classes)
def _one_hot(g: Builder, self: Value, num_classes: Any) -> Value:
    if isinstance(num_classes, int) and num_classes < 0:
        num_classes = g.op("ReduceMax", self, keepdims=0) + 1
    if not self.rank:
        return g.squeeze(_one_hot(g, g.unsqueeze(self, [0]), num_classes), [0])
    return g.op(
        "OneHot", self, g.ints(num_classes), g.const([0, 1], weft.int64), axis=-1, dtype=weft.int64
    )


# ---- x[indices]


def _plan(indices: Sequence[Value | None], rank: int) -> tuple[list[int], bool]:
    """The dimensions that tensors index, and whether these stand side by side."""
    dims = [d for d, index in enumerate(indices) if index is not None]
    return dims, all(b == a + 1 for a, b in zip(dims, dims[1:]))


def _masks_as_places(g: Builder, indices: Sequence[Value | None]) -> list[Value | None]:
    """Masks become places of their True elements, a tensor for each dimension."""
    out: list[Value | None] = []
    for index in indices:
        if index is None or index.dtype not in (weft.bool, weft.uint8):
            out.append(index)
            continue
        if not index.rank:
            raise NotOnnx("a mask without dimensions")
        found = g.op("NonZero", index)
        out += [
            g.op("Gather", found, g.scalar(d, weft.int64), axis=0, sizes=(None,))
            for d in range(index.rank)
        ]
    return out


def _wrapped(g: Builder, index: Value, size: Size) -> Value:
    index = _indices(g, index)
    return g.op("Where", index < 0, index + size, index)


def _stacked(
    g: Builder, places: Sequence[Value], sizes: Sequence[Size], shape: Value | None
) -> Value:
    """Places of several dimensions, broadcast, beside each other along a last dimension."""
    wrapped = [_wrapped(g, i, n) for i, n in zip(places, sizes)]
    total = wrapped[0] * 0
    for i in wrapped[1:]:
        total = total + i * 0
    rank = max(i.rank for i in wrapped)
    rows = [g.op("Unsqueeze", i + total, g.ints(-1)) for i in wrapped]
    out = rows[0] if len(rows) == 1 else g.op("Concat", *rows, axis=-1)
    return Value(out.model, out.name, out.dtype, (None,) * rank + (len(rows),))


@form("index")
def _index(g: Builder, self: Value, indices: Sequence[Value | None]) -> Value:
    indices = _masks_as_places(g, indices)
    dims, together = _plan(indices, self.rank)
    places = [i for i in indices if i is not None]
    if not places:
        return g.op("Identity", self)
    if len(dims) == 1:
        return g.op("Gather", self, _indices(g, places[0]), axis=dims[0])
    rest = [d for d in range(self.rank) if d not in dims]
    moved = g.transpose(self, [*dims, *rest])
    at = _stacked(g, places, [g.size(self, d) for d in dims], None)
    out = g.op("GatherND", moved, at)
    front, wide = dims[0] if together else 0, at.rank - 1
    if front == 0:
        return out
    perm = [*range(wide, wide + front), *range(wide), *range(wide + front, wide + len(rest))]
    return g.op("Transpose", out, perm=perm)


@form("_index_each")
def _index_each(g: Builder, self: Value, indices: Sequence[Value | None], shared: Any) -> Value:
    """Each row of `self` by its own row of indices, or, `shared`, all by the rows of one."""
    rows = [None if i is None else g.fixed(i, 0, "a number of rows") for i in indices]
    count = next(n for n in rows if n is not None)
    outs = []
    for k in range(count):
        at = g.const(k, weft.int64)
        mine = [
            None if i is None else g.op("Gather", i, at, axis=0, sizes=(i.sizes or ())[1:])
            for i in indices
        ]
        if needs(shared, "shared"):
            outs.append(g.unsqueeze(_index(g, self, mine), [0]))
        else:
            row = g.op("Gather", self, at, axis=0, sizes=(self.sizes or ())[1:])
            outs.append(g.op("Unsqueeze", _index(g, row, mine), g.ints([0])))
    return outs[0] if count == 1 else g.op("Concat", *outs, axis=0)


def _found(_: Any, **params: Any) -> list[int]:
    """As many rows as values say."""
    return [0]


@form("nonzero", "argwhere", free=_found)
def _nonzero(g: Builder, self: Value) -> Value:
    if self.dtype in (weft.int8, weft.int16):
        self = g.cast(self, weft.int32)
    if not self.rank:
        return g.full([g.cast(g.truth(self), weft.int64), 0], 0, weft.int64)
    return g.op("Transpose", g.op("NonZero", self), perm=[1, 0])


@form("index_put")
def _index_put(
    g: Builder, self: Value, indices: Sequence[Value | None], values: Value, accumulate: Any
) -> Value:
    given = _masks_as_places(g, indices)
    dims, together = _plan(given, self.rank)
    places = [i for i in given if i is not None]
    rest = [d for d in range(self.rank) if d not in dims]
    perm = [*dims, *rest]
    moved = g.transpose(self, perm)
    at = _stacked(g, places, [g.size(self, d) for d in dims], None)
    wide = at.rank - 1
    values = g.cast(values, self.dtype)
    front = dims[0] if together else 0
    if front and values.rank > len(rest) - front:
        # places stand between other dimensions in what is given: bring them to the front
        total = wide + len(rest)
        values = g.unsqueeze(values, list(range(total - values.rank)))
        order = [*range(front, front + wide), *range(front), *range(front + wide, total)]
        values = g.op("Transpose", values, perm=order)
    shape = g.op("Slice", g.op("Shape", at), g.ints(0), g.ints(-1), g.ints(0))
    tail = g.ints([g.size(self, d) for d in rest]) if rest else None
    full = g.op("Concat", shape, tail, axis=0) if tail is not None else shape
    updates = g.op("Expand", values, full)
    out = g.op("ScatterND", moved, at, updates, reduction="add" if accumulate else None)
    back = [perm.index(d) for d in range(self.rank)]
    return out if back == list(range(self.rank)) else g.op("Transpose", out, perm=back)


@form("index_put.plain")
def _index_put_plain(
    g: Builder, self: Value, values: Value, indices: Any, accumulate: Any
) -> Value:
    return _index_put(g, self, indices, values, accumulate)


# ---- writes along a dimension


def _rows(g: Builder, x: Value, dim: int, index: Value) -> tuple[Value, Value, list[int]]:
    """`x` with `dim` in front, places for ScatterND, and how to turn it back."""
    perm = [dim, *(d for d in range(x.rank) if d != dim)]
    index = g.reshape(index, [1]) if index.rank == 0 else index
    at = g.unsqueeze(_wrapped(g, index, g.size(x, dim)), [1])
    return g.transpose(x, perm), at, perm


def _back(g: Builder, x: Value, perm: Sequence[int]) -> Value:
    order = [list(perm).index(d) for d in range(len(perm))]
    return x if order == list(range(len(perm))) else g.op("Transpose", x, perm=order)


def _written(g: Builder, x: Value, dim: int, index: Value, source: Value, how: str | None) -> Value:
    if not x.rank:
        source = g.reshape(source, []) if source.rank else source
        return x + source if how == "add" else g.op("Identity", source)
    dim %= x.rank
    moved, at, perm = _rows(g, x, dim, index)
    source = g.transpose(g.cast(source, x.dtype), perm) if source.rank == x.rank else source
    return _back(g, g.op("ScatterND", moved, at, source, reduction=how), perm)


@form("index_add")
def _index_add(g: Builder, self: Value, dim: Any, index: Value, source: Value, alpha: Any) -> Value:
    source = g.cast(source, self.dtype)
    source = source if isinstance(alpha, int) and alpha == 1 else source * alpha
    return _written(g, self, needs(dim, "dim"), index, source, "add")


@form("index_copy")
def _index_copy(g: Builder, self: Value, dim: Any, index: Value, source: Value) -> Value:
    dim = needs(dim, "dim")
    if self.rank and source.rank == 0:
        source = g.reshape(source, [1])
    return _written(g, self, dim, index, source, None)


@form("index_fill", "index_fill.tensor")
def _index_fill(g: Builder, self: Value, dim: Any, index: Value, value: Any) -> Value:
    value = g.scalar(value, self.dtype)
    if not self.rank:
        return g.op("Identity", value)
    dim = needs(dim, "dim") % self.rank
    moved, at, perm = _rows(g, self, dim, index)
    count = g.op("Shape", at, start=0, end=1)
    rest = g.ints([g.size(self, d) for d in perm[1:]]) if len(perm) > 1 else None
    shape = g.op("Concat", count, rest, axis=0) if rest is not None else count
    return _back(g, g.op("ScatterND", moved, at, g.op("Expand", value, shape)), perm)


_REDUCTIONS = {
    None: None,
    "add": "add",
    "sum": "add",
    "multiply": "mul",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
}


def _scattered(g: Builder, x: Value, dim: int, index: Value, src: Value, how: str | None) -> Value:
    if not x.rank:
        shaped = [v if v.rank else g.reshape(v, [1]) for v in (x, index, src)]
        return g.reshape(_scattered(g, shaped[0], 0, shaped[1], shaped[2], how), [])
    if index.rank == 0:
        index, src = g.reshape(index, [1]), g.reshape(src, [1])
    if index.sizes is not None and 0 in index.sizes:
        return g.op("Identity", x)
    for d in range(index.rank):
        n, m = g.size(index, d), src.sizes[d] if src.sizes is not None else None
        if not isinstance(n, int) or n != m:
            src = g.slice(src, d, 0, n)
    return g.op(
        "ScatterElements",
        x,
        _indices(g, index),
        g.cast(src, x.dtype),
        axis=dim % x.rank,
        reduction=how,
    )


@form("scatter")
def _scatter(g: Builder, self: Value, dim: Any, index: Value, src: Value, reduce: Any) -> Value:
    return _scattered(g, self, needs(dim, "dim"), index, src, _REDUCTIONS[reduce])


@form("scatter.value")
def _scatter_value(
    g: Builder, self: Value, dim: Any, index: Value, value: Any, reduce: Any
) -> Value:
    src = g.op("Expand", g.scalar(value, self.dtype), g.shape(index), sizes=index.sizes)
    return _scattered(g, self, needs(dim, "dim"), index, src, _REDUCTIONS[reduce])


@form("scatter_add")
def _scatter_add(g: Builder, self: Value, dim: Any, index: Value, src: Value) -> Value:
    return _scattered(g, self, needs(dim, "dim"), index, src, "add")


@form("_scatter_reduce")
def _scatter_reduce(
    g: Builder, self: Value, dim: Any, index: Value, src: Value, reduce: str, include_self: Any
) -> Value:
    dim = needs(dim, "dim")
    if not self.rank and not src.rank and not index.rank:
        src, index = g.reshape(src, [1]), g.reshape(index, [1])
        return g.reshape(
            _scatter_reduce(g, g.reshape(self, [1]), 0, index, src, reduce, include_self), []
        )
    if self.dtype == weft.bool:  # ONNX Runtime scatters bools without a reduction alone
        wide, more = (g.cast(v, weft.int32) for v in (self, src))
        reduce = "sum" if reduce == "mean" else reduce  # true where one of them is
        return g.truth(_scatter_reduce(g, wide, dim, index, more, reduce, include_self))
    ones = g.op("Expand", g.scalar(1, self.dtype), g.shape(src), sizes=src.sizes)
    zeros = g.op("Expand", g.scalar(0, self.dtype), g.shape(self), sizes=self.sizes)
    start = self
    if not include_self:
        unit: float = {"sum": 0, "mean": 0, "prod": 1, "amax": -np.inf, "amin": np.inf}[reduce]
        if not self.dtype.is_floating_point and reduce in ("amax", "amin"):
            limits = weft.iinfo(self.dtype)
            unit = limits.min if reduce == "amax" else limits.max
        hit = _scattered(g, zeros, dim, index, ones, "add") > 0
        start = g.op("Where", hit, g.scalar(unit, self.dtype), self)
    how = "add" if reduce == "mean" else _REDUCTIONS[reduce]
    out = _scattered(g, start, dim, index, src, how)
    if reduce in ("amax", "amin") and self.dtype.is_floating_point:
        own, more = (g.cast(g.op("IsNaN", v), self.dtype) for v in (start, src))
        nans = _scattered(g, own, dim, index, more, "add")
        return g.op("Where", nans > 0, np.nan, out)
    if reduce != "mean":
        return out
    count = _scattered(g, zeros, dim, index, ones, "add") + (1 if include_self else 0)
    count = g.op("Max", count, 1)
    if self.dtype.is_floating_point:
        return out / count
    return g.op("Div", out - g.op("Mod", out, count), count)


@form("put")
def _put(g: Builder, self: Value, index: Value, source: Value, accumulate: Any) -> Value:
    flat = g.reshape(self, [-1])
    flat = Value(flat.model, flat.name, flat.dtype, (None,))
    at = g.unsqueeze(_wrapped(g, g.reshape(index, [-1]), g.numel(self)), [1])
    new = g.reshape(g.cast(source, self.dtype), [-1])
    out = g.op("ScatterND", flat, at, new, reduction="add" if accumulate else None)
    return g.reshape(out, g.size_list(self))


@form("masked_select", free=_found)
def _masked_select(g: Builder, self: Value, mask: Value) -> Value:
    shape = g.op("Shape", g.op("And", self * 0 < 1, mask)) if self.dtype != weft.bool else g.op(
        "Shape", g.op("And", self, mask)
    )  # fmt: skip
    both = (
        g.reshape(g.op("Expand", self, shape), [-1]),
        g.reshape(g.op("Expand", mask, shape), [-1]),
    )
    return g.op("Compress", *both, axis=0)


@form("masked_scatter")
def _masked_scatter(g: Builder, self: Value, mask: Value, source: Value) -> Value:
    mask = g.op("Expand", mask, g.shape(self), sizes=self.sizes)
    at = g.op("Transpose", g.op("NonZero", mask), perm=[1, 0])
    count = g.op("Shape", at, start=0, end=1)
    new = g.op("Slice", g.reshape(g.cast(source, self.dtype), [-1]), g.ints(0), count)
    if not self.rank:
        filled = g.op("Concat", new, g.reshape(self, [1]), axis=0)
        return g.op("Gather", filled, g.scalar(0, weft.int64), axis=0)
    return g.op("ScatterND", self, at, new)


@form("_searchsorted")
def _searchsorted(g: Builder, sorted_sequence: Value, self: Value, right: Any) -> Value:
    if sorted_sequence.rank != 1:
        if self.rank != sorted_sequence.rank:
            raise NotOnnx("searchsorted with several rows and one value")
        rows = g.unsqueeze(sorted_sequence, [sorted_sequence.rank - 1])
    else:
        rows = sorted_sequence
    value = g.unsqueeze(self, [self.rank])
    right = needs(right, "right")
    past = rows <= value if right else rows < value
    if value.dtype.is_floating_point:  # NaN is the largest
        behind = g.op("IsNaN", value)
        if not right:
            behind = g.op("And", behind, g.op("Not", g.op("IsNaN", rows)))
        past = g.op("Or", past, behind)
    return g.op("ReduceSum", g.cast(past, weft.int64), g.ints([-1]), keepdims=0)
