"""`autograd.Variable`, which older programs make of tensors: today it is the tensor."""

from __future__ import annotations

from typing import Any

import weft
from weft._C import Tensor
from weft.base.warn import warn


class _VariableType(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableType):
    """`Variable(data, requires_grad=False)` is a tensor over data's memory, a leaf of the graph.

    Args:
        data: a tensor; None gives one without elements.
        requires_grad: whether the leaf gets a gradient.
        volatile: without effect since there is `no_grad`, which the warning says.
        name: without effect.

    Raises:
        TypeError: data is no tensor.
        ValueError: both volatile and requires_grad are True.

    >>> weft.autograd.Variable(weft.ones(1), requires_grad=True)
    tensor([1.], requires_grad=True)
    """

    def __new__(
        cls,
        data: Any = None,
        requires_grad: bool = False,
        volatile: bool = False,
        _grad_fn: None = None,
        name: str | None = None,
    ) -> Any:
        if data is None:
            data = weft.empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(
                f"[Variable] expected a tensor, got {data.__class__.__name__} "
                "(Variable data has to be a tensor)"
            )
        if volatile:
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        if volatile and requires_grad:
            raise ValueError("Variable can't be volatile and require_grad at the same time!")
        return data.detach().requires_grad_(requires_grad)
