"""`torch._foreach_add` and its like: one call for each tensor of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import weft
from weft import Tensor

__all__ = ["foreach"]

_UNARY = set(
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc".split()
)
_BINARY = {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_max", "clamp_min"}
_THREE = {"addcmul", "addcdiv"}


def _lengths(first: Sequence[Any], *others: Sequence[Any]) -> None:
    if not first:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for other in others:
        if len(other) != len(first):
            raise RuntimeError(
                "Tensor lists must have the same number of tensors, got "
                f"{len(first)} and {len(other)}"
            )


def _column(value: Any, count: int) -> Sequence[Any]:
    """An operand for each tensor of the list: one of a list, or the same for all."""
    if isinstance(value, (list, tuple)):
        return value
    return [value] * count


def _function(name: str, inplace: bool) -> Callable[..., Any] | None:
    plain = name + ("_" if inplace else "")
    if name == "zero":
        return Tensor.zero_ if inplace else None
    if name == "copy":
        return Tensor.copy_ if inplace else None
    if name == "clone":
        return None if inplace else Tensor.clone
    if name in ("maximum", "minimum") and inplace:
        whole = getattr(weft, name)
        return lambda x, y: x.copy_(whole(x, y))
    if name in ("clamp_max", "clamp_min"):
        clamp, bound = (Tensor.clamp_ if inplace else Tensor.clamp), name[-3:]
        return lambda x, y: clamp(x, **{bound: y})
    if name in _UNARY | _BINARY | _THREE | {"lerp"}:
        return getattr(Tensor, plain, None)
    return None


@cache
def foreach(name: str) -> Callable[..., Any]:
    """The function `_foreach_<op>`, or `_foreach_<op>_` in place. AttributeError for another.

    >>> weft._foreach_add([weft.ones(1), weft.zeros(2)], 1)
    (tensor([2.]), tensor([1., 1.]))
    """
    op = name.removeprefix("_foreach_")
    inplace = op.endswith("_")
    base = op.removesuffix("_")
    if op == "norm":
        made: Callable[..., Any] = _norm
    elif op == "max":
        made = _max
    elif (call := _function(base, inplace)) is None:
        raise AttributeError(f"module 'weft' has no attribute '{name}'")
    elif base in _THREE:
        made = _ternary(call, inplace)
    elif base == "pow" and not inplace:
        made = _power
    else:
        made = _each(call, inplace, base in ("add", "sub"))
    made.__name__ = made.__qualname__ = name
    return made


def _each(call: Callable[..., Any], inplace: bool, scaled: bool) -> Callable[..., Any]:
    def run(self: Sequence[Tensor], *operands: Any, alpha: Any = 1, **options: Any) -> Any:
        columns = [_column(value, len(self)) for value in operands]
        _lengths(self, *columns)
        extra = {"alpha": alpha} if scaled and alpha != 1 else {}
        given = {k: v for k, v in options.items() if k not in ("non_blocking", "weight", "scalar")}
        if given:
            raise TypeError(f"[foreach] got an unexpected keyword argument {next(iter(given))!r}")
        for key in ("weight", "scalar"):
            if key in options:
                columns.append(_column(options[key], len(self)))
        done = [call(*row, **extra) for row in zip(self, *columns, strict=True)]
        return list(self) if inplace else tuple(done)

    run.__doc__ = "The op for each tensor of a list; other operands are lists or one for all."
    return run


def _ternary(call: Callable[..., Any], inplace: bool) -> Callable[..., Any]:
    def run(
        self: Sequence[Tensor],
        tensor1: Sequence[Tensor],
        tensor2: Sequence[Tensor],
        scalars: Any = None,
        *,
        value: Any = 1,
    ) -> Any:
        factors = value if scalars is None else scalars
        column = factors.tolist() if isinstance(factors, Tensor) else _column(factors, len(self))
        _lengths(self, tensor1, tensor2, column)
        rows = zip(self, tensor1, tensor2, column, strict=True)
        done = [call(x, a, b, value=factor) for x, a, b, factor in rows]
        return list(self) if inplace else tuple(done)

    run.__doc__ = "The op for each tensor of three lists; a factor for each, or one for all."
    return run


def _power(self: Any, exponent: Any) -> Any:
    """The power of each tensor of a list, or of a number by each."""
    if isinstance(self, (int, float, complex)):
        return tuple(weft.pow(self, e) for e in exponent)
    column = _column(exponent, len(self))
    _lengths(self, column)
    return tuple(weft.pow(x, e) for x, e in zip(self, column, strict=True))


def _norm(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> Any:  # noqa: A002
    """The norm of each tensor of a list."""
    _lengths(self)
    return tuple(weft.linalg.vector_norm(x, ord, dtype=dtype) for x in self)


def _max(self: Sequence[Tensor]) -> Any:
    """The largest element of each tensor of a list."""
    _lengths(self)
    return tuple(x.max() for x in self)
