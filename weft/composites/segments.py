"""Reductions over segments of a dimension."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.autograd.function import Function

__all__ = ["segment_reduce"]

_WHO = "segment_reduce"
#: by PyTorch's name: ours, and what an empty segment has
_REDUCTIONS = {
    "sum": ("sum", 0.0), "mean": ("mean", 0.0), "prod": ("prod", 1.0),
    "max": ("amax", float("-inf")), "amax": ("amax", float("-inf")),
    "min": ("amin", float("inf")), "amin": ("amin", float("inf")),
}  # fmt: skip


def _fail(expected: str, got: Any, known: str) -> RuntimeError:
    return RuntimeError(f"[{_WHO}] expected {expected}, got {got} ({known})")


def _segments(
    size: int, lengths: Tensor | None, offsets: Tensor | None, unsafe: bool
) -> tuple[Tensor, Tensor]:
    """Where each segment starts and how long it is, along the last dimension of what is given."""
    if offsets is not None:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
        return starts.long(), (ends - starts).long()
    assert lengths is not None
    lengths = lengths.long()
    if not unsafe:
        if bool((lengths < 0).any()):
            raise _fail("lengths of at least 0", "others", "lengths contains negative value!")
        if bool((lengths.sum(-1) != size).any()):
            raise _fail(
                f"lengths that sum to {size}", "others",
                "Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
                "!unsafe.",
            )  # fmt: skip
    return lengths.cumsum(-1) - lengths, lengths


class _Extreme(Function):
    """The largest or smallest row of each segment; equal ones share its gradient."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, of: Tensor, start: Tensor, how: str) -> Tensor:
        """`rows` [n, ...] belong to segments `of` [n] of `start` [segments, ...]."""
        index = of.view([-1] + [1] * (rows.dim() - 1)).expand(rows.shape)
        out = start.scatter_reduce(0, index, rows, how, include_self=True)
        ctx.save_for_backward(rows, of, out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradient of the segment, shared."""
        rows, of, out = ctx.saved_tensors
        chosen = out[of]
        met = ((rows == chosen) | (rows.isnan() & chosen.isnan())).to(rows.dtype)
        count = weft.zeros_like(out).index_add(0, of, met)
        return met * (grads[0] / count.clamp(min=1))[of], None, None, None


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """The sum, mean, product, maximum or minimum of each segment along `axis`.

    Args:
        data: a floating tensor [..., n, ...].
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: int32 or int64 [..., segments], of as many dimensions as come up to `axis`.
        offsets: in place of it the start of each segment and the end of the last.
        indices: None.
        axis: the dimension of the segments, the last one of lengths.
        unsafe: whether lengths are not checked to sum to n.
        initial: what each segment begins with; of an empty one it is the result. None: 0, 1 for
            products, infinity for extrema; the mean of an empty segment is then NaN.

    Returns: a tensor [..., segments, ...].

    Raises:
        RuntimeError: another reduction, no segments, lengths below 0 or of another sum.
        NotImplementedError: data is not floating, lengths are no integers.

    >>> weft.segment_reduce(weft.tensor([1., 2., 3.]), "sum", lengths=weft.tensor([2, 0, 1]))
    tensor([3., 0., 3.])
    """
    if reduce not in _REDUCTIONS:
        raise _fail("a reduction", repr(reduce),
                    "reduce argument must be either sum, prod, mean, amax or amin, got "
                    f"{reduce}")  # fmt: skip
    how, empty = _REDUCTIONS[reduce]
    if indices is not None:
        raise _fail("lengths or offsets", "indices", f"{_WHO}(): indices based reduction is not "
                    "supported yet.")  # fmt: skip
    given = lengths if offsets is None else offsets
    if given is None:
        raise _fail("lengths or offsets", "neither", f"{_WHO}(): Either lengths or offsets must be "
                    "defined.")  # fmt: skip
    if not data.is_floating_point() or given.dtype not in (weft.int32, weft.int64):
        raise NotImplementedError(
            f"[{_WHO}] expected floating data and lengths of int32 or int64, got {data.dtype} and "
            f'{given.dtype} ("_segment_reduce_cpu" not implemented for it)'
        )
    if given.dim() > data.dim():
        raise _fail(f"lengths of at most {data.dim()} dimensions", given.dim(),
                    "Expected data.dim() >= lengths_value.dim() to be true")  # fmt: skip
    axis = axis + data.dim() if axis < 0 else axis
    if axis != given.dim() - 1:
        raise _fail(f"axis={given.dim() - 1}", axis, f"{_WHO}(): Expected axis to be the last "
                    f"dimension of lengths but got {axis}.")  # fmt: skip
    size, outer, inner = data.size(axis), data.shape[:axis], data.shape[axis + 1 :]
    starts, counts = _segments(size, lengths, offsets, unsafe)
    segments = counts.size(-1)
    first = weft.arange(0, max(starts[..., 0].numel(), 1) * size, max(size, 1))
    starts = (starts.reshape(-1, segments) + first[: starts[..., 0].numel()].view(-1, 1)).flatten()
    counts = counts.flatten()
    of = weft.arange(counts.numel()).repeat_interleave(counts)
    inside = weft.arange(of.numel()) - (counts.cumsum(0) - counts)[of]
    rows = data.reshape(-1, *inner).index_select(0, starts[of] + inside)
    begin = weft.full(
        (counts.numel(), *inner), empty if initial is None else float(initial), dtype=data.dtype
    )
    out = _reduced(rows, of, begin, how, counts, initial)
    return out.view(*outer, segments, *inner)


def _reduced(
    rows: Tensor, of: Tensor, begin: Tensor, how: str, counts: Tensor, initial: float | None
) -> Tensor:
    """The reduction of rows [n, ...] of segments `of` [n], each with what it begins with."""
    if how in ("amax", "amin"):
        out: Tensor = _Extreme.apply(rows, of, begin, how)
        return out
    if how == "prod":
        index = of.view([-1] + [1] * (rows.dim() - 1)).expand(rows.shape)
        return begin.scatter_reduce(0, index, rows, "prod", include_self=True)
    total = begin.index_add(0, of, rows)
    if how == "sum":
        return total
    sizes = counts.view([-1] + [1] * (rows.dim() - 1))
    nothing = float("nan") if initial is None else float(initial)
    return weft.where(sizes > 0, total / sizes.clamp(min=1).to(total.dtype),
                      weft.tensor(nothing, dtype=total.dtype))  # fmt: skip
