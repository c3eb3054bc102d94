"""What lies under an object of a subclass of Tensor, for classes that say they are something else:
nested tensors, tensors on meshes."""

from __future__ import annotations

from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any, TypeVar

from weft import _C
from weft._C import Tensor
from weft.base.modes import DisableTorchFunctionSubclass

__all__ = [
    "alias", "dispatches", "expect_dense", "hand_on", "lends_memory", "open_slots", "raw",
]  # fmt: skip

T = TypeVar("T")


def dispatches(cls: type) -> bool:
    """Whether a class of tensors defines `__torch_dispatch__`: it carries its calls out itself.

    >>> dispatches(Tensor)
    False
    """
    if cls is Tensor or not issubclass(cls, Tensor):
        return False
    method = cls.__torch_dispatch__  # type: ignore[attr-defined]
    return method is not _C._disabled_torch_dispatch_impl


def hand_on(source: Any, target: Any) -> None:
    """Gives a second object for such a tensor what the tensor is made of."""
    target.__dict__.update(source.__dict__)


def open_slots(cls: type[Tensor]) -> None:
    """Has what a class names in `__slots__` lie in the dict that every tensor has anyway.

    Where the graph alone holds a tensor, its object waits for Python with its dict; slots would
    have been cleared.
    """
    for c in cls.__mro__:
        if issubclass(c, Tensor):
            for name, member in list(vars(c).items()):
                if type(member) is MemberDescriptorType:
                    delattr(c, name)


def raw(f: Callable[[], T]) -> T:
    """`f`, in which calls take such objects for the tensors that they are to the core."""
    with DisableTorchFunctionSubclass():
        return f()


def alias(x: Tensor) -> Tensor:
    """The tensor, or what such an object is to the core, as a plain tensor: a view."""
    out: Tensor = raw(lambda: x.as_subclass(Tensor))
    return out


def lends_memory(x: Tensor) -> bool:
    """Whether a tensor's memory is all that it is: programs and files have no others."""
    return bool(getattr(type(x), "_lends_memory", True)) and not dispatches(type(x))


def expect_dense(x: Tensor, who: str, name: str) -> None:
    """Raises TypeError for an argument that a program cannot have."""
    if not lends_memory(x):
        raise TypeError(
            f"[{who}] expected dense tensors, of plain memory with strides, got one of "
            f"{type(x).__name__} at {name}. Hint: pass what it consists of, as to_dense(), "
            "values() or to_local() give it"
        )
