"""Functions of each element. Where two operands meet, the standard's promotion comes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.array_api.operands import Number, alike, expect_array
from weft.base.forms import doc_after as _doc_after

abs = weft.abs
acos = weft.acos
acosh = weft.acosh
asin = weft.asin
asinh = weft.asinh
atan = weft.atan
atanh = weft.atanh
bitwise_invert = weft.bitwise_not
ceil = weft.ceil
conj = weft.conj_physical
cos = weft.cos
cosh = weft.cosh
exp = weft.exp
expm1 = weft.expm1
floor = weft.floor
imag = weft.imag
isfinite = weft.isfinite
isinf = weft.isinf
isnan = weft.isnan
log = weft.log
log1p = weft.log1p
log2 = weft.log2
log10 = weft.log10
logical_not = weft.logical_not
negative = weft.negative
positive = weft.positive
real = weft.real
reciprocal = weft.reciprocal
signbit = weft.signbit
sin = weft.sin
sinh = weft.sinh
square = weft.square
sqrt = weft.sqrt
tan = weft.tan
tanh = weft.tanh
trunc = weft.trunc

Binary = Callable[[Tensor | Number, Tensor | Number], Tensor]


def _binary(name: str, function: Callable[..., Tensor]) -> Binary:
    """A function of two operands that meet in the standard's common dtype."""

    def run(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
        a, b = alike(name, x1, x2)
        return function(a, b)

    run.__name__ = run.__qualname__ = name
    of = function.__name__.lstrip("_")
    first = f"""`weft.{of}` of two arrays, or of an array and a number.

    Their shapes broadcast; their dtypes become the standard's common one, in which a number
    counts by its kind and an array without dimensions as any other.

    Raises: TypeError for two numbers, and for dtypes without a common one."""
    run.__doc__ = _doc_after(first, getattr(weft, of))
    return run


def _floor_divide(a: Tensor, b: Tensor) -> Tensor:
    out = weft.floor_divide(a, b)
    if not out.is_floating_point():
        return out
    # inf // 2 is inf and 2 // -inf is -0: Python and PyTorch have nan and -1
    return weft.where(weft.isinf(a) != weft.isinf(b), a / b, out)


def _remainder(a: Tensor, b: Tensor) -> Tensor:
    out = weft.remainder(a, b)
    return weft.copysign(out, b) if out.is_floating_point() else out  # a zero has b's sign too


add = _binary("add", weft.add)
atan2 = _binary("atan2", weft.atan2)
bitwise_and = _binary("bitwise_and", weft.bitwise_and)
bitwise_left_shift = _binary("bitwise_left_shift", weft.bitwise_left_shift)
bitwise_or = _binary("bitwise_or", weft.bitwise_or)
bitwise_right_shift = _binary("bitwise_right_shift", weft.bitwise_right_shift)
bitwise_xor = _binary("bitwise_xor", weft.bitwise_xor)
copysign = _binary("copysign", weft.copysign)
divide = _binary("divide", weft.divide)
equal = _binary("equal", weft.eq)
floor_divide = _binary("floor_divide", _floor_divide)
greater = _binary("greater", weft.greater)
greater_equal = _binary("greater_equal", weft.greater_equal)
hypot = _binary("hypot", weft.hypot)
less = _binary("less", weft.less)
less_equal = _binary("less_equal", weft.less_equal)
logaddexp = _binary("logaddexp", weft.logaddexp)
logical_and = _binary("logical_and", weft.logical_and)
logical_or = _binary("logical_or", weft.logical_or)
logical_xor = _binary("logical_xor", weft.logical_xor)
maximum = _binary("maximum", weft.maximum)
minimum = _binary("minimum", weft.minimum)
multiply = _binary("multiply", weft.multiply)
nextafter = _binary("nextafter", weft.nextafter)
not_equal = _binary("not_equal", weft.not_equal)
pow = _binary("pow", weft.pow)
remainder = _binary("remainder", _remainder)
subtract = _binary("subtract", weft.subtract)


def clip(
    x: Tensor,
    /,
    min: Tensor | Number | None = None,  # noqa: A002
    max: Tensor | Number | None = None,  # noqa: A002
) -> Tensor:
    """`x` where it lies between the bounds, else the nearer of them; in x's dtype.

    Args:
        x: real numbers.
        min: a number or an array that broadcasts with x; None for no bound.
        max: as min. Where a bound or x is NaN, the result is.

    >>> from weft import array_api as xp
    >>> xp.clip(xp.asarray([1., 5.]), max=3)
    tensor([1., 3.])
    """
    expect_array("clip", x)
    out = x.clone()
    for bound, limit in ((min, weft.maximum), (max, weft.minimum)):
        if bound is not None and not _beyond(x.dtype, bound):
            out = limit(*alike("clip", out, bound))
    return out.to(x.dtype)


def _beyond(kind: weft.dtype, bound: Any) -> bool:
    """Whether an integer is none of the dtype's, so that it bounds nothing."""
    if kind.is_floating_point or not isinstance(bound, int):
        return False
    limits = weft.iinfo(kind)
    return not limits.min <= bound <= limits.max


def round(x: Tensor, /) -> Tensor:  # noqa: A001
    """The nearest whole number, of two the even one; of a complex number part by part.

    Of x's shape and dtype.

    >>> from weft import array_api as xp
    >>> xp.round(xp.asarray([0.5, 1.5]))
    tensor([0., 2.])
    """
    expect_array("round", x)
    if x.is_complex():
        return weft.complex(weft.round(x.real), weft.round(x.imag))
    return weft.round(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; of a complex number x / |x|, and NaN of NaN.

    Of x's shape and dtype.

    >>> from weft import array_api as xp
    >>> xp.sign(xp.asarray([-2., xp.nan]))
    tensor([-1., nan])
    """
    expect_array("sign", x)
    out = weft.sgn(x)
    return weft.where(weft.isnan(x), x, out) if out.is_floating_point() else out
