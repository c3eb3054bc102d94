"""Functions of Python, element by element; and zeros written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft._C import Tensor
from weft.base.forms import function_of, method

__all__ = ["zero_"]


@method
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Each element replaced by the function's result, in place; slow, and outside of the graph.

    >>> weft.tensor([1.0, 2.0]).apply_(lambda v: v + 1)
    tensor([2., 3.])
    """
    return _mapped(self, [self], callable)


@method
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Each element replaced by the function's result for it and the other's, in place.

    >>> weft.tensor([1.0, 2.0]).map_(weft.tensor([3.0, 4.0]), lambda a, b: a * b)
    tensor([3., 8.])
    """
    if tensor.dtype is not self.dtype:
        raise TypeError(f"[map_] expected a tensor of {self.dtype}, got {tensor.dtype}")
    if tensor.requires_grad:
        raise RuntimeError(
            "[map_] expected a tensor outside the graph, got one that requires grad (Can't call "
            "map_() on Variable that requires grad. Use var.detach().map_() instead.)"
        )
    return _mapped(self, [self, tensor.expand(self.shape)], callable)


def _mapped(self: Tensor, operands: list[Tensor], callable: Callable[..., Any]) -> Tensor:
    if self.requires_grad:
        raise RuntimeError(
            "[apply_] expected a tensor outside the graph, got one that requires grad (Can't call "
            "apply_() on Variable that requires grad. Use var.detach().apply_() instead.)"
        )
    made = [callable(*values) for values in zip(*(t.flatten().tolist() for t in operands))]
    if any(isinstance(value, Tensor) and value.numel() != 1 for value in made):
        raise ValueError(
            "[apply_] expected a number from each call, got tensors (only one element tensors can "
            "be converted to Python scalars)"
        )
    return self.copy_(weft.tensor(made, dtype=self.dtype, device="cpu").reshape(self.shape))


zero_ = function_of("zero_")
