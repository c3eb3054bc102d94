"""Order: extremes, medians, quantiles, sets and places of elements. PyTorch's semantics.

A `dim` of None stands for all elements, `keepdim` keeps a reduced dimension as one of size 1.
"""

from __future__ import annotations

from typing import Any, TypeVar

import weft
from weft import _C, return_types
from weft._C import Tensor
from weft.autograd._missing import without_derivative
from weft.base.forms import forms, method
from weft.composites.axes import wrap

R = TypeVar("R", return_types.mode, return_types.nanmedian)

__all__ = [
    "aminmax", "bucketize", "mode", "msort", "nanmedian", "nanquantile", "quantile", "searchsorted",
    "unique", "unique_consecutive",
]  # fmt: skip


@forms(method=True, out=True)
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> return_types.aminmax:
    """The smallest and the largest element, of all or along `dim`.

    Both are 0-d, or of the input's shape without `dim`, which has size 1 with `keepdim`.

    >>> weft.aminmax(weft.tensor([2, 1, 3])).max
    tensor(3)
    """
    low, high = _C.ops._extremes(input, dim, keepdim)
    return return_types.aminmax(low, high)


@forms(method=True, out=True)
def msort(input: Tensor) -> Tensor:
    """Sorted along the first dimension.

    >>> weft.msort(weft.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return input.sort(0).values


def _chosen(kind: type[R], input: Tensor, indices: Tensor, dim: int, keepdim: bool) -> R:
    """The elements at `indices`, which have size 1 along dim."""
    values = input.gather(dim, indices)
    if not keepdim and input.dim():
        values, indices = values.squeeze(dim).clone(), indices.squeeze(dim).clone()
    return kind(*(values, indices))


@forms(method=True, out=True)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of what is not NaN; along a dim also where it stands.

    0-d, or of the input's shape without `dim`, which has size 1 with `keepdim`.

    >>> weft.nanmedian(weft.tensor([1.0, float("nan"), 3.0]))
    tensor(1.)
    """
    if dim is None:
        return _C.ops._nanmedian(input)
    dim = wrap("nanmedian", dim, input.dim())
    if input.dim() and input.shape[dim] == 0:
        raise IndexError(f"[nanmedian] expected a dim with elements, got size 0 at {dim}")
    detached = input.detach()
    order = detached.argsort(dim)
    if input.dim() == 0:
        return return_types.nanmedian(input.clone(), order)
    count = (~weft.isnan(detached)).sum(dim, True)
    place = ((count - 1) // 2).clamp(min=0)
    return _chosen(return_types.nanmedian, input, order.gather(dim, place), dim, keepdim)


@forms(method=True, out=True)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> return_types.mode:
    """The most frequent element along `dim`, of several the smallest, and where it stands last.

    >>> weft.mode(weft.tensor([3, 1, 3, 1, 2])).values
    tensor(1)
    """
    dim = wrap("mode", dim, input.dim())
    if input.dim() == 0:
        return return_types.mode(input.clone(), weft.zeros((), dtype=_C.int64, device=input.device))
    size = input.shape[dim]
    if size == 0:
        raise IndexError(f"[mode] expected a dim with elements, got size 0 at {dim}")
    values, order = input.detach().sort(dim, stable=True)
    new = weft.ones(values.shape, dtype=_C.bool, device=values.device)
    if size > 1:
        differs = values.narrow(dim, 1, size - 1) != values.narrow(dim, 0, size - 1)
        new.narrow(dim, 1, size - 1).copy_(differs)
    shape = [1] * input.dim()
    shape[dim] = size
    place = weft.arange(size, device=values.device).reshape(shape).expand(values.shape)
    start = weft.where(new, place, 0).cummax(dim).values
    # The first place where the run is longest so far is the end of the longest one.
    end = (place - start).argmax(dim, True)
    return _chosen(return_types.mode, input, order.gather(dim, end), dim, keepdim)


def _points(who: str, input: Tensor, q: Any, how: str) -> Any:
    """`q` as a tensor, if it and the other arguments are such as `_quantile` takes."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"[{who}] expected another dtype, got {input.dtype} ({who}() input tensor must be "
            "either float or double dtype)"
        )
    if how not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"[{who}] expected interpolation linear, lower, higher, midpoint or nearest, got "
            f"'{how}'"
        )
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(
                f"[{who}] expected a share, got {q} ({who}() q must be in the range [0, 1] but got "
                f"{q:g})"
            )
        q = weft.tensor(q, dtype=input.dtype, device=input.device)
    elif q.dim() > 1 or q.dtype is not input.dtype:
        raise RuntimeError(
            f"[{who}] expected a q of {input.dtype} with at most one dimension, got {q.dtype} "
            f"with {q.dim()}"
        )
    elif q.numel() and not bool(((q >= 0) & (q <= 1)).all()):
        raise RuntimeError(
            f"[{who}] expected shares, got others ({who}() q values must be in the range [0, 1])"
        )
    if not input.numel():
        raise RuntimeError(f"[{who}] expected an input that is not empty, got one")
    return q


def _quantile(
    who: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, how: str, ignore_nan: bool
) -> Tensor:
    q = _points(who, input, q, how)
    rank = input.dim()
    if dim is None:
        rows = input.reshape(-1)
    else:
        dim = wrap(who, dim, rank)
        rows = input.reshape(1) if rank == 0 else input.movedim(dim, -1)
    rows = rows.sort(-1).values
    points = q.reshape(-1)
    last = rows.shape[-1] - 1
    if ignore_nan:
        count = (~weft.isnan(rows.detach())).sum(-1, True).to(input.dtype)
        ranks = (points * (count - 1)).clamp(min=0)
    else:
        nan = weft.isnan(rows.detach().narrow(-1, last, 1))
        ranks = weft.where(nan, float(last), points * last)
    if how == "lower":
        ranks = ranks.floor()
    elif how == "higher":
        ranks = ranks.ceil()
    elif how == "nearest":
        ranks = ranks.round()
    below = ranks.detach().long()
    out = rows.gather(-1, below)
    if how in ("linear", "midpoint"):
        part = weft.full_like(ranks, 0.5) if how == "midpoint" else ranks - below
        above = rows.gather(-1, ranks.detach().ceil().long())
        out = out.lerp(above, part)
    # out is (..., q); the result (q, ...), without q for a number.
    if dim is None:
        out = out.reshape([-1] + [1] * rank) if keepdim else out.reshape(-1)
    else:
        out = out.movedim(-1, 0)
        if keepdim and rank:
            out = out.unsqueeze(dim + 1)
    return out if q.dim() else _C.ops._relaid(out, out.shape[1:])


@forms(method=True, out=True)
def quantile(
    input: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Quantiles at q in [0, 1], a number or a vector; NaN where a NaN is among the values.

    `interpolation` between neighbours: linear, lower, higher, midpoint or nearest. A vector q makes
    a first dimension. Raises: RuntimeError for a q out of range or an empty input.

    >>> weft.quantile(weft.tensor([0.0, 1.0, 2.0]), 0.25)
    tensor(0.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@forms(method=True, out=True)
def nanquantile(
    input: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """`quantile` of what is not NaN.

    Shapes are those of `quantile`: [*q's shape, *the input's without `dim`].

    >>> weft.nanquantile(weft.tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


# ---- places and sets


@forms(out=True)
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | complex,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each value would be inserted into sorted rows `(..., n)` to keep them sorted.

    Before equal elements, or behind them with `right` (or side="right"). A vector of boundaries
    serves values of any shape; otherwise the leading sizes agree. `sorter`: the order in which the
    rows are sorted.

    Raises: RuntimeError for shapes that do not fit or sides that contradict.

    >>> weft.searchsorted(weft.tensor([1, 3, 5]), weft.tensor([3, 6]))
    tensor([1, 3])
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"[searchsorted] expected side 'left' or 'right', got '{side}'")
    if side == "left" and right:
        raise RuntimeError("[searchsorted] expected side and right to agree, got left and True")
    values = input if isinstance(input, Tensor) else weft.tensor(input)
    if values.dtype is not sorted_sequence.dtype:
        given = isinstance(input, Tensor)
        common = weft.promote_types(values.dtype, sorted_sequence.dtype) if given else (
            weft.result_type(sorted_sequence, input)
        )  # fmt: skip
        values, sorted_sequence = values.to(common), sorted_sequence.to(common)
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape or sorter.dtype is not _C.int64:
            raise RuntimeError(
                "[searchsorted] expected an int64 sorter of the boundaries' shape, got "
                f"{sorter.dtype} {tuple(sorter.shape)}"
            )
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    out = _C.ops._searchsorted(sorted_sequence.detach(), values.detach(), right or side == "right")
    return out.to(_C.int32) if out_int32 else out


@forms(out=True)
def bucketize(
    input: Tensor | complex, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """`searchsorted` in a vector of boundaries.

    int64 (int32 with `out_int32`) of the input's shape; the boundaries are [n], ascending.

    >>> weft.bucketize(weft.tensor([0, 4]), weft.tensor([1, 3, 5]))
    tensor([0, 2])
    """
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"[bucketize] expected a vector, got {boundaries.dim()} dimensions (boundaries tensor "
            f"must be 1 dimension, but got dim({boundaries.dim()}))"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def _runs(values: Tensor) -> Tensor:
    """Along the first dimension: whether a slice differs from the one before."""
    new = weft.ones(values.shape[0], dtype=_C.bool, device=values.device)
    if values.shape[0] > 1:
        differs = values[1:] != values[:-1]
        new[1:] = differs if values.dim() == 1 else differs.reshape(differs.shape[0], -1).any(1)
    return new


def _sizes_of(new: Tensor) -> Tensor:
    starts = weft.cat([new.nonzero().reshape(-1), weft.tensor([new.shape[0]])])
    return starts[1:] - starts[:-1]


def _sorted_rows(rows: Tensor) -> Tensor:
    """The order that sorts the rows of a matrix as words: stable sorts, the last column first."""
    order = weft.arange(rows.shape[0], device=rows.device)
    for k in range(rows.shape[1] - 1, -1, -1):
        order = order[rows[order, k].argsort(stable=True)]
    return order


@method
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct values in ascending order, or the distinct slices along `dim`.

    Also where each element (slice) went, and how often each is.

    >>> weft.unique(weft.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    x = input.detach()
    if dim is None:
        values, order = x.reshape(-1).sort()
        shape = x.shape
    else:
        moved = x.movedim(dim, 0)
        order = _sorted_rows(moved.reshape(moved.shape[0], -1))
        values = moved[order]
        shape = order.shape
    new = _runs(values)
    kept = values.masked_select(new) if dim is None else values[new].movedim(0, dim)
    op, node = ("_unique2", "Unique2") if dim is None else ("unique_dim", "UniqueDim")
    found = list(without_derivative(op, (input,), (kept,), f"{node}Backward0"))
    if return_inverse:
        ranks = new.long().cumsum(0) - 1
        found.append(weft.empty_like(ranks).scatter(0, order, ranks).reshape(shape))
    if return_counts:
        found.append(_sizes_of(new))
    return found[0] if len(found) == 1 else tuple(found)


@method
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The values without repetitions of the one before, or the slices along `dim`.

    [k] for k runs, or the input with size k at `dim`. The inverse has the input's shape, or is a
    vector along `dim`; the counts are [k]. Both are int64.

    >>> weft.unique_consecutive(weft.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    x = input.detach()
    values = x.reshape(-1) if dim is None else x.movedim(dim, 0)
    new = _runs(values)
    kept = values.masked_select(new) if dim is None else values[new].movedim(0, dim)
    node = "UniqueConsecutiveBackward0"
    found = list(without_derivative("unique_consecutive", (input,), (kept,), node))
    if return_inverse:
        ranks = new.long().cumsum(0) - 1
        found.append(ranks.reshape(x.shape) if dim is None else ranks)
    if return_counts:
        found.append(_sizes_of(new))
    return found[0] if len(found) == 1 else tuple(found)
