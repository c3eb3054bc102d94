"""Layers that normalise within each example."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.nn import init
from weft.nn.functional import group_norm, layer_norm, local_response_norm, rms_norm
from weft.nn.module import Module
from weft.nn.parameter import Parameter


def _sizes(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    """The sizes of the last dimensions. A bool stays one: empty() says that it is none."""
    if isinstance(normalized_shape, numbers.Integral):
        size: Any = normalized_shape
        return (size if isinstance(size, bool) else int(size),)
    return tuple(normalized_shape)  # type: ignore[arg-type]


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

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
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
        self.normalized_shape = _sizes(normalized_shape)
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


class GroupNorm(Module):
    """Brings groups of channels of `(batch, channels, *)` to mean 0 and variance 1.

    Wu and He, "Group Normalization", 2018.

    Args:
        num_groups: how many groups.
        num_channels: how many channels.
        eps: added to the variance.
        affine: whether there are a weight (ones) and a bias (zeros) per channel.
        device, dtype: of the parameters.
        bias: whether there is a bias.

    Raises:
        ValueError: `num_groups` does not divide `num_channels`.

    >>> import weft
    >>> weft.nn.GroupNorm(2, 4)(weft.ones(1, 4)).tolist()
    [[0.0, 0.0, 0.0, 0.0]]
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]
    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", True), ("bias", bias)):
            values = weft.empty(num_channels, device=device, dtype=dtype) if affine else None
            kept = affine and wanted
            self.register_parameter(name, Parameter(values) if kept else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root of the mean square of the last dimensions, then scales each element.

    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

    Args:
        normalized_shape: the sizes of the last dimensions; an integer is the last one.
        eps: added to the mean square; None is the dtype's.
        elementwise_affine: whether there is a weight (ones).
        device, dtype: of the weight.

    >>> import weft
    >>> weft.nn.RMSNorm(2)(weft.tensor([3.0, 3.0])).tolist()
    [1.0, 1.0]
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    weight: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = None
        if elementwise_affine:
            weight = Parameter(weft.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class LocalResponseNorm(Module):
    """Divides by a power of the mean square over neighbouring channels.

    Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", 2012.

    Args:
        size: how many channels.
        alpha, beta, k: `x / (k + alpha * mean square) ** beta`.

    >>> import weft
    >>> weft.nn.LocalResponseNorm(2)(weft.zeros(1, 2, 3)).shape
    torch.Size([1, 2, 3])
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
