"""What lies under an object of a subclass of Tensor, for classes that say they are something else:
nested tensors, tensors on meshes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from weft._C import Tensor
from weft.base.modes import DisableTorchFunctionSubclass

__all__ = ["alias", "raw"]

T = TypeVar("T")


def raw(f: Callable[[], T]) -> T:
    """`f`, in which calls take such objects for the tensors that they are to the core."""
    with DisableTorchFunctionSubclass():
        return f()


def alias(x: Tensor) -> Tensor:
    """The tensor, or what such an object is to the core, as a plain tensor: a view."""
    out: Tensor = raw(lambda: x.as_subclass(Tensor))
    return out
