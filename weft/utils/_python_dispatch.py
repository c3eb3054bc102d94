"""Modes that carry calls of operators out: `__torch_dispatch__`.

A mode that is entered is asked about each call of an operator in its block, forward and backward,
below autograd; how a call becomes an operator of ATen's is told in weft/_library/dispatch.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from weft import Tensor
from weft.base.dispatch_modes import ENTERED, entered

__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing", "transform_subclass",
]  # fmt: skip


class TorchDispatchMode:
    """Carries out every call of an operator in its `with` block.

    A subclass defines `__torch_dispatch__(self, func, types, args=(), kwargs=None)`: `func` is an
    overload of ATen's with its arguments, tensors, numbers and lists of them; what it gives is the
    result of the call, which has the gradient of the call's own. In it the mode itself is not
    asked and nothing is recorded: `func(*args, **kwargs)` computes. Modes nest: the one entered
    last is asked first, and calls that it makes go to the next. What ATen has no operator for is
    one of the namespace `weft`. Not seen are reads of values (`item`), `detach`, and functions that
    a library computes (most of `linalg` and `fft`).

    >>> class Print(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> x = weft.ones(2, requires_grad=True)
    >>> with Print():
    ...     x.exp().sum().backward()
    aten.exp.default
    aten.sum.default
    aten.expand.default
    aten.mul.Tensor
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        scope = entered((*ENTERED.get(), self))
        scope.__enter__()
        self.__dict__.setdefault("_scopes", []).append(scope)
        return self

    def __exit__(self, *exc: object) -> None:
        self.__dict__["_scopes"].pop().__exit__(None, None, None)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """`cls(*args, **kwargs)`; the older way to write it."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that calls the function."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode of operators is entered."""
    return bool(ENTERED.get())


def _get_current_dispatch_mode() -> Any:
    """The mode that is asked first, or None."""
    modes = ENTERED.get()
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The modes that are entered, the innermost last."""
    return [*ENTERED.get()]


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
    """A scope without modes."""
    return entered(())
