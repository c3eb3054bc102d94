"""Powers and exponents of two, made of the table's operators. PyTorch's semantics."""

from __future__ import annotations

from typing import Any, cast

import weft
from weft import _C, return_types
from weft._C import Tensor
from weft.base.forms import forms, function_of

__all__ = ["float_power", "frexp", "ldexp", "ldexp_"]


@forms(method=True, inplace=True, out=True)
def float_power(input: Tensor | complex, exponent: Tensor | complex) -> Tensor:
    """input ** exponent in float64 (complex128 for complex numbers).

    The operands broadcast to the shape of the result.

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
    return weft.pow(input, cast(Tensor, exponent).to(kind))


@forms(method=True, inplace=True, out=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2 ** other.

    The operands broadcast to the shape of the result.

    >>> weft.ldexp(weft.tensor([1.0, 3.0]), weft.tensor([2, -1]))
    tensor([4.0000, 1.5000])
    """
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        raise TypeError("[ldexp] expected two tensors, got a number")
    return input * _C.ops.pow(2.0, other)


ldexp_ = function_of("ldexp_")


@forms(method=True, out=True)
def frexp(input: Tensor) -> Any:
    """Mantissa in [0.5, 1) and exponent (int32) with input = mantissa * 2 ** exponent.

    Both have the input's shape.

    >>> weft.frexp(weft.tensor([4.0, 3.0])).mantissa
    tensor([0.5000, 0.7500])
    """
    mantissa, exponent = _C.ops._frexp(input)
    return return_types.frexp(mantissa, exponent.to(_C.int32))
