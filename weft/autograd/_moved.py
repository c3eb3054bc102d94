"""The way of a value to the meta device, in the graph. PyTorch's ToCopyBackward0."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.autograd.function import Function


class ToMeta(Function):
    """`x` without its values; a gradient, which has none either, does not find the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kind: Any) -> Tensor:
        """A meta tensor laid out as `x`."""
        return weft.empty_like(x, dtype=kind, device="meta")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Raises NotImplementedError."""
        return grads[0].to("cpu"), None
