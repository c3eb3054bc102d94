"""Marks for a compiler, by PyTorch's private path: they change nothing in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from weft.jit import Future as Future
from weft.jit import _overload as _overload
from weft.jit import _overload_method as _overload_method
from weft.jit import export as export
from weft.jit import ignore as ignore
from weft.jit import is_scripting as is_scripting
from weft.jit import unused as unused

__all__ = ["Final", "boolean_dispatch", "export", "ignore", "is_scripting", "unused"]

F = TypeVar("F", bound=Callable[..., Any])


def _copy_to_script_wrapper(fn: F) -> F:
    """The function itself."""
    return fn


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    """The dotted name of a function or a class."""
    return f"{obj.__module__}.{obj.__qualname__}"


class BroadcastingListCls:
    """`BroadcastingList2[int]` in an annotation: a number or a list of them."""

    def __getitem__(self, types: Any) -> Any:
        return types


BroadcastingList1 = BroadcastingListCls()
BroadcastingList2 = BroadcastingList3 = BroadcastingList1


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str | None = None,
    func_name: str | None = None,
) -> Callable[..., Any]:
    """A function that calls one of two, by a bool among its arguments."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        chosen = args[arg_index] if len(args) > arg_index else kwargs.get(arg_name, default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    fn.__name__ = func_name or if_true.__name__
    fn.__module__ = module_name or fn.__module__
    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    return fn
