"""Calls through plans: what the tests of segments share."""

from collections.abc import Callable
from typing import Any

import weft
from weft import _C


def tensors_in(value: Any) -> list[Any]:
    """The tensors in nested lists, tuples and dictionaries, in order."""
    if isinstance(value, weft.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors_in(item)]
    return []


def replaced(value: Any, tensors: Any) -> Any:
    """`value` with the next ones of the iterator `tensors` in place of its own."""
    if isinstance(value, weft.Tensor):
        return next(tensors)
    if isinstance(value, dict):
        return {k: replaced(v, tensors) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([replaced(item, tensors) for item in value])
    return value


def planned(
    f: Callable[..., Any], args: Any, kwargs: Any, *, tiles: bool = True, grad: bool = False
) -> Any:
    """The plan of `f(*args, **kwargs)` with all tensors of the arguments as inputs, and these."""
    given = tuple(tensors_in((args, kwargs)))

    def call(*tensors: Any) -> Any:
        now_args, now_kwargs = replaced((args, kwargs), iter(tensors))
        return f(*now_args, **now_kwargs)

    return _C._trace(call, given, tiles, grad), given


def bits(t: Any) -> tuple[Any, ...]:
    """All that must be equal: dtype, sizes, strides and every bit of every element."""
    raw = t.detach().contiguous().reshape(-1).view(weft.uint8)
    return str(t.dtype), tuple(t.shape), t.stride(), bytes(raw.tolist())
