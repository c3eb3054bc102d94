"""Sets of values. NaNs are unlike each other; values come in ascending order, NaNs last."""

from __future__ import annotations

from typing import NamedTuple

import weft
from weft import Tensor
from weft.array_api.operands import Number, alike, expect_array


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def isin(x1: Tensor | Number, x2: Tensor | Number, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x1` is one of `x2`, or with `invert` whether it is not.

    >>> from weft import array_api as xp
    >>> xp.isin(xp.asarray([1, 2, 3]), xp.asarray([3, 1]))
    tensor([ True, False,  True])
    """
    elements, among = alike("isin", x1, x2)
    return weft.isin(elements, among, invert=invert)


def _order(flat: Tensor) -> Tensor:
    """The stable order of a vector; of complex numbers that of the real parts, then the others."""
    if not flat.is_complex():
        return weft.argsort(flat, stable=True)
    order = weft.argsort(flat.imag, stable=True)
    return order[weft.argsort(flat.real[order], stable=True)]


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct values.

    Returns: values, a vector; for each the index of the first such element in flat order, and
        their number; and in x's shape the place of each element among the values.

    >>> from weft import array_api as xp
    >>> found = xp.unique_all(xp.asarray([3, 1, 3]))
    >>> found.values, found.indices, found.inverse_indices, found.counts
    (tensor([1, 3]), tensor([1, 0]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    expect_array("unique_all", x)
    flat = x.reshape(-1)
    order = _order(flat)
    ordered = flat[order]
    first = weft.ones(ordered.shape, dtype=weft.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = weft.nonzero(first).reshape(-1)
    inverse = weft.empty(ordered.shape, dtype=weft.int64)
    inverse[order] = first.long().cumsum(0) - 1
    ends = weft.cat([starts[1:], weft.tensor([len(flat)])]) if len(flat) else starts
    return UniqueAll(ordered[starts], order[starts], inverse.reshape(x.shape), ends - starts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct values, and how often each is there.

    Both vectors of as many elements as there are distinct ones; the counts are int64.

    >>> from weft import array_api as xp
    >>> xp.unique_counts(xp.asarray([3, 1, 3])).counts
    tensor([1, 2])
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct values, and in x's shape the place of each element among them.

    >>> from weft import array_api as xp
    >>> xp.unique_inverse(xp.asarray([3, 1, 3])).inverse_indices
    tensor([1, 0, 1])
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct values, as a vector.

    >>> from weft import array_api as xp
    >>> xp.unique_values(xp.asarray([3, 1, 3]))
    tensor([1, 3])
    """
    return unique_all(x).values
