"""Reductions and softmax over the elements that a mask shows: PyTorch's `torch.masked`.

Each function takes `mask`, a tensor of bools whose shape broadcasts to the input's, of no more
dimensions; None shows all. What it hides counts as the element that changes nothing: 0 of a sum, 1
of a product, the lowest value of a maximum. A result of hidden elements alone is that element, or
nan where there is none. An input that is a MaskedTensor brings its mask, and the result is dense.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft
from weft import _C, Tensor
from weft.base import checks as _checks
from weft.base.subclasses import expect_dense
from weft.composites.axes import wrap
from weft.masked.maskedtensor.core import parted

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]  # fmt: skip

Dims = Any  # an int, several, or None and () for all


def _dims(who: str, dim: Dims, input: Tensor) -> tuple[int, ...]:
    """The dimensions that are meant, from 0; of a tensor without any it is none."""
    rank = input.dim()
    given = (dim,) if isinstance(dim, int) else tuple(dim or ())
    found = sorted(wrap(f"masked.{who}", d, rank) for d in given)
    for d, following in zip(found, found[1:], strict=False):
        if d == following:
            raise RuntimeError(
                f"[masked.{who}] expected each dim once, got {given} (dim {d} appears multiple "
                "times in the list of dims)"
            )
    return tuple(found) if given and rank else tuple(range(rank))


def _first(who: str, dim: Dims, input: Tensor) -> int:
    """The dimension of a function along one; of several, or all, the first, as PyTorch has it."""
    return (*_dims(who, dim, input), 0)[0]


def _shown(who: str, input: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask as bools of the input's shape."""
    input, mask = parted(input, mask)
    expect_dense(input, f"masked.{who}", "input")
    if mask is None:
        return None
    expect_dense(mask, f"masked.{who}", "mask")
    if mask.dim() > input.dim():
        raise IndexError(
            f"[masked.{who}] expected a mask of at most {input.dim()} dimensions, got {mask.dim()} "
            "(_input_mask expected broadcastable mask (got mask dimensionality higher than of the "
            "input))"
        )
    return mask.expand(input.shape).bool()


def _filled(who: str, input: Tensor, mask: Tensor | None, neutral: Any) -> Tensor:
    """The input with `neutral`, or what it is for the dtype, in the place of what is hidden."""
    input, mask = parted(input, mask)
    shown = _shown(who, input, mask)
    if shown is None:
        return input
    value = neutral(who, input.dtype) if callable(neutral) else neutral
    return input.masked_fill(~shown, value)


def _lowest(who: str, dtype: Any) -> Any:
    if dtype is weft.bool:
        raise NotImplementedError(
            f"[masked.{who}] expected numbers, got bools (identity of {who} on torch.bool input)"
        )
    if dtype.is_complex:
        raise TypeError(f"[masked.{who}] expected real numbers, got {dtype}, which has no order")
    return -math.inf if dtype.is_floating_point else weft.iinfo(dtype).min


