"""Layers that are linear in their input or inputs, and the identity."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import Tensor
from weft.nn import init
from weft.nn.functional import bilinear, linear
from weft.nn.module import Module
from weft.nn.parameter import Parameter


class Identity(Module):
    """Returns its input; arguments of the constructor are ignored.

    An input of any shape.

    >>> import weft
    >>> weft.nn.Identity(54, unused=True)(weft.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """`y = x Wᵀ + b`, from `(*, in_features)` to `(*, out_features)`.

    Weight and bias start uniform between ±1 / sqrt(in_features).

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        bias: whether there is a `b`.
        device, dtype: of the parameters.

    >>> import weft
    >>> weft.nn.Linear(3, 5)(weft.zeros(2, 3)).shape
    torch.Size([2, 5])
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(weft.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(weft.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        # With this slope the bound of He et al. is 1 / sqrt(in_features).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """`y_k = x1ᵀ A_k x2 + b_k`, from `(*, in1)` and `(*, in2)` to `(*, out)`.

    Args:
        in1_features: size of the last dimension of the first input.
        in2_features: size of the last dimension of the second input.
        out_features: size of the last dimension of the output.
        bias: whether there is a `b`.
        device, dtype: of the parameters.

    Raises:
        ValueError: `in1_features` is not positive.

    >>> import weft
    >>> weft.nn.Bilinear(2, 3, 4)(weft.zeros(5, 2), weft.zeros(5, 3)).shape
    torch.Size([5, 4])
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(weft.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(weft.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new starting values, uniform between ±1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
