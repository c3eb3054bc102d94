"""Reductions, and sums and differences along the way."""

from __future__ import annotations

from collections.abc import Callable

import weft
from weft import Tensor, dtype
from weft.array_api.operands import Axes, expect_array, reduction


def _summed(who: str, x: Tensor, kind: dtype | None) -> dtype:
    """The dtype of a sum or a product: integers become the widest of their sign."""
    if kind is not None:
        return kind
    expect_array(who, x)
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return x.dtype
    return weft.int64 if x.dtype.is_signed or x.dtype is weft.bool else weft.uint64


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Whether all elements are true (not zero), as bool; of none they are.

    >>> from weft import array_api as xp
    >>> xp.all(xp.asarray([[1, 0], [2, 3]]), axis=1)
    tensor([False,  True])
    """
    x, axes, keepdims = reduction("all", x, axis, keepdims)
    return weft.all(x.bool(), axes, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Whether any element is true (not zero), as bool; of none it is not.

    >>> from weft import array_api as xp
    >>> xp.any(xp.asarray([0, 1]))
    tensor(True)
    """
    x, axes, keepdims = reduction("any", x, axis, keepdims)
    return weft.any(x.bool(), axes, keepdims)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """The greatest element, NaN if one is there.

    Raises: an error where there is none.

    >>> from weft import array_api as xp
    >>> xp.max(xp.asarray([[1, 5], [2, 3]]), axis=0)
    tensor([2, 5])
    """
    x, axes, keepdims = reduction("max", x, axis, keepdims)
    return weft.amax(x, axes, keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """The least element, NaN if one is there.

    >>> from weft import array_api as xp
    >>> xp.min(xp.asarray([2, 1]))
    tensor(1)
    """
    x, axes, keepdims = reduction("min", x, axis, keepdims)
    return weft.amin(x, axes, keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean of floating or complex elements, in their dtype.

    >>> from weft import array_api as xp
    >>> xp.mean(xp.asarray([[1., 3.], [5., 7.]]), axis=(0, 1))
    tensor(4.)
    """
    x, axes, keepdims = reduction("mean", x, axis, keepdims)
    return weft.mean(x, axes, keepdims)


def prod(
    x: Tensor, /, *, axis: Axes = None, dtype: dtype | None = None, keepdims: bool = False
) -> Tensor:
    """The product. Integers give int64 or uint64, others their dtype, unless `dtype` says.

    Of x's shape without `axis`, or with 1 there.

    >>> from weft import array_api as xp
    >>> xp.prod(xp.asarray([[1, 2], [3, 4]]))
    tensor(24)
    """
    kind = _summed("prod", x, dtype)
    x, axes, keepdims = reduction("prod", x, axis, keepdims)
    places = sorted((axis % x.ndim for axis in axes), reverse=True)
    for place in places:
        x = weft.prod(x, place, keepdims, dtype=kind)
    return x.to(kind)


def sum(  # noqa: A001
    x: Tensor, /, *, axis: Axes = None, dtype: dtype | None = None, keepdims: bool = False
) -> Tensor:
    """The sum. Integers give int64 or uint64, others their dtype, unless `dtype` says.

    Of x's shape without `axis`, or with 1 there.

    >>> from weft import array_api as xp
    >>> xp.sum(xp.asarray([1, 2], dtype=xp.uint8))
    tensor(3, dtype=torch.uint64)
    """
    kind = _summed("sum", x, dtype)
    x, axes, keepdims = reduction("sum", x, axis, keepdims)
    return weft.sum(x, axes, keepdims, dtype=kind)


def std(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation of floating elements: the root of `var`.

    >>> from weft import array_api as xp
    >>> xp.std(xp.asarray([1.0, 3.0]))
    tensor(1.)
    """
    x, axes, keepdims = reduction("std", x, axis, keepdims)
    return weft.std(x, axes, correction=correction, keepdim=keepdims)


def var(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance of floating elements: their squared distances from the mean over n - correction.

    >>> from weft import array_api as xp
    >>> xp.var(xp.asarray([1., 3.])), xp.var(xp.asarray([1., 3.]), correction=1)
    (tensor(1.), tensor(2.))
    """
    x, axes, keepdims = reduction("var", x, axis, keepdims)
    return weft.var(x, axes, correction=correction, keepdim=keepdims)


def _cumulative(
    who: str, of: Callable[..., Tensor], first: int, x: Tensor, axis: int | None,
    kind: dtype | None, include_initial: bool,
) -> Tensor:  # fmt: skip
    expect_array(who, x)
    if not x.ndim or (axis is None and x.ndim > 1):
        raise ValueError(
            f"[{who}] expected a vector, or an axis of more dimensions, got {x.ndim} dimensions"
        )
    place = 0 if axis is None else axis
    out = of(x, place, dtype=_summed(who, x, kind))
    if include_initial:
        sizes = list(x.shape)
        sizes[place] = 1
        out = weft.cat([weft.full(sizes, first, dtype=out.dtype), out], place)
    return out


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: dtype | None = None,
    include_initial: bool = False,
) -> Tensor:  # fmt: skip
    """The products of the elements so far; as `cumulative_sum`.

    >>> from weft import array_api as xp
    >>> xp.cumulative_prod(xp.asarray([1, 2, 3]))
    tensor([1, 2, 6])
    """
    return _cumulative("cumulative_prod", weft.cumprod, 1, x, axis, dtype, include_initial)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: dtype | None = None,
    include_initial: bool = False,
) -> Tensor:  # fmt: skip
    """The sums of the elements so far.

    Args:
        x: at least one dimension; a vector needs no axis.
        axis: the dimension.
        dtype: of the result; as in `sum` without one.
        include_initial: begin with the sum of none, so that there is one more.

    >>> from weft import array_api as xp
    >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True)
    tensor([0, 1, 3, 6])
    """
    return _cumulative("cumulative_sum", weft.cumsum, 0, x, axis, dtype, include_initial)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The differences of neighbours along `axis`, n times over.

    Args:
        x: numbers, at least one dimension.
        axis: the dimension.
        n: how often.
        prepend: what goes before x first, of its shape in the other dimensions.
        append: what goes behind.

    >>> from weft import array_api as xp
    >>> xp.diff(xp.asarray([1, 4, 9]), prepend=xp.asarray([0]))
    tensor([1, 3, 5])
    """
    return weft.diff(x, n, axis, prepend, append)