def _highest(who: str, dtype: Any) -> Any:
    lowest = _lowest(who, dtype)
    return math.inf if dtype.is_floating_point else -1 - lowest if lowest else weft.iinfo(dtype).max


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of what the mask shows, over one, several or all dimensions; 0 of nothing.

    Args:
        input: of any shape and dtype.
        dim: an int, several, or None for all: the result is without them, or has size 1 there
            with `keepdim`.
        dtype: of the result; by default input's, int64 for integers and bools.
        mask: bools; its shape broadcasts to input's.

    Raises:
        IndexError: a dim that it has not; a mask of more dimensions.
        RuntimeError: a mask that does not broadcast; a dim twice.

    >>> x = weft.tensor([[-3, -2, -1], [0, 1, 2]])
    >>> weft.masked.sum(x, 1, mask=weft.tensor([[True, False, True], [False, False, False]]))
    tensor([-4,  0])
    """
    filled = _filled("sum", input, mask, 0)
    return weft.sum(filled, _dims("sum", dim, input), bool(keepdim), dtype=dtype)


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of what the mask shows, over one, several or all dimensions; 1 of nothing.

    Arguments, shapes, dtypes and errors are those of `masked.sum`.

    >>> weft.masked.prod(weft.tensor([2.0, 5.0, 3.0]), mask=weft.tensor([True, False, True]))
    tensor(6.)
    """
    out = _filled("prod", input, mask, 1)
    for d in reversed(_dims("prod", dim, input)):
        out = weft.prod(out, d, bool(keepdim), dtype=dtype)
    return out if input.dim() else weft.prod(out, dtype=dtype)


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of what the mask shows, over one, several or all dimensions; nan of nothing.

    Arguments and shapes are those of `masked.sum`; the dtype is floating or complex.

    Raises:
        ValueError: integers or bools without a `dtype`.
        IndexError: a dim that it has not; a mask of more dimensions.
        RuntimeError: a mask that does not broadcast; a dim twice.

    >>> weft.masked.mean(weft.tensor([2.0, 5.0, 3.0]), mask=weft.tensor([True, False, True]))
    tensor(2.5000)
    """
    if dtype is None and not (input.is_floating_point() or input.is_complex()):
        raise ValueError(
            f"[masked.mean] expected floating or complex numbers or a dtype, got {input.dtype} "
            "(mean(): Could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {input.dtype})"
        )
    input, mask = parted(input, mask)
    dims, shown = _dims("mean", dim, input), _shown("mean", input, mask)
    if shown is None:
        return weft.mean(input, dims, bool(keepdim), dtype=dtype)
    total = sum(input, dims, keepdim=keepdim, dtype=dtype, mask=shown)
    return total / shown.sum(dims, bool(keepdim))


def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The largest of what the mask shows, over one, several or all dimensions.

    Of nothing it is -inf, or the least integer. Arguments and shapes are those of `masked.sum`; the
    dtype is input's, or `dtype`.

    Raises:
        NotImplementedError, TypeError: bools; complex numbers.
        IndexError: a dim that it has not, or without elements; a mask of more dimensions.
        RuntimeError: a mask that does not broadcast; a dim twice.

    >>> weft.masked.amax(weft.tensor([2.0, 5.0, 3.0]), mask=weft.tensor([True, False, True]))
    tensor(3.)
    """
    filled = _filled("amax", input, mask, _lowest)
    return weft.amax(filled, _dims("amax", dim, input), bool(keepdim)).to(dtype or input.dtype)


