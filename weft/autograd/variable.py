"""`autograd.Variable`, which older programs make of tensors: today it is the tensor."""

from __future__ import annotations

from typing import Any

from weft._C import Tensor


class _VariableType(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableType):
    """`Variable(data, requires_grad=False)` is a tensor over data's memory, a leaf of the graph.

    >>> weft.autograd.Variable(weft.ones(1), requires_grad=True)
    tensor([1.], requires_grad=True)
    """

    def __new__(cls, data: Any = None, requires_grad: bool = False) -> Any:
        if not isinstance(data, Tensor):
            raise TypeError(f"[Variable] expected a tensor, got {data.__class__.__name__}")
        return data.detach().requires_grad_(requires_grad)
