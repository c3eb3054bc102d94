"""Elements by their places, places by their elements, and orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import weft
from weft import Tensor
from weft.array_api.operands import Axes, Number, alike, expect_array, reduction


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the greatest element, the first of several; in flat order without an axis.

    >>> from weft import array_api as xp
    >>> xp.argmax(xp.asarray([[1, 3], [5, 2]]), axis=1)
    tensor([1, 0])
    """
    return _place(x, axis, keepdims, weft.argmax)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the least element, the first of several; in flat order without an axis.

    >>> from weft import array_api as xp
    >>> xp.argmin(xp.asarray([2, 1]))
    tensor(1)
    """
    return _place(x, axis, keepdims, weft.argmin)


def _place(x: Tensor, axis: int | None, keepdims: bool, of: Callable[..., Tensor]) -> Tensor:
    if axis is None:
        out: Tensor = of(x.reshape(-1), 0)
        return out.reshape((1,) * x.ndim) if keepdims else out
    out = of(x, axis, keepdims)
    return out


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero, as int64.

    >>> from weft import array_api as xp
    >>> xp.count_nonzero(xp.asarray([[0, 1], [2, 3]]), axis=0)
    tensor([1, 2])
    """
    x, axes, keepdims = reduction("count_nonzero", x, axis, keepdims)
    return weft.sum(x != 0, axes, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of elements that are not zero: one vector for each dimension.

    Raises: ValueError for an array without dimensions.

    >>> from weft import array_api as xp
    >>> xp.nonzero(xp.asarray([0, 3, 4]))
    (tensor([1, 2]),)
    """
    expect_array("nonzero", x)
    if not x.ndim:
        raise ValueError("[nonzero] expected at least one dimension, got none")
    return tuple(weft.nonzero(x, as_tuple=True))


def searchsorted(
    x1: Tensor,
    x2: Tensor | Number,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each of `x2` would be inserted into the vector `x1` to keep it sorted, as int64.

    Args:
        x1: a vector in ascending order, or in the order of `sorter`.
        x2: any shape, or a number.
        side: before ("left") or behind ("right") elements that are equal.
        sorter: integers that sort x1.

    >>> from weft import array_api as xp
    >>> xp.searchsorted(xp.asarray([1, 3, 5]), 4)
    tensor(2)
    """
    edges, values = alike("searchsorted", x1, x2)
    edges = edges if sorter is None else edges[sorter.long()]
    return weft.searchsorted(edges, values, side=side)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices along `axis` at these places, of which negative ones count from the end.

    Args:
        x: any shape; a vector needs no axis.
        indices: integers; their dimensions come in the place of the axis.
        axis: the dimension.

    >>> from weft import array_api as xp
    >>> xp.take(xp.asarray([1, 2, 3]), xp.asarray([-1, 0]))
    tensor([3, 1])
    """
    expect_array("take", x)
    if axis is None and x.ndim != 1:
        raise ValueError(f"[take] expected an axis for {x.ndim} dimensions, got none")
    where = (axis or 0) % max(x.ndim, 1)
    return x[(slice(None),) * where + (indices.long(),)]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements at these places along `axis`, of which negative ones count from the end.

    Args:
        x: any shape.
        indices: integers that broadcast with x in all dimensions but the axis.
        axis: the dimension.

    >>> from weft import array_api as xp
    >>> xp.take_along_axis(xp.asarray([[1, 2], [3, 4]]), xp.asarray([[-1], [0]]))
    tensor([[2],
            [3]])
    """
    expect_array("take_along_axis", x)
    places = indices.long()
    places = weft.where(places < 0, places + x.shape[axis], places)
    return weft.take_along_dim(x, places, axis)


def where(condition: Tensor, x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """`x1` where the condition holds, else `x2`, in their common dtype; shapes broadcast.

    >>> from weft import array_api as xp
    >>> xp.where(xp.asarray([True, False]), xp.asarray(1.0), 0)
    tensor([1., 0.])
    """
    if isinstance(x1, Tensor) or isinstance(x2, Tensor):
        x1, x2 = alike("where", x1, x2)
    return weft.where(condition, x1, x2)


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The places that sort the elements along `axis`, as int64.

    >>> from weft import array_api as xp
    >>> xp.argsort(xp.asarray([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return weft.argsort(x, axis, descending, stable=stable)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along `axis`, NaNs last, or first where it descends.

    >>> from weft import array_api as xp
    >>> xp.sort(xp.asarray([3, 1, 2]), descending=True)
    tensor([3, 2, 1])
    """
    return weft.sort(x, axis, descending, stable=stable).values
