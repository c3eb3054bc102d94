"""Layers of models of images: convolutions with norms, linear layers, squeeze and excitation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor, nn

__all__ = [
    "MLP", "Conv2dNormActivation", "Conv3dNormActivation", "ConvNormActivation",
    "FrozenBatchNorm2d", "Permute", "SqueezeExcitation",
]  # fmt: skip

_Layer = Callable[..., nn.Module]


def _same(kernel_size: Any, dilation: Any) -> Any:
    """The padding that keeps the size."""
    if isinstance(kernel_size, int) and isinstance(dilation, int):
        return (kernel_size - 1) // 2 * dilation
    n = len(kernel_size if isinstance(kernel_size, Sequence) else dilation)
    sizes, steps = ([v] * n if isinstance(v, int) else list(v) for v in (kernel_size, dilation))
    return tuple((k - 1) // 2 * d for k, d in zip(sizes, steps))


class ConvNormActivation(nn.Sequential):
    """A convolution, a norm and an activation; the latter two may be None.

    >>> from weft.vision import ops
    >>> ops.Conv2dNormActivation(1, 2)(weft.ones(1, 1, 4, 4)).shape
    torch.Size([1, 2, 4, 4])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: _Layer | None = nn.BatchNorm2d,
        activation_layer: _Layer | None = nn.ReLU,
        dilation: Any = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
        conv_layer: _Layer = nn.Conv2d,
    ) -> None:
        conv = conv_layer(
            in_channels, out_channels, kernel_size, stride,
            _same(kernel_size, dilation) if padding is None else padding,
            dilation=dilation, groups=groups, bias=norm_layer is None if bias is None else bias,
        )  # fmt: skip
        parts = [conv] if norm_layer is None else [conv, norm_layer(out_channels)]
        if activation_layer is not None:
            parts.append(activation_layer(**({} if inplace is None else {"inplace": inplace})))
        super().__init__(*parts)
        self.out_channels = out_channels


class Conv2dNormActivation(ConvNormActivation):
    """A convolution of images, a norm and an activation.

    Args:
        padding: what keeps the size, if None.
        bias: whether the convolution has one; without a norm, if None.

    >>> from weft.vision import ops
    >>> ops.Conv2dNormActivation(3, 8, stride=2)(weft.rand(1, 3, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """


class Conv3dNormActivation(ConvNormActivation):
    """The same of volumes.

    >>> from weft.vision import ops
    >>> ops.Conv3dNormActivation(1, 2)(weft.ones(1, 1, 4, 4, 4)).shape
    torch.Size([1, 2, 4, 4, 4])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: _Layer | None = nn.BatchNorm3d,
        activation_layer: _Layer | None = nn.ReLU,
        dilation: Any = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, groups, norm_layer,
            activation_layer, dilation, inplace, bias, nn.Conv3d,
        )  # fmt: skip


class MLP(nn.Sequential):
    """Linear layers with activations and dropout between them.

    >>> from weft.vision import ops
    >>> len(ops.MLP(4, [8, 2], dropout=0.1))
    5
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: Sequence[int],
        norm_layer: _Layer | None = None,
        activation_layer: _Layer = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        how = {} if inplace is None else {"inplace": inplace}
        parts: list[nn.Module] = []
        for i, width in enumerate(hidden_channels):
            parts.append(nn.Linear(in_channels, width, bias=bias))
            in_channels = width
            if i + 1 < len(hidden_channels):
                parts += [norm_layer(width)] if norm_layer is not None else []
                parts.append(activation_layer(**how))
            parts.append(nn.Dropout(dropout, **how))
        super().__init__(*parts)


class SqueezeExcitation(nn.Module):
    """Channels weighed by what the whole image says (Hu et al. 2017).

    Images [N, C, H, W], whose shape stays.

    >>> from weft.vision import ops
    >>> ops.SqueezeExcitation(4, 2)(weft.ones(1, 4, 2, 2)).shape
    torch.Size([1, 4, 2, 2])
    """

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: _Layer = nn.ReLU,
        scale_activation: _Layer = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation, self.scale_activation = activation(), scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        weights = self.fc2(self.activation(self.fc1(self.avgpool(input))))
        return self.scale_activation(weights) * input


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization whose numbers are fixed: all of them are buffers.

    Images [N, C, H, W].

    >>> from weft.vision import ops
    >>> ops.FrozenBatchNorm2d(3)(weft.ones(1, 3, 2, 2)).shape
    torch.Size([1, 3, 2, 2])
    """

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name in ("weight", "bias", "running_mean", "running_var"):
            make = weft.ones if name in ("weight", "running_var") else weft.zeros
            self.register_buffer(name, make(num_features))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        state_dict.pop(f"{prefix}num_batches_tracked", None)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.weight)}, eps={self.eps})"


class Permute(nn.Module):
    """`weft.permute` as a layer.

    Shapes are those of `permute`.

    >>> from weft.vision import ops
    >>> ops.Permute([1, 0])(weft.ones(2, 3)).shape
    torch.Size([3, 2])
    """

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(*self.dims)
