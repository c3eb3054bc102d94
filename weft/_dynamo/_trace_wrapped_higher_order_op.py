"""The scope in which PyTorch takes `x[i]` without reading `i`, a tensor: here it never reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.overrides import TorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TorchFunctionMode):
    """Mask functions are written for one place, `mask[b, q]`, and mapped over all by `vmap`, where
    an index has a value for each: that works inside this scope and outside.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """The call."""
        return func(*args, **(kwargs or {}))
