"""Operators on shapes, and those that make tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import _C, Tensor
from weft.onnx.operators.table import listed, operator, single


@operator("Reshape", numbers=["shape"])
def reshape(data: Tensor, shape: Any, *, allowzero: int = 0) -> Tensor:
    """Another shape; zeros in it are the size that is there."""
    if allowzero:
        return weft.reshape(data, shape)
    return weft.reshape(data, [n if n else data.shape[k] for k, n in enumerate(shape)])


@operator("Flatten")
def flatten(input: Tensor, *, axis: int = 1) -> Tensor:
    """A matrix: the dimensions before an axis, and the others."""
    rows = 1
    for n in input.shape[:axis] if axis else []:
        rows *= n
    columns = 1
    for n in input.shape[axis:] if axis else input.shape:
        columns *= n
    return weft.reshape(input, [rows, columns])


@operator("Transpose")
def transpose(data: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    """Dimensions in another order; backwards if none is given."""
    return weft.permute(data, perm if perm is not None else list(range(data.dim()))[::-1])


@operator("Squeeze", numbers=["axes"])
def squeeze(data: Tensor, axes: Any = None) -> Tensor:
    """Without dimensions of one."""
    return weft.squeeze(data) if axes is None else weft.squeeze(data, listed(axes))


@operator("Unsqueeze", numbers=["axes"])
def unsqueeze(data: Tensor, axes: Any) -> Tensor:
    """With dimensions of one, at places in the result."""
    axes = listed(axes)
    rank = data.dim() + len(axes)
    for axis in sorted([a % rank for a in axes]):
        data = weft.unsqueeze(data, axis)
    return data


@operator("Concat")
def concat(*inputs: Tensor, axis: int = 1) -> Tensor:
    """One after another; beside others, those without elements add none, whatever sizes a loop
    without turns gave them."""
    return weft.cat([t for t in inputs if t.numel()] or inputs, axis)


@operator("Split", numbers=["split"])
def split(
    input: Tensor, split: Any = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int
) -> Any:
    """Parts: of given sizes, or alike but for the last."""
    n = input.shape[axis]
    if split is None:
        each = -(-n // (num_outputs or outputs))
        split = [min(each, n - each * k) for k in range(num_outputs or outputs)]
    parts = weft.split(input, split, axis)
    return parts if outputs > 1 else parts[0]


@operator("Expand", numbers=["shape"])
def expand(input: Tensor, shape: Any) -> Tensor:
    """Broadcast with a shape."""
    return input.expand(weft.broadcast_shapes(input.shape, shape))


@operator("Tile", numbers=["repeats"])
def tile(input: Tensor, repeats: Any) -> Tensor:
    """Again and again."""
    return input.repeat(repeats)


def _part(data: Tensor, axis: int, start: int, end: int, step: int) -> Tensor:
    if step > 0:
        return _C.ops.slice(data, axis, start, end, step)
    n = data.shape[axis]
    first = min(start, n - 1) if start >= 0 else max(start + n, -1)
    last = min(end, n - 1) if end >= 0 else max(end + n, -1)
    return weft.index_select(
        data, axis, weft.tensor(list(range(first, last, step)), dtype=weft.int64)
    )


@operator("Slice", numbers=["starts", "ends", "axes", "steps"])
def slice_(data: Tensor, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Tensor:
    """A part: in each dimension from a place to another, by steps."""
    if not isinstance(starts, list):
        starts, ends, axes, steps = [starts], [ends], listed(axes), listed(steps)
    for k in range(len(starts)):
        axis = k if axes is None else axes[k]
        data = _part(data, axis, starts[k], ends[k], 1 if steps is None else steps[k])
    return data


def _around(data: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """More of a dimension: mirrored, its edge, or begun again; what is cut goes first."""
    data = _C.ops.slice(data, axis, max(-before, 0), data.shape[axis] - max(-after, 0), 1)
    n, before, after = data.shape[axis], max(before, 0), max(after, 0)
    places = range(-before, n + after)
    if mode == "edge":
        found = [min(max(p, 0), n - 1) for p in places]
    elif mode == "wrap":
        found = [p % n for p in places]
    else:
        turn = max(2 * (n - 1), 1)
        found = [min(p % turn, turn - p % turn) if n > 1 else 0 for p in places]
    return weft.index_select(data, axis, weft.tensor(found, dtype=weft.int64))


@operator("Pad", numbers=["pads", "axes"], scalars=True)
def pad(
    data: Tensor, pads: Any, constant_value: Any = None, axes: Any = None, *,
    mode: str = "constant", value: float = 0.0, paddings: Any = None,
) -> Tensor:  # fmt: skip
    """More around; less where it is negative."""
    rank = data.dim()
    named = list(range(rank)) if axes is None else [a % rank for a in axes]
    m = len(named)
    if mode != "constant":
        for k in range(m):
            data = _around(data, named[k], pads[k], pads[m + k], mode)
        return data
    sides = [0] * (2 * rank)  # from the last dimension on
    for k in range(m):
        at = 2 * (rank - 1 - named[k])
        sides[at], sides[at + 1] = pads[k], pads[m + k]
    filler = value if constant_value is None else constant_value
    if not isinstance(filler, Tensor):
        return weft.constant_pad_nd(data, sides, filler)
    inside = weft.constant_pad_nd(weft.ones_like(data, dtype=weft.bool), sides, False)
    return weft.where(inside, weft.constant_pad_nd(data, sides, 0), filler.reshape([]))


@operator("DepthToSpace")
def depth_to_space(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels as blocks of pixels."""
    n, c, h, w = input.shape
    b = blocksize
    if mode == "CRD":
        parts = input.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    else:
        parts = input.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // b**2, h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of pixels as channels."""
    n, c, h, w = input.shape
    b = blocksize
    parts = input.reshape(n, c, h // b, b, w // b, b)
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return parts.permute(*order).reshape(n, c * b**2, h // b, w // b)


@operator("Trilu", numbers=["k"])
def trilu(input: Tensor, k: Any = None, *, upper: int = 1) -> Tensor:
    """A triangle of matrices."""
    at = single(k) or 0
    return weft.triu(input, at) if upper else weft.tril(input, at)


@operator("EyeLike")
def eye_like(input: Tensor, *, dtype: weft.dtype | None = None, k: int = 0) -> Tensor:
    """Ones on a diagonal."""
    rows, columns = input.shape
    ones = weft.ones(rows, columns, dtype=dtype or input.dtype)
    return weft.triu(weft.tril(ones, k), k)


@operator("Range", scalars=True)
def arange(start: Any, limit: Any, delta: Any, *, stash_type: int = 1) -> Tensor:
    """Numbers from one to another by steps."""
    dtype = weft.int64
    for v in (start, limit, delta):
        if isinstance(v, Tensor):
            dtype = v.dtype
    a, b, c = (v.item() if isinstance(v, Tensor) else v for v in (start, limit, delta))
    if dtype.is_floating_point:  # as ONNX counts: start + k * delta
        count = max(int(-(-(b - a) // c)), 0)
        return (a + weft.arange(count, dtype=weft.float64) * c).to(dtype)
    return weft.arange(a, b, c, dtype=dtype) if (b - a) * c > 0 else weft.zeros(0, dtype=dtype)


@operator("OneHot", numbers=["depth"])
def one_hot(indices: Tensor, depth: Any, values: Tensor, *, axis: int = -1) -> Tensor:
    """A row for each index, with one value at its place and another elsewhere."""
    n = int(single(depth))
    places = indices.to(weft.int64)
    places = weft.where(places < 0, places + n, places)
    at = axis % (indices.dim() + 1)
    shape = [n if k == at else 1 for k in range(indices.dim() + 1)]
    found = weft.unsqueeze(places, at) == weft.arange(n).reshape(shape)
    return weft.where(found, values[1], values[0])


@operator("CenterCropPad", numbers=["shape"])
def center_crop_pad(input_data: Tensor, shape: Any, *, axes: Any = None) -> Tensor:
    """Cut or padded around the middle."""
    named = list(range(input_data.dim())) if axes is None else axes
    out = input_data
    for k in range(len(named)):
        n, wanted = out.shape[named[k]], shape[k]
        if n > wanted:
            out = out.narrow(named[k], (n - wanted) // 2, wanted)
        elif n < wanted:
            before = (wanted - n) // 2
            out = pad(out, [before, wanted - n - before], None, [named[k]])
    return out


@operator("ReverseSequence")
def reverse_sequence(
    input: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """The first steps of each row backwards, as many as it has."""
    x = weft.movedim(input, (time_axis, batch_axis), (0, 1))
    n = x.shape[0]
    steps = weft.arange(n).unsqueeze(1)
    lengths = sequence_lens.to(weft.int64).unsqueeze(0)
    places = weft.where(steps < lengths, lengths - 1 - steps, steps)
    places = places.reshape([n, x.shape[1]] + [1] * (x.dim() - 2)).expand(x.shape)
    return weft.movedim(weft.gather(x, 0, places), (0, 1), (time_axis, batch_axis))