def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The smallest of what the mask shows, over one, several or all dimensions.

    Of nothing it is inf, or the largest integer. Arguments, shapes, dtypes and errors are those of
    `masked.amax`.

    >>> weft.masked.amin(weft.tensor([2.0, 1.0, 3.0]), mask=weft.tensor([True, False, True]))
    tensor(2.)
    """
    filled = _filled("amin", input, mask, _highest)
    return weft.amin(filled, _dims("amin", dim, input), bool(keepdim)).to(dtype or input.dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the largest of what the mask shows is along `dim`, or in the flattened input; 0 of
    nothing.

    Args:
        input: real numbers of any shape.
        dim: the result is without it, or has size 1 there with `keepdim`.
        dtype: of the result; by default input's, as PyTorch has it.
        mask: bools; its shape broadcasts to input's.

    Raises:
        NotImplementedError, TypeError: bools; complex numbers.
        IndexError: a dim that it has not; a mask of more dimensions.
        RuntimeError: a mask that does not broadcast.

    >>> weft.masked.argmax(weft.tensor([2, 5, 3]), mask=weft.tensor([True, False, True]))
    tensor(2)
    """
    filled = _filled("argmax", input, mask, _lowest)
    return weft.argmax(filled, dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the smallest of what the mask shows is along `dim`, or in the flattened input; 0 of
    nothing.

    Arguments, shapes, dtypes and errors are those of `masked.argmax`.

    >>> weft.masked.argmin(weft.tensor([2, 1, 3]), mask=weft.tensor([True, False, True]))
    tensor(0)
    """
    filled = _filled("argmin", input, mask, _highest)
    return weft.argmin(filled, dim, bool(keepdim)).to(dtype or input.dtype)


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of exponentials of what the mask shows; -inf of nothing.

    Arguments and shapes are those of `masked.sum`; the dtype is input's, or `dtype`.

    Raises:
        NotImplementedError: bools.
        IndexError: a dim that it has not; a mask of more dimensions.
        RuntimeError: a mask that does not broadcast; a dim twice.

    >>> weft.masked.logsumexp(weft.zeros(3), mask=weft.tensor([True, False, True]))
    tensor(0.6931)
    """
    neutral = -math.inf if input.is_complex() else _lowest
    filled = _filled("logsumexp", input, mask, neutral)
    dims = _dims("logsumexp", dim, input)
    return weft.logsumexp(filled, dims, keepdim).to(dtype or input.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: _C.dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """`log(exp(input) + exp(other))`, without what the masks hide; -inf where both hide.

    Args:
        input, other: floating, of shapes that broadcast.
        dtype: of the result; by default theirs.
        input_mask, other_mask: bools; their shapes broadcast to those of `input` and `other`.

    Raises:
        IndexError: a mask of more dimensions.
        RuntimeError: a mask that does not broadcast, or other dtypes.

    >>> x = weft.zeros(2)
    >>> weft.masked.logaddexp(x, x, input_mask=weft.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    a = _filled("logaddexp", input, input_mask, _lowest)
    b = _filled("logaddexp", other, other_mask, _lowest)
    return weft.logaddexp(a, b).to(dtype or input.dtype)


def median(
    input: Tensor,
    dim: Dims = -1,
    *,
    keepdim: bool = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The median along `dim` of what the mask shows and is no nan, the lower one of two.

    Args:
        input: real numbers of any shape.
        dim: the result is without it, or has size 1 there with `keepdim`.
        dtype: of the result for integers; by default input's, which it is for others.
        mask: bools; its shape broadcasts to input's.

    Raises:
        ValueError: integers, of which the mask shows none along `dim`: there is no nan.
        IndexError: a dim that it has not; a mask of more dimensions.
        RuntimeError: a mask that does not broadcast.

    >>> x = weft.tensor([[-3.0, -2.0, -1.0], [0.0, 1.0, 2.0]])
    >>> weft.masked.median(x, 1, mask=weft.tensor([[True, False, True], [False, False, False]]))
    tensor([-3., nan])
    """
    along, floating = _first("median", dim, input), input.is_floating_point()
    wide = input if floating else input.double()
    out: Tensor = weft.nanmedian(_filled("median", wide, mask, math.nan), along, keepdim)[0]
    if not floating and bool(out.isnan().any()):
        raise ValueError(
            f"[masked.median] expected a mask that shows something along dim {along} of integers, "
            "got one that hides all (masked median expects no fully masked out rows if dtype is "
            "not floating point)"
        )
    return out if floating else out.to(dtype or input.dtype)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of what the mask shows; 0 of nothing, inf for `ord=-inf`.

    Args:
        input: floating or complex, of any shape.
        ord: the order, as `linalg.vector_norm` has it.
        dim, keepdim, dtype, mask: as `masked.sum` has them.

    Raises:
        TypeError: no `ord`.
        IndexError: a dim that it has not; a mask of more dimensions.
        RuntimeError: integers; a mask that does not broadcast; a dim twice.

    >>> weft.masked.norm(weft.tensor([3.0, 9.0, 4.0]), mask=weft.tensor([True, False, True]))
    tensor(5.)
    """
    neutral = math.inf if ord == -math.inf else 0
    filled, order = _filled("norm", input, mask, neutral), _order("norm", ord)
    return weft.linalg.vector_norm(
        filled, order, _dims("norm", dim, input), bool(keepdim), dtype=dtype
    )


def _order(who: str, ord: Any) -> Any:
    if ord is None:
        raise TypeError(
            f"[masked.{who}] expected a number as ord, got None (linalg_vector_norm(): argument "
            "'ord' (position 2) must be Number, not NoneType)"
        )
    return ord


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """What the mask shows, divided by its norm along `dim`; 0 in the place of what it hides.

    Args:
        input: floating or complex, of any shape, which is the result's too.
        ord: the order, as `linalg.vector_norm` has it.
        dim: along which the norm is taken.
        eps: the least divisor.
        dtype: of the result; by default input's.
        mask: bools; its shape broadcasts to input's.

    Raises: as `masked.norm`.

    >>> x = weft.tensor([3.0, 9.0, 4.0])
    >>> weft.masked.normalize(x, 2.0, 0, mask=weft.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    along = _first("normalize", dim, input)
    length = norm(input, _order("normalize", ord), along, keepdim=True, dtype=dtype, mask=mask)
    least = weft.full_like(length, eps)
    return _filled("normalize", input, mask, 0) / weft.maximum(length, least)


def _along(
    who: str, run: Callable[..., Tensor], input: Tensor, dim: Dims, mask: Any, neutral: Any,
    dtype: Any,
) -> Tensor:  # fmt: skip
    """A function of lines along one dimension, whose result is of the input's shape."""
    return run(_filled(who, input, mask, neutral), _first(who, dim, input), dtype=dtype)


def cumsum(
    input: Tensor,
    dim: Dims,
    *,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sums of what the mask shows up to each place along `dim`.

    Args:
        input: numbers of any shape, which is the result's too.
        dim: along which it is summed.
        dtype: of the result; by default input's.
        mask: bools; its shape broadcasts to input's.

    Raises:
        IndexError: a dim that it has not; a mask of more dimensions.
        RuntimeError: a mask that does not broadcast.

    >>> weft.masked.cumsum(weft.tensor([2, 5, 3]), 0, mask=weft.tensor([True, False, True]))
    tensor([2, 2, 5])
    """
    return _along("cumsum", weft.cumsum, input, dim, mask, 0, dtype or input.dtype)


def cumprod(
    input: Tensor,
    dim: Dims,
    *,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The products of what the mask shows up to each place along `dim`.

    Arguments, shapes, dtypes and errors are those of `masked.cumsum`.

    >>> weft.masked.cumprod(weft.tensor([2, 5, 3]), 0, mask=weft.tensor([True, False, True]))
    tensor([2, 2, 6])
    """
    return _along("cumprod", weft.cumprod, input, dim, mask, 1, dtype or input.dtype)


def softmax(
    input: Tensor,
    dim: Dims,
    *,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The softmax along `dim` of what the mask shows; 0 beside it, nan where it shows nothing.

    Args:
        input: floating, or real with a `dtype`, of any shape, which is the result's too.
        dim: along which the result sums to 1.
        dtype: what it is computed in, and the result's; by default input's.
        mask: bools; its shape broadcasts to input's.

    Raises:
        NotImplementedError, TypeError: bools; complex numbers.
        IndexError: a dim that it has not; a mask of more dimensions.
        RuntimeError: a mask that does not broadcast.

    >>> weft.masked.softmax(weft.zeros(3), 0, mask=weft.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return _along("softmax", weft.softmax, input, dim, mask, _lowest, dtype)


def log_softmax(
    input: Tensor,
    dim: Dims,
    *,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of `masked.softmax`, whose arguments, shapes, dtypes and errors these are.

    >>> weft.masked.log_softmax(weft.zeros(3), 0, mask=weft.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    return _along("log_softmax", weft.log_softmax, input, dim, mask, _lowest, dtype)


def softmin(
    input: Tensor,
    dim: Dims,
    *,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """`masked.softmax` of the negative, whose arguments, shapes, dtypes and errors these are.

    >>> weft.masked.softmin(weft.tensor([0.0, -9.0]), 0, mask=weft.tensor([True, False]))
    tensor([1., 0.])
    """
    run = weft.nn.functional.softmin
    return _along("softmin", run, input, dim, mask, _highest, dtype)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of what the mask shows, over one, several or all dimensions; nan of nothing.

    Args:
        input: numbers of any shape.
        dim, keepdim, mask: as `masked.sum` has them.
        unbiased: False divides by the number of elements n that are shown.
        correction: the sum is divided by n - correction; 1 by default.
        dtype: of the result; by default input's, float32 for integers.

    Raises:
        AssertionError: both `unbiased` and `correction`.
        IndexError: a dim that it has not; a mask of more dimensions.
        RuntimeError: bools; a mask that does not broadcast; a dim twice.

    >>> weft.masked.var(weft.tensor([2.0, 9.0, 4.0]), mask=weft.tensor([True, False, True]))
    tensor(2.)
    """
    return _var("var", input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The root of `masked.var`, whose arguments, shapes, dtypes and errors these are.

    >>> x = weft.tensor([2.0, 9.0, 4.0])
    >>> weft.masked.std(x, unbiased=False, mask=weft.tensor([True, False, True]))
    tensor(1.)
    """
    return _var("std", input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


def _var(
    who: str, input: Tensor, dim: Dims, unbiased: Any, correction: Any, keepdim: Any, dtype: Any,
    mask: Any,
) -> Tensor:  # fmt: skip
    if unbiased is not None and correction is not None:
        raise AssertionError(
            f"[masked.{who}] expected unbiased or correction, got both (Only one of unbiased and "
            "correction may be given)"
        )
    if input.dtype is weft.bool:
        raise RuntimeError(
            f"[masked.{who}] expected numbers, got bools (Subtraction, the `-` operator, with a "
            "bool tensor is not supported.)"
        )
    input, mask = parted(input, mask)
    less = correction if correction is not None else 0 if unbiased is False else 1
    wide = dtype or (input.dtype if input.is_floating_point() or input.is_complex() else None)
    x = input.to(wide or weft.get_default_dtype())
    shown = _shown(who, x, mask)
    dims = _dims(who, dim, input)
    seen = weft.ones_like(x, dtype=weft.bool) if shown is None else shown
    count = seen.sum(dims, True)
    away = _filled(who, x - sum(x, dims, keepdim=True, mask=shown) / count, shown, 0)
    total = weft.sum(away * away.conj(), dims, bool(keepdim))
    return total / (count.reshape(total.shape) - less).clamp(min=0)


# What is asked for overrides is what they are composed of: a class knows `sum` without a mask.
_checks.install(__name__, "masked.", asks=False)
