"""`__torch_dispatch__`, by name: calls below autograd, of which Python is asked in PyTorch.

Calls are asked about where Python enters (`__torch_function__`, weft/overrides.py), and never
below: a mode of this kind may be defined and named, and raises where it is entered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import Tensor

__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing", "transform_subclass",
]  # fmt: skip


class TorchDispatchMode:
    """A mode that PyTorch asks about each call below autograd.

    Raises:
        NotImplementedError: on entering; there is no such place to ask.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        raise NotImplementedError(
            f"[{type(self).__name__}] expected a mode that is asked where Python enters, got a "
            "TorchDispatchMode, which is asked below autograd. Hint: TorchFunctionMode is asked "
            "about every public call; weft.record() keeps what ran"
        )

    def __exit__(self, *exc: object) -> None:
        return None

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """`cls(*args, **kwargs)`; the older way to write it."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that calls the function."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """False: none can be entered."""
    return False


def _get_current_dispatch_mode() -> None:
    """None: none can be entered."""


def _get_current_dispatch_mode_stack() -> list[Any]:
    """An empty list: none can be entered."""
    return []


def is_traceable_wrapper_subclass_type(t: type[Any]) -> bool:
    """Whether a class of tensors says of which tensors an instance is made.

    >>> is_traceable_wrapper_subclass_type(weft.Tensor)
    False
    """
    made = issubclass(t, Tensor) and t is not Tensor
    return made and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether an object is a tensor of such a class."""
    return is_traceable_wrapper_subclass_type(type(t))


def transform_subclass(
    t: Any,
    callback: Callable[[str, Any], Any],
    outer_size: Any = None,
    outer_stride: Any = None,
) -> Any:
    """A tensor of such a class of what `callback` makes of the tensors within.

    Args:
        t: of a class with `__tensor_flatten__` and `__tensor_unflatten__`.
        callback: of an attribute's name and its tensor.
        outer_size, outer_stride: those of the result; by default those of `t`.
    """
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    return type(t).__tensor_unflatten__(
        inner,
        context,
        t.size() if outer_size is None else outer_size,
        t.stride() if outer_stride is None else outer_stride,
    )


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """A result whose parts that the operator's schema writes are the arguments themselves.

    Args:
        func: an OpOverload, whose schema says which results are arguments.
        args, kwargs: those of the call.
        out: what an answer has computed.

    >>> x = weft.ones(2)
    >>> return_and_correct_aliasing(weft.ops.aten.add_.Tensor, (x, 1), {}, x + 1) is x
    True
    """
    schema = func._schema
    written: dict[Any, Any] = {}
    for k, a in enumerate(schema.arguments):
        value = args[k] if k < len(args) else (kwargs or {}).get(a.name)
        if a.is_write and isinstance(value, Tensor):
            written[a.alias_info.before_set] = value
    if not written:
        return out
    made = list(out) if isinstance(out, (tuple, list)) else [out]
    for k, r in enumerate(schema.returns):
        if r.is_write and r.alias_info.before_set in written:
            made[k] = written[r.alias_info.before_set]
    return type(out)(made) if isinstance(out, (tuple, list)) else made[0]


def _disable_current_modes() -> Any:
    """A scope without modes: there is none to leave."""
    from contextlib import nullcontext

    return nullcontext()
