"""Sets, counts and places of elements, made of the table's operators. PyTorch's semantics."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, return_types
from weft._C import Tensor

__all__ = [
    "bincount", "bucketize", "float_power", "frexp", "index_reduce", "isin", "ldexp",
    "nonzero_static", "scatter_reduce", "searchsorted", "unique", "unique_consecutive",
]  # fmt: skip
METHODS = [
    "bincount", "float_power", "frexp", "index_reduce", "ldexp", "nonzero_static",
    "scatter_reduce", "unique", "unique_consecutive",
]  # fmt: skip
INPLACE = ["float_power", "index_reduce", "ldexp", "scatter_reduce"]
OUT = [
    "bucketize", "float_power", "frexp", "index_reduce", "isin", "ldexp", "nonzero_static",
    "scatter_reduce", "searchsorted",
]  # fmt: skip


# ---- pointwise


def float_power(input: Any, exponent: Any) -> Tensor:
    """input ** exponent in float64 (complex128 for complex numbers).

    >>> weft.float_power(weft.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=torch.float64)
    """
    kind = _C.float64
    for x in (input, exponent):
        if isinstance(x, complex) or (isinstance(x, Tensor) and x.dtype.is_complex):
            kind = _C.complex128
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError("[float_power] expected a tensor, got two numbers")
    if isinstance(input, Tensor):
        power = exponent.to(kind) if isinstance(exponent, Tensor) else exponent
        return input.to(kind) ** power
    return weft.pow(input, exponent.to(kind))


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2 ** other.

    >>> weft.ldexp(weft.tensor([1.0, 3.0]), weft.tensor([2, -1]))
    tensor([4.0000, 1.5000])
    """
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        raise TypeError("[ldexp] expected two tensors, got a number")
    return input * weft.pow(2.0, other)


def frexp(input: Tensor) -> Any:
    """Mantissa in [0.5, 1) and exponent (int32) with input = mantissa * 2 ** exponent.

    >>> weft.frexp(weft.tensor([4.0, 3.0])).mantissa
    tensor([0.5000, 0.7500])
    """
    mantissa, exponent = _C.ops._frexp(input)
    return return_types.frexp(mantissa, exponent.to(_C.int32))


