"""Layers that normalise within each example."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.nn import init
from weft.nn.functional import layer_norm
from weft.nn.module import Module
from weft.nn.parameter import Parameter


class LayerNorm(Module):
    """Brings the last dimensions to mean 0 and variance 1, then scales and shifts each element.

    Ba et al., "Layer Normalization", 2016. Any shape that ends in `normalized_shape`.

    Args:
        normalized_shape: the sizes of the last dimensions; an integer is the last one.
        eps: added to the variance.
        elementwise_affine: whether there are a weight (ones) and a bias (zeros).
        bias: whether there is a bias.
        device, dtype: of the parameters.

    >>> import weft
    >>> weft.nn.LayerNorm(4)(weft.ones(2, 4)).tolist()
    [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """

    __constants__ = ("normalized_shape", "eps", "elementwise_affine")
    normalized_shape: tuple[int, ...]
    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = (int(normalized_shape),)
        self.normalized_shape = tuple(normalized_shape)  # type: ignore[arg-type]
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", True), ("bias", bias)):
            parameter = None
            if elementwise_affine and wanted:
                values = weft.empty(self.normalized_shape, device=device, dtype=dtype)
                parameter = Parameter(values)
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )
