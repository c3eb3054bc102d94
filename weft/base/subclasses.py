"""What lies under an object of a subclass of Tensor, for classes that say they are something else:
nested tensors, tensors on meshes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from weft._C import Tensor
from weft.base.modes import DisableTorchFunctionSubclass

__all__ = ["alias", "expect_dense", "lends_memory", "raw"]

T = TypeVar("T")


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
    return bool(getattr(type(x), "_lends_memory", True))


def expect_dense(x: Tensor, who: str, name: str) -> None:
    """Raises TypeError for an argument that a program cannot have."""
    if not lends_memory(x):
        raise TypeError(
            f"[{who}] expected dense tensors, of plain memory with strides, got one of "
            f"{type(x).__name__} at {name}. Hint: pass what it consists of, as to_dense(), "
            "values() or to_local() give it"
        )
