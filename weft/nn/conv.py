"""Convolutions and transposed convolutions over one to three sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import _C, Tensor
from weft.nn import init
from weft.nn.module import Module
from weft.nn.parameter import Parameter

Ints = int | Sequence[int]


def tuple_of(value: Any, dims: int) -> tuple[Any, ...]:
    """A number per size: `value` itself, or `dims` times the same."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims


class _ConvNd(Module):
    """What convolutions share: the checks of arguments, the parameters, how they print."""

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels",
        "out_channels", "kernel_size",
    ]  # fmt: skip
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Any,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._check_padding()
        self._make_parameters(bias, device, dtype)

    def _check_padding(self) -> None:
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {self.padding!r}, should be one of {{'same', 'valid'}}"
                )
            if self.padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        modes = ("zeros", "reflect", "replicate", "circular")
        if self.padding_mode not in modes:
            raise ValueError(
                f"padding_mode must be one of {set(modes)}, "
                f"but got padding_mode='{self.padding_mode}'"
            )

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def _make_parameters(self, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = Parameter(weft.empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(weft.empty(self.out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    @property
    def _reversed_padding_repeated_twice(self) -> tuple[int, ...]:
        """The pads of a padding_mode other than zeros, the last dimension first."""
        pads: list[int] = []
        for k in reversed(range(len(self.kernel_size))):
            if self.padding == "same":
                total = self.dilation[k] * (self.kernel_size[k] - 1)
                pads += [total // 2, total - total // 2]
            elif self.padding == "valid":
                pads += [0, 0]
            else:
                pads += [int(self.padding[k])] * 2
        return tuple(pads)

    def extra_repr(self) -> str:
        dims = len(self.kernel_size)
        zeros, ones = (0,) * dims, (1,) * dims
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    dims: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Any = 0,
        dilation: Ints = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        dims = self.dims
        if not isinstance(padding, str):
            padding = tuple_of(padding, dims)
        super().__init__(
            in_channels, out_channels, tuple_of(kernel_size, dims), tuple_of(stride, dims), padding,
            tuple_of(dilation, dims), False, (0,) * dims, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = _C.ops.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            padding = 0
        return self._function(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Cross-correlation of `(batch, in, length)` with a weight `(out, in / groups, kernel)`.

    Weight and bias start uniform between ±1 / sqrt(in / groups * kernel elements).

    Args:
        in_channels, out_channels: of the images before and after.
        kernel_size: of the weight; this and the next are integers, or one for each size.
        stride: steps between places of the kernel.
        padding: zeros on both sides; 'same' keeps the size, 'valid' is none.
        dilation: steps between elements of the kernel.
        groups: into how many groups the channels fall that do not see each other.
        bias: whether a number is added to each channel.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: of the parameters.

    Raises:
        ValueError: channels that groups do not divide, a padding that does not exist.

    >>> import weft
    >>> weft.nn.Conv1d(2, 3, 5)(weft.zeros(1, 2, 9)).shape
    torch.Size([1, 3, 5])
    """

    dims = 1
    _function = staticmethod(_C.conv1d)


class Conv2d(_Conv):
    """Cross-correlation of images `(batch, in_channels, height, width)`. Arguments as `Conv1d`.

    >>> import weft
    >>> weft.nn.Conv2d(2, 3, (1, 3), padding="same")(weft.zeros(1, 2, 4, 5)).shape
    torch.Size([1, 3, 4, 5])
    """

    dims = 2
    _function = staticmethod(_C.conv2d)


class Conv3d(_Conv):
    """Cross-correlation of `(batch, in_channels, depth, height, width)`. Arguments as `Conv1d`.

    >>> import weft
    >>> weft.nn.Conv3d(2, 3, 2)(weft.zeros(1, 2, 4, 4, 4)).shape
    torch.Size([1, 3, 3, 3, 3])
    """

    dims = 3
    _function = staticmethod(_C.conv3d)


class _ConvTransposeNd(_ConvNd):
    dims: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Ints = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        dims = self.dims
        super().__init__(
            in_channels, out_channels, tuple_of(kernel_size, dims), tuple_of(stride, dims),
            tuple_of(padding, dims), tuple_of(dilation, dims), True,
            tuple_of(output_padding, dims), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding
        if output_size is not None:
            extra = self._extra(input, list(output_size))
        return self._function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _extra(self, input: Tensor, wanted: list[int]) -> tuple[int, ...]:
        """The output_padding that gives a result of the wanted sizes."""
        lead = input.dim() - self.dims
        if len(wanted) == lead + self.dims:
            wanted = wanted[lead:]
        if len(wanted) != self.dims:
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have "
                f"{self.dims} or {lead + self.dims} elements (got {len(wanted)})"
            )
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[lead:], self.stride, self.padding, self.dilation, self.kernel_size,
                strict=True,
            )
        ]  # fmt: skip
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if any(not a <= n <= b for n, a, b in zip(wanted, least, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to "
                f"{most} (for an input of {input.shape[2:]})"
            )
        return tuple(n - a for n, a in zip(wanted, least, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """The adjoint of `Conv1d`: from `(batch, in_channels, length)` to longer ones.

    Args:
        in_channels, out_channels: of the images before and after.
        kernel_size: of the weight `(in, out / groups, kernel)`.
        stride: steps of the result between places of the kernel.
        padding: what is cut off on both sides.
        output_padding: what is added at the end, where several results have the same input.
        groups, bias: as of `Conv1d`.
        dilation: steps between elements of the kernel.
        padding_mode: 'zeros'.
        device, dtype: of the parameters.

    Raises:
        ValueError: channels that groups do not divide; an `output_size` out of range.

    >>> import weft
    >>> weft.nn.ConvTranspose1d(2, 3, 2, stride=2)(weft.zeros(1, 2, 4)).shape
    torch.Size([1, 3, 8])
    """

    dims = 1
    _function = staticmethod(_C.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The adjoint of `Conv2d`. Arguments as `ConvTranspose1d`.

    `(batch, in_channels, height, width)`, the batch optional.

    >>> import weft
    >>> weft.nn.ConvTranspose2d(2, 3, 2)(weft.zeros(1, 2, 4, 4), output_size=(5, 5)).shape
    torch.Size([1, 3, 5, 5])
    """

    dims = 2
    _function = staticmethod(_C.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The adjoint of `Conv3d`. Arguments as `ConvTranspose1d`.

    `(batch, in_channels, depth, height, width)`, the batch optional.

    >>> import weft
    >>> weft.nn.ConvTranspose3d(2, 3, 2)(weft.zeros(1, 2, 4, 4, 4)).shape
    torch.Size([1, 3, 5, 5, 5])
    """

    dims = 3
    _function = staticmethod(_C.conv_transpose3d)
