"""Views, joins and rearrangements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import weft
from weft.onnx.builder import Builder
from weft.onnx.errors import NeedsKnown
from weft.onnx.graph import Size, Value
from weft.onnx.records import form, needs


def listed(v: Any) -> list[Any]:
    """Ints as a list, also one without brackets."""
    return list(v) if isinstance(v, (tuple, list)) else [v]


Pair = tuple[weft.Tensor, weft.Tensor]


def _asked(pair: Pair, self: Value, size: Any = None, shape: Any = None) -> list[int]:
    """The sizes of a view that numbers of the run give; with what is left, where one is -1, unless
    both examples tell it."""
    sizes = listed(size if size is not None else shape)
    first, second = pair
    dims = [
        d for d, n in enumerate(sizes)
        if isinstance(n, Value) and first.shape[d] == second.shape[d]
    ]  # fmt: skip
    return dims + [d for d, n in enumerate(sizes) if dims and type(n) is int and n == -1]


@form("view", "_unsafe_view", "_reshape_alias", free=_asked)
def _view(g: Builder, self: Value, size: Any) -> Value:
    return _reshape(g, self, size)


@form("reshape", free=_asked, may_view=True)
def _reshape(g: Builder, self: Value, shape: Any) -> Value:
    return g.reshape(self, listed(shape))


@form("reshape_as", may_view=True)
def _reshape_as(g: Builder, self: Value, other: Value) -> Value:
    return g.op("Reshape", self, g.shape(other))


@form("ravel", may_view=True)
def _ravel(g: Builder, self: Value) -> Value:
    return g.reshape(self, [-1])


@form("contiguous", may_view=True)
def _contiguous(g: Builder, self: Value) -> Value:
    return g.op("Identity", self)


@form("flatten", may_view=True)
def _flatten(g: Builder, self: Value, start_dim: Any, end_dim: Any) -> Value:
    rank = self.rank
    if not rank:
        return g.reshape(self, [1])
    start, end = needs(start_dim, "start_dim") % rank, needs(end_dim, "end_dim") % rank
    sizes = g.size_list(self)
    middle = g.product(sizes[start : end + 1])  # no -1, which is nothing beside a size of 0
    return g.reshape(self, [*sizes[:start], middle, *sizes[end + 1 :]])


@form("unflatten")
def _unflatten(g: Builder, self: Value, dim: Any, sizes: Any) -> Value:
    dim = needs(dim, "dim") % self.rank
    own, parts = g.size_list(self), listed(sizes)
    known = [n for n in parts if isinstance(n, int)]
    if -1 in known and len(known) == len(parts) and isinstance(own[dim], int):
        rest = -math.prod(known)
        parts = [own[dim] // rest if n == -1 and rest else n for n in parts]
    return g.reshape(self, [*own[:dim], *parts, *own[dim + 1 :]])


@form("expand")
def _expand(g: Builder, self: Value, size: Any, implicit: bool = False) -> Value:
    sizes = listed(size)
    own = [None] * (len(sizes) - self.rank) + g.size_list(self)
    keep = [o if isinstance(n, int) and n == -1 else n for n, o in zip(sizes, own)]
    if all(isinstance(n, int) for n in keep):
        return g.expand(self, keep)
    # Expand broadcasts both ways: 1 keeps what is there
    return g.op("Expand", self, g.ints([1 if isinstance(n, int) and n == -1 else n for n in sizes]))


@form("broadcast_to")
def _broadcast_to(g: Builder, self: Value, size: Any) -> Value:
    return _expand(g, self, size)


@form("permute")
def _permute(g: Builder, self: Value, dims: Any) -> Value:
    return g.transpose(self, needs(listed(dims), "dims"))


@form("movedim")
def _movedim(g: Builder, self: Value, source: Any, destination: Any) -> Value:
    rank = self.rank
    source = [d % rank for d in needs(listed(source), "source")]
    destination = [d % rank for d in needs(listed(destination), "destination")]
    rest = iter(d for d in range(rank) if d not in source)
    at = dict(zip(destination, source))
    return g.transpose(self, [at[d] if d in at else next(rest) for d in range(rank)])


def _ones(g: Builder, x: Value, dims: Sequence[int]) -> list[int]:
    """Those of `dims` whose size is 1: known, or a squeeze has no form."""
    out = []
    for d in dims:
        n = x.sizes[d] if x.sizes is not None else None
        if n is None:
            hint = "keep that size fixed, or write select(dim, 0), which takes the first row"
            raise NeedsKnown("whether a size is 1", hint)
        if n == 1:
            out.append(d)
    return out


def _asked_to_go(self: Value, dim: Any = None) -> list[int]:
    """The dimensions that a squeeze takes away."""
    if not self.rank:
        return []
    return [d % self.rank for d in (range(self.rank) if dim is None else needs(listed(dim), "dim"))]


@form("squeeze", ones=_asked_to_go)
def _squeeze(g: Builder, self: Value) -> Value:
    return _or_same(g, g.squeeze(self, _ones(g, self, range(self.rank))))


@form("squeeze.dim", ones=_asked_to_go)
def _squeeze_dim(g: Builder, self: Value, dim: Any) -> Value:
    return _squeeze_dims(g, self, [dim])


@form("squeeze.dims", ones=_asked_to_go)
def _squeeze_dims(g: Builder, self: Value, dim: Any) -> Value:
    if not self.rank:
        return g.op("Identity", self)
    dims = [d % self.rank for d in needs(listed(dim), "dim")]
    return _or_same(g, g.squeeze(self, _ones(g, self, dims)))


@form("_squeeze_row")
def _squeeze_row(g: Builder, self: Value) -> Value:
    return g.squeeze(self, [0])


def _or_same(g: Builder, x: Value) -> Value:
    return g.op("Identity", x)


@form("unsqueeze")
def _unsqueeze(g: Builder, self: Value, dim: Any) -> Value:
    return g.unsqueeze(self, [needs(dim, "dim") % (self.rank + 1)])


@form("select")
def _select(g: Builder, self: Value, dim: Any, index: Any) -> Value:
    dim = needs(dim, "dim") % self.rank
    return g.op("Gather", self, g.scalar(index, weft.int64), axis=dim)


@form("_first")
def _first(g: Builder, self: Value) -> Value:
    return g.op("Gather", self, g.scalar(0, weft.int64), axis=0)


@form("narrow")
def _narrow(g: Builder, self: Value, dim: Any, start: Any, length: Any) -> Value:
    dim = needs(dim, "dim") % self.rank
    if isinstance(start, Value):
        n = g.size(self, dim)
        start = g.cast(start, weft.int64)
        start = g.op("Where", start < 0, start + n, start)
        return g.slice(self, dim, start, start + length)
    if start < 0:
        start = g.size(self, dim) + start
    return g.slice(self, dim, start, start + length)


_END = 2**63 - 1


def _cut(_: Pair, self: Value, dim: Any, start: Any, end: Any, step: Any) -> list[int]:
    """What is cut off of a free size, or at numbers of the run, may have fewer rows, also none."""
    dim = needs(dim, "dim") % self.rank
    is_known = (self.sizes or ())[dim] is not None
    return [] if is_known and not any(isinstance(v, Value) for v in (start, end)) else [dim]


@form("slice", free=_cut)
def _slice(g: Builder, self: Value, dim: Any, start: Any, end: Any, step: Any) -> Value:
    dim = needs(dim, "dim") % self.rank
    return g.slice(self, dim, 0 if start is None else start, _END if end is None else end, step)


def _pieces(g: Builder, x: Value, dim: int, sizes: Sequence[Size]) -> list[Value]:
    sizes = [n for n in sizes]
    if len(sizes) == 1:
        return [g.op("Identity", x)]
    out = g.several("Split", x, g.ints(sizes), axis=dim, outputs=len(sizes))
    return [out] if isinstance(out, Value) else list(out)


@form("split")
def _split(g: Builder, self: Value, split_size: Any, dim: Any) -> list[Value]:
    dim = needs(dim, "dim") % self.rank
    n, size = g.fixed(self, dim, "how many parts there are"), needs(split_size, "split_size")
    sizes = [min(size, n - k) for k in range(0, n, size)] if n else [0]
    return _pieces(g, self, dim, sizes)


def _parts(_: Pair, self: Value, dim: Any, **sizes: Any) -> list[int]:
    """Parts whose sizes numbers of the run give."""
    of_run = any(isinstance(n, Value) for given in sizes.values() for n in listed(given))
    return [dim % self.rank] if of_run else []


@form("split.sizes", free=_parts)
def _split_sizes(g: Builder, self: Value, split_size: Any, dim: Any) -> list[Value]:
    return _pieces(g, self, needs(dim, "dim") % self.rank, listed(split_size))


@form("split_with_sizes", free=_parts)
def _split_with_sizes(g: Builder, self: Value, split_sizes: Any, dim: Any) -> list[Value]:
    return _pieces(g, self, needs(dim, "dim") % self.rank, listed(split_sizes))


@form("chunk")
def _chunk(g: Builder, self: Value, chunks: Any, dim: Any) -> list[Value]:
    dim, chunks = needs(dim, "dim") % self.rank, needs(chunks, "chunks")
    n = g.fixed(self, dim, "how many parts there are")
    if n == 0:
        return _pieces(g, self, dim, [0] * chunks)
    return _split(g, self, -(-n // chunks), dim)


@form("unbind")
def _unbind(g: Builder, self: Value, dim: Any) -> list[Value]:
    dim = needs(dim, "dim") % self.rank
    n = g.fixed(self, dim, "how many parts there are")
    return [g.op("Gather", self, g.scalar(k, weft.int64), axis=dim) for k in range(n)]


def diagonal_of(g: Builder, x: Value, offset: int, dim1: int, dim2: int) -> Value:
    """The elements (i, i + offset), along a new last dimension."""
    rank = x.rank
    a, b = dim1 % rank, dim2 % rank
    x = g.transpose(x, [a, b, *(d for d in range(rank) if d not in (a, b))])
    rows, columns = g.size(x, 0), g.size(x, 1)
    if isinstance(rows, int) and isinstance(columns, int):
        n: Size = max(
            0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
        )
    else:
        left = (rows, columns - offset) if offset >= 0 else (rows + offset, columns)
        n = g.op(
            "Max", g.op("Min", *(g.scalar(v, weft.int64) for v in left)), g.const(0, weft.int64)
        )
    i = g.arange(n)
    places = [g.unsqueeze(i + max(-offset, 0), [1]), g.unsqueeze(i + max(offset, 0), [1])]
    picked = g.op("GatherND", x, g.op("Concat", *places, axis=1))
    return g.op("Transpose", picked, perm=[*range(1, rank - 1), 0]) if rank > 2 else picked


def _least(_: Pair, self: Value, dim1: Any = 0, dim2: Any = 1, **more: Any) -> list[int]:
    """A diagonal is as long as the shorter side."""
    if self.rank < 2:  # diag makes a matrix of a row
        return []
    sides = [(self.sizes or ())[needs(d, "dim") % self.rank] for d in (dim1, dim2)]
    return [self.rank - 2] if None in sides else []


@form("diagonal", free=_least)
def _diagonal(g: Builder, self: Value, offset: Any, dim1: Any, dim2: Any) -> Value:
    return diagonal_of(g, self, needs(offset, "offset"), needs(dim1, "dim1"), needs(dim2, "dim2"))


@form("_diagonal_copy")
def _diagonal_copy(g: Builder, self: Value) -> Value:
    return _or_same(g, self)


@form("diag_embed")
def _diag_embed(g: Builder, self: Value, offset: Any, dim1: Any, dim2: Any) -> Value:
    offset = needs(offset, "offset")
    rank = self.rank + 1
    a, b = needs(dim1, "dim1") % rank, needs(dim2, "dim2") % rank
    n = g.size(self, -1)
    total = n + abs(offset)
    columns = g.arange(total)
    rows = g.unsqueeze(columns, [1])
    on = g.op("Equal", rows + offset, columns)
    at = g.op("Clip", g.op("Where", on, columns - max(offset, 0), 0), 0, _last(g, n))
    spread = g.op("Gather", self, at, axis=self.rank - 1)
    out = g.op("Where", on, spread, g.const(0, self.dtype))
    rest = iter(range(rank - 2))
    perm = [rank - 2 if d == a else rank - 1 if d == b else next(rest) for d in range(rank)]
    return g.op("Transpose", out, perm=perm)


def _last(g: Builder, n: Size) -> Size:
    return max(n - 1, 0) if isinstance(n, int) else g.op("Max", n - 1, 0)


@form("diag", free=_least)
def _diag(g: Builder, self: Value, diagonal: Any) -> Value:
    if self.rank == 1:
        return _diag_embed(g, self, diagonal, 0, 1)
    return diagonal_of(g, self, needs(diagonal, "diagonal"), 0, 1)


def windows(_: Pair, **params: Any) -> list[int]:
    """How many windows there are of a free size is free, though two sizes may have as many."""
    x = params["input"] if "input" in params else params["self"]
    return [d for d, n in enumerate(x.sizes or ()) if n is None]


@form("unfold", free=windows)
def _unfold(g: Builder, self: Value, dimension: Any, size: Any, step: Any) -> Value:
    if not self.rank:
        return g.reshape(self, [1])
    dim = needs(dimension, "dimension") % self.rank
    size, step = needs(size, "size"), needs(step, "step")
    n = g.size(self, dim)
    count = (n - size) // step + 1
    starts = g.unsqueeze(g.arange(count) * step, [1])
    at = starts + g.arange(size)
    out = g.op("Gather", self, at, axis=dim)
    perm = [d if d <= dim else d + 1 for d in range(self.rank)]
    return g.op("Transpose", out, perm=[*perm, dim + 1])


@form("as_strided")
def _as_strided(g: Builder, self: Value, size: Any, stride: Any, storage_offset: Any) -> Value:
    sizes, strides = needs(listed(size), "size"), needs(listed(stride), "stride")
    start = needs(storage_offset, "storage_offset") or 0
    at = np.full((), start, np.int64)
    for n, s in zip(sizes, strides):
        at = at[..., None] + np.arange(n) * s
    return g.op("Gather", g.reshape(self, [-1]), g.const(at, weft.int64), axis=0)


# ---- joins


def joined(g: Builder, tensors: Sequence[Value]) -> list[Value]:
    """Tensors in the dtype of the result, without those that are empty rows."""
    full = [t for t in tensors if t.sizes != (0,)] or list(tensors)
    return [g.cast(t, g.result.dtype) for t in full]


@form("cat")
def _cat(g: Builder, tensors: Sequence[Value], dim: Any) -> Value:
    parts = joined(g, tensors)
    return _or_same(g, g.concat(parts, needs(dim, "dim") % parts[0].rank))


@form("stack")
def _stack(g: Builder, tensors: Sequence[Value], dim: Any) -> Value:
    dim = needs(dim, "dim") % (tensors[0].rank + 1)
    parts = [g.unsqueeze(g.cast(t, g.result.dtype), [dim]) for t in tensors]
    return g.concat(parts, dim)


def _wide(g: Builder, x: Value, rank: int) -> Value:
    """As atleast_1d, atleast_2d and atleast_3d."""
    if x.rank >= rank:
        return x
    if rank < 3:
        return g.unsqueeze(x, list(range(rank - x.rank)))
    return g.unsqueeze(x, {0: [0, 1, 2], 1: [0, 2], 2: [2]}[x.rank])


@form("hstack")
def _hstack(g: Builder, tensors: Sequence[Value]) -> Value:
    parts = [_wide(g, t, 1) for t in tensors]
    return _or_same(g, g.concat(joined(g, parts), 0 if parts[0].rank == 1 else 1))


@form("vstack")
def _vstack(g: Builder, tensors: Sequence[Value]) -> Value:
    return _or_same(g, g.concat(joined(g, [_wide(g, t, 2) for t in tensors]), 0))


@form("dstack")
def _dstack(g: Builder, tensors: Sequence[Value]) -> Value:
    return _or_same(g, g.concat(joined(g, [_wide(g, t, 3) for t in tensors]), 2))


# ---- rearrangements


def reverse(g: Builder, x: Value, dims: Sequence[int]) -> Value:
    """From the end to the start along `dims`."""
    if not dims:
        return g.op("Identity", x)
    n = len(dims)
    least = -(2**63)
    return g.op(
        "Slice",
        x,
        g.ints([-1] * n),
        g.ints([least] * n),
        g.ints(dims),
        g.ints([-1] * n),
        sizes=x.sizes,
    )


@form("flip")
def _flip(g: Builder, self: Value, dims: Any) -> Value:
    return reverse(
        g, self, [d % self.rank for d in needs(listed(dims), "dims")] if self.rank else []
    )


@form("fliplr")
def _fliplr(g: Builder, self: Value) -> Value:
    return reverse(g, self, [1])


@form("flipud")
def _flipud(g: Builder, self: Value) -> Value:
    return reverse(g, self, [0])


def _rolled(g: Builder, x: Value, shift: int, dim: int) -> Value:
    n = x.sizes[dim] if x.sizes is not None else None
    if n == 0:
        return x
    if n is not None:
        shift %= n
        if shift == 0:
            return x
        return g.concat([g.slice(x, dim, n - shift, n), g.slice(x, dim, 0, n - shift)], dim)
    size = g.size(x, dim)
    at = g.op("Mod", g.arange(size) - shift, g.op("Max", size, 1))
    return g.op("Gather", x, at, axis=dim, sizes=x.sizes)


@form("roll")
def _roll(g: Builder, self: Value, shifts: Any, dims: Any) -> Value:
    shifts, dims = needs(listed(shifts), "shifts"), needs(listed(dims), "dims")
    if not dims:
        flat = g.reshape(self, [g.numel(self)])
        return g.reshape(_rolled(g, flat, shifts[0], 0), g.size_list(self))
    for shift, dim in zip(shifts, dims):
        self = _rolled(g, self, shift, dim % self.rank)
    return _or_same(g, self)


@form("repeat")
def _repeat(g: Builder, self: Value, repeats: Any) -> Value:
    repeats = listed(repeats)
    self = g.unsqueeze(self, list(range(len(repeats) - self.rank)))
    return g.op("Tile", self, g.ints(repeats)) if repeats else g.op("Identity", self)


@form("tile")
def _tile(g: Builder, self: Value, dims: Any) -> Value:
    dims = listed(dims)
    return _repeat(g, self, [1] * (self.rank - len(dims)) + dims)


@form("repeat_interleave")
def _repeat_interleave(g: Builder, self: Value, repeats: Any, dim: Any, output_size: Any) -> Value:
    if dim is None:
        self, dim = g.reshape(self, [g.numel(self)]), 0
    self = self if self.rank else g.unsqueeze(self, [0])
    dim = needs(dim, "dim") % self.rank
    sizes = g.size_list(self)
    wide = g.unsqueeze(self, [dim + 1])
    tiles = [1] * wide.rank
    tiles[dim + 1] = repeats
    tiled = g.op("Tile", wide, g.ints(tiles))
    return g.reshape(tiled, [*sizes[:dim], sizes[dim] * repeats, *sizes[dim + 1 :]])


def _counted(g: Builder, counts: Value) -> Value:
    """0 as often as the first count says, then 1, ..."""
    ends = g.op("CumSum", counts, g.const(0, weft.int64))
    total = g.op("ReduceSum", counts, keepdims=0, sizes=())
    past = (
        g.unsqueeze(g.op("Range", g.const(0, weft.int64), total, g.const(1, weft.int64)), [1])
        >= ends
    )
    return g.op("ReduceSum", g.cast(past, weft.int64), g.ints([1]), keepdims=0)


def _counted_rows(
    _: Pair, output_size: Any, self: Any = None, dim: Any = None, **more: Any
) -> list[int]:
    """As many as `repeats` say, unless they are told."""
    return [] if isinstance(output_size, int) else [dim % self.rank if dim and self.rank else 0]


@form("repeat_interleave.counts", free=_counted_rows)
def _repeat_counts(g: Builder, repeats: Value, output_size: Any) -> Value:
    return _counted(g, repeats)


@form("repeat_interleave.tensor", free=_counted_rows)
def _repeat_tensor(g: Builder, self: Value, repeats: Value, dim: Any, output_size: Any) -> Value:
    if dim is None:
        self, dim = g.reshape(self, [g.numel(self)]), 0
    self = self if self.rank else g.unsqueeze(self, [0])
    dim = needs(dim, "dim") % self.rank
    counts = g.cast(repeats, weft.int64)
    if counts.rank == 0 or counts.sizes == (1,):
        counts = g.op("Expand", counts, g.ints(g.size(self, dim)))
    return g.op("Gather", self, _counted(g, counts), axis=dim)


@form("_repeat_index")
def _repeat_index(g: Builder, repeats: Value, size: Any) -> Value:
    return _counted(g, repeats)


@form("pixel_shuffle")
def _pixel_shuffle(g: Builder, self: Value, upscale_factor: Any) -> Value:
    r = needs(upscale_factor, "upscale_factor")
    *batch, c, h, w = g.size_list(self)
    x = g.reshape(self, [*batch, c // (r * r), r, r, h, w])
    n = len(batch)
    x = g.transpose(x, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return g.reshape(x, [*batch, c // (r * r), h * r, w * r])


@form("pixel_unshuffle")
def _pixel_unshuffle(g: Builder, self: Value, downscale_factor: Any) -> Value:
    r = needs(downscale_factor, "downscale_factor")
    *batch, c, h, w = g.size_list(self)
    x = g.reshape(self, [*batch, c, h // r, r, w // r, r])
    n = len(batch)
    x = g.transpose(x, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return g.reshape(x, [*batch, c * r * r, h // r, w // r])


@form("channel_shuffle")
def _channel_shuffle(g: Builder, self: Value, groups: Any) -> Value:
    groups = needs(groups, "groups")
    sizes = g.size_list(self)
    x = g.reshape(self, [sizes[0], groups, sizes[1] // groups, *sizes[2:]])
    return g.reshape(g.swap(x, 1, 2), sizes)
