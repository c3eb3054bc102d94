"""PyTorch's home of the handle that a registered hook comes with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.nn.removable_handle import RemovableHandle as RemovableHandle

__all__ = ["RemovableHandle"]


def __getattr__(name: str) -> Any:
    """The handle is written in `nn`, which is loaded after `utils`."""
    import sys

    if name != "RemovableHandle":
        from weft.base import lazy as _lazy

        raise _lazy.missing(sys.modules[__name__], name)
    from weft.nn import removable_handle

    return removable_handle.RemovableHandle
