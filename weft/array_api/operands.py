"""What the standard's functions agree on: dtypes of several operands, and axes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor, dtype
from weft.base.forms import category

Axes = int | Sequence[int] | None
Number = bool | int | float | complex

_WIDE_UNSIGNED = {weft.uint16, weft.uint32, weft.uint64}
_SIGNED = {8: weft.int8, 16: weft.int16, 32: weft.int32, 64: weft.int64}


def promoted(a: dtype, b: dtype) -> dtype:
    """The dtype that holds both, as the standard's tables have it; between kinds PyTorch's.

    Raises: TypeError for uint64 beside a signed dtype, for which there is none.

    >>> promoted(weft.uint16, weft.int8)
    torch.int32
    """
    if weft.bool in (a, b):
        return a if b is weft.bool else b
    if a is b or not {a, b} & _WIDE_UNSIGNED or category(a) != category(b):
        return weft.promote_types(a, b)
    if a.is_signed == b.is_signed:
        return max(a, b, key=lambda kind: kind.itemsize)
    bits = max(8 * kind.itemsize * (1 if kind.is_signed else 2) for kind in (a, b))
    if bits > 64:
        raise TypeError(f"[result_type] expected dtypes with a common one, got {a} and {b}")
    return _SIGNED[bits]


def _with_number(kind: dtype, number: Number) -> dtype:
    """`kind` where its category holds the number, else what PyTorch makes of the two."""
    out: dtype = weft.result_type(weft.empty(1, dtype=kind), number)
    return out


def _number(who: str, operand: Any) -> Number:
    """A Python number; NumPy's scalars and arrays without dimensions count as theirs."""
    if type(operand).__module__ == "numpy" and getattr(operand, "ndim", 1) == 0:
        operand = operand.item()
    if not isinstance(operand, (bool, int, float, complex)):
        raise TypeError(f"[{who}] expected arrays or numbers, got {type(operand).__name__}")
    return operand


def common_dtype(who: str, operands: Sequence[Any]) -> dtype:
    """The dtype of arrays, dtypes and numbers together: arrays without dimensions count as others,
    numbers only by their kind.

    Raises: TypeError where all are numbers, or dtypes have no common one.
    """
    kinds = [x.dtype if isinstance(x, Tensor) else x for x in operands]
    arrays = [kind for kind in kinds if isinstance(kind, dtype)]
    if not arrays:
        named = " and ".join(type(x).__name__ for x in operands) or "nothing"
        raise TypeError(f"[{who}] expected at least one array, got {named}")
    numbers = [_number(who, x) for x in kinds if not isinstance(x, dtype)]
    return functools.reduce(_with_number, numbers, functools.reduce(promoted, arrays))


def alike(who: str, *operands: Any) -> list[Tensor]:
    """Arrays and numbers as tensors of their common dtype."""
    kind = common_dtype(who, operands)
    return [
        x.to(kind) if isinstance(x, Tensor) else weft.tensor(_number(who, x), dtype=kind)
        for x in operands
    ]


def expect_array(who: str, x: Any) -> None:
    """Raise a TypeError unless `x` is a tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"[{who}] expected an array, got {type(x).__name__}")


def reduction(
    who: str, x: Tensor, axis: Axes, keepdims: bool
) -> tuple[Tensor, tuple[int, ...], bool]:
    """The tensor, the dimensions and whether to keep them, as weft's reductions take them.

    No axes at all, which to weft are all of them, are a new one of size 1 that is not kept.
    """
    expect_array(who, x)
    if axis is None:
        axes: tuple[int, ...] = tuple(range(x.ndim))
    else:
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return (x, axes, keepdims) if axes else (x.unsqueeze(-1), (-1,), False)


def own(x: Tensor, result: Tensor) -> Tensor:
    """`result`, or a copy where it is the argument itself: what is made never shares its memory."""
    return result.clone() if result is x else result