# ---- counts and sets


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number occurs in a vector of ints of at least 0, or the sums of its weights.

    >>> weft.bincount(weft.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    if input.dtype.is_floating_point or input.dtype.is_complex or input.dtype is _C.bool:
        raise NotImplementedError(f"[bincount] expected integers, got {input.dtype}")
    input = input.to(_C.int64)
    if input.dim() != 1 or (input.numel() and bool((input < 0).any())):
        raise RuntimeError(
            "[bincount] expected a vector of ints of at least 0, got "
            f"{input.dtype} {tuple(input.shape)}"
        )
    if minlength < 0:
        raise RuntimeError(f"[bincount] expected minlength of at least 0, got {minlength}")
    if weights is None:
        import numpy as np

        return weft.from_numpy(np.bincount(input.numpy(), minlength=minlength))
    size = max(minlength, int(input.max()) + 1 if input.numel() else 0)
    if weights.dtype is not _C.float32:
        weights = weights.double()
    return weft.zeros(size, dtype=weights.dtype).index_add(0, input, weights)


def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
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
    if not isinstance(input, Tensor):
        values = values.to(sorted_sequence.dtype)
    if values.dtype is not sorted_sequence.dtype:
        raise RuntimeError(
            "[searchsorted] expected boundaries and values of one dtype, got "
            f"{sorted_sequence.dtype} and {values.dtype}"
        )
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape or sorter.dtype is not _C.int64:
            raise RuntimeError(
                "[searchsorted] expected an int64 sorter of the boundaries' shape, got "
                f"{sorter.dtype} {tuple(sorter.shape)}"
            )
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    out = _C.ops._searchsorted(sorted_sequence.detach(), values.detach(), right or side == "right")
    return out.to(_C.int32) if out_int32 else out


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """`searchsorted` in a vector of boundaries.

    >>> weft.bucketize(weft.tensor([0, 4]), weft.tensor([1, 3, 5]))
    tensor([0, 2])
    """
    if boundaries.dim() != 1:
        raise RuntimeError(f"[bucketize] expected boundaries in a vector, got {boundaries.dim()} "
                           "dimensions")  # fmt: skip
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Which elements are among `test_elements`, as bools; `invert`: which are not.

    >>> weft.isin(weft.tensor([1, 2, 3]), weft.tensor([2, 5]))
    tensor([False,  True, False])
    """
    a = elements if isinstance(elements, Tensor) else weft.tensor(elements)
    b = test_elements if isinstance(test_elements, Tensor) else weft.tensor(test_elements)
    kind = weft.result_type(a, b)
    a, b = a.detach().to(kind), b.detach().to(kind).reshape(-1).sort().values
    if not b.numel():
        found = weft.zeros(a.shape, dtype=_C.bool)
    else:
        found = b[searchsorted(b, a.contiguous()).clamp(max=b.numel() - 1)] == a
    return ~found if invert else found


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of `nonzero`, filled up with `fill_value`.

    >>> weft.nonzero_static(weft.tensor([0, 3]), size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"[nonzero_static] expected a size of at least 0, got {size}")
    found = _C.ops.nonzero(input)[:size]
    rest = weft.full((size - found.shape[0], input.dim()), fill_value, dtype=_C.int64)
    return weft.cat([found, rest])


def _runs(values: Tensor) -> Tensor:
    """Along the first dimension: whether a slice differs from the one before."""
    new = weft.ones(values.shape[0], dtype=_C.bool)
    if values.shape[0] > 1:
        differs = values[1:] != values[:-1]
        new[1:] = differs if values.dim() == 1 else differs.reshape(differs.shape[0], -1).any(1)
    return new


def _sizes_of(new: Tensor) -> Tensor:
    starts = weft.cat([new.nonzero().reshape(-1), weft.tensor([new.shape[0]])])
    return starts[1:] - starts[:-1]


def _sorted_rows(rows: Tensor) -> Tensor:
    """The order that sorts the rows of a matrix as words: stable sorts, the last column first."""
    order = weft.arange(rows.shape[0])
    for k in range(rows.shape[1] - 1, -1, -1):
        order = order[rows[order, k].argsort(stable=True)]
    return order


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
    kept = values[new]
    found = [kept if dim is None else kept.movedim(0, dim)]
    if return_inverse:
        ranks = new.long().cumsum(0) - 1
        found.append(weft.empty_like(ranks).scatter(0, order, ranks).reshape(shape))
    if return_counts:
        found.append(_sizes_of(new))
    return found[0] if len(found) == 1 else tuple(found)


def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The values without repetitions of the one before, or the slices along `dim`.

    >>> weft.unique_consecutive(weft.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    x = input.detach()
    values = x.reshape(-1) if dim is None else x.movedim(dim, 0)
    new = _runs(values)
    kept = values[new]
    found = [kept if dim is None else kept.movedim(0, dim)]
    if return_inverse:
        ranks = new.long().cumsum(0) - 1
        found.append(ranks.reshape(x.shape) if dim is None else ranks)
    if return_counts:
        found.append(_sizes_of(new))
    return found[0] if len(found) == 1 else tuple(found)


# ---- reducing into places


def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """The input with `src` reduced into the places that `scatter` would write.

    `reduce`: "sum", "prod", "mean", "amax" or "amin"; without `include_self` what stood in those
    places does not count.

    Raises: RuntimeError for another reduction or an index out of range.

    >>> x = weft.zeros(2)
    >>> x.scatter_reduce(0, weft.tensor([0, 0, 1]), weft.tensor([1.0, 3.0, 2.0]), "amax")
    tensor([3., 2.])
    """
    return _C.ops._scatter_reduce(input, dim, index, src, reduce, include_self)


def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """The input with slices of `source` reduced into the places along `dim` that a vector names.

    `reduce`: "prod", "mean", "amax" or "amin".
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"[index_reduce] expected reduce to be prod, mean, amax or amin, got {reduce}"
        )
    shape = [1] * max(source.dim(), 1)
    shape[dim] = -1
    places = index.reshape(shape).expand(source.shape) if source.dim() else index.reshape(())
    return _C.ops._scatter_reduce(input, dim, places, source, reduce, include_self)
