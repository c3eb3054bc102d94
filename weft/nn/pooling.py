"""Pooling layers: windows over `(batch, channels, *sizes)` or `(channels, *sizes)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import Tensor
from weft.nn import functional as F
from weft.nn.conv import Ints, tuple_of
from weft.nn.module import Module


class _Pool(Module):
    """A layer that calls the function of its name, in small letters with underscores."""

    dims: int


# --- max ----------------------------------------------------------------------------------------


class _MaxPoolNd(_Pool):
    __constants__ = [
        "kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode",
    ]  # fmt: skip

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self._function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Takes the largest value of each window over `(*, length)`.

    Args:
        kernel_size: of the window; an integer, or one for each size, as the next.
        stride: from window to window; the kernel size if None.
        padding: places of minus infinity on both sides.
        dilation: steps within a window.
        return_indices: give the flat index of each value in its plane too.
        ceil_mode: whether a last window may reach beyond the end.

    >>> import weft
    >>> weft.nn.MaxPool1d(2)(weft.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 4])
    """

    dims = 1
    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """Takes the largest value of each window over `(*, height, width)`. As `MaxPool1d`.

    >>> import weft
    >>> weft.nn.MaxPool2d(2)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 4, 4])
    """

    dims = 2
    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """Takes the largest value of each window over `(*, depth, height, width)`. As `MaxPool1d`.

    >>> import weft
    >>> weft.nn.MaxPool3d(2)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 4, 4, 4])
    """

    dims = 3
    _function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(_Pool):
    def __init__(self, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0) -> None:
        super().__init__()
        self.kernel_size = tuple_of(kernel_size, self.dims)
        self.stride = tuple_of(stride if stride is not None else kernel_size, self.dims)
        self.padding = tuple_of(padding, self.dims)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return self._function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts the results of `MaxPool1d` back where they came from, zeros elsewhere.

    `(batch, channels, length)`, the batch optional, and indices of that shape.

    Args:
        kernel_size, stride, padding: of the pooling.

    >>> import weft
    >>> y, at = weft.nn.MaxPool1d(2, return_indices=True)(weft.ones(1, 1, 4))
    >>> weft.nn.MaxUnpool1d(2)(y, at).sum()
    tensor(2.)
    """

    dims = 1
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts the results of `MaxPool2d` back where they came from, zeros elsewhere.

    `(batch, channels, height, width)`, the batch optional, and indices of that shape.

    Args:
        kernel_size, stride, padding: of the pooling.

    >>> import weft
    >>> y, at = weft.nn.MaxPool2d(2, return_indices=True)(weft.ones(1, 1, 4, 4))
    >>> weft.nn.MaxUnpool2d(2)(y, at).sum()
    tensor(4.)
    """

    dims = 2
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts the results of `MaxPool3d` back where they came from, zeros elsewhere.

    `(batch, channels, depth, height, width)`, the batch optional, and indices of that shape.

    Args:
        kernel_size, stride, padding: of the pooling.

    >>> import weft
    >>> y, at = weft.nn.MaxPool3d(2, return_indices=True)(weft.ones(1, 1, 4, 4, 4))
    >>> weft.nn.MaxUnpool3d(2)(y, at).sum()
    tensor(8.)
    """

    dims = 3
    _function = staticmethod(F.max_unpool3d)


# --- averages -----------------------------------------------------------------------------------


class _AvgPoolNd(_Pool):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return self._function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Takes the mean of each window over `(*, length)`.

    Args:
        kernel_size: of the window; an integer, or one for each size, as the next.
        stride: from window to window; the kernel size if None.
        padding: zeros on both sides.
        ceil_mode: whether a last window may reach beyond the end.
        count_include_pad: whether the zeros count in the mean.

    >>> import weft
    >>> weft.nn.AvgPool1d(2)(weft.tensor([[1.0, 3.0]])).tolist()
    [[2.0]]
    """

    dims = 1

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        Module.__init__(self)
        self.kernel_size = tuple_of(kernel_size, 1)
        self.stride = tuple_of(stride if stride is not None else kernel_size, 1)
        self.padding = tuple_of(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip


class AvgPool2d(_AvgPoolNd):
    """Takes the mean of each window over `(*, height, width)`. As `AvgPool1d`, and:

    Args:
        divisor_override: what the sums are divided by instead of the size of the window.

    >>> import weft
    >>> weft.nn.AvgPool2d(2)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 4, 4])
    """

    dims = 2
    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    """Takes the mean of each window over `(*, depth, height, width)`. As `AvgPool1d`, and:

    Args:
        divisor_override: what the sums are divided by instead of the size of the window.

    >>> import weft
    >>> weft.nn.AvgPool3d(2)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 4, 4, 4])
    """

    dims = 3
    _function = staticmethod(F.avg_pool3d)


class _LPPoolNd(_Pool):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Ints,
        stride: Ints | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return self._function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """Takes the p-norm, p = `norm_type`, of each window over `(*, length)`.

    >>> import weft
    >>> weft.nn.LPPool1d(2, 2)(weft.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 4])
    """

    dims = 1
    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """Takes the p-norm, p = `norm_type`, of each window over `(*, height, width)`.

    >>> import weft
    >>> weft.nn.LPPool2d(2, 2)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 4, 4])
    """

    dims = 2
    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """Takes the p-norm, p = `norm_type`, of each window over `(*, depth, height, width)`.

    >>> import weft
    >>> weft.nn.LPPool3d(2, 2)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 4, 4, 4])
    """

    dims = 3
    _function = staticmethod(F.lp_pool3d)


# --- adaptive -----------------------------------------------------------------------------------


class _AdaptivePool(_Pool):
    __constants__: list[str] = ["output_size"]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
        return self._function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPoolNd(_AdaptivePool):
    pass


class _AdaptiveMaxPoolNd(_AdaptivePool):
    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return self._function(input, self.output_size, self.return_indices)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Takes the means of `output_size` windows that cover `(*, length)`.

    Args:
        output_size: sizes of the result; None keeps a size.

    >>> import weft
    >>> weft.nn.AdaptiveAvgPool1d(3)(weft.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 3])
    """

    dims = 1
    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Takes the means of `output_size` windows that cover `(*, height, width)`.

    Args:
        output_size: sizes of the result; None keeps a size.

    >>> import weft
    >>> weft.nn.AdaptiveAvgPool2d(3)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 3, 3])
    """

    dims = 2
    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Takes the means of `output_size` windows that cover `(*, depth, height, width)`.

    Args:
        output_size: sizes of the result; None keeps a size.

    >>> import weft
    >>> weft.nn.AdaptiveAvgPool3d(3)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 3, 3, 3])
    """

    dims = 3
    _function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Takes the maxima of `output_size` windows that cover `(*, length)`.

    Args:
        output_size: sizes of the result; None keeps a size.
        return_indices: give the flat index of each value in its plane too.

    >>> import weft
    >>> weft.nn.AdaptiveMaxPool1d(3)(weft.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 3])
    """

    dims = 1
    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Takes the maxima of `output_size` windows that cover `(*, height, width)`.

    Args:
        output_size: sizes of the result; None keeps a size.
        return_indices: give the flat index of each value in its plane too.

    >>> import weft
    >>> weft.nn.AdaptiveMaxPool2d(3)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 3, 3])
    """

    dims = 2
    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Takes the maxima of `output_size` windows that cover `(*, depth, height, width)`.

    Args:
        output_size: sizes of the result; None keeps a size.
        return_indices: give the flat index of each value in its plane too.

    >>> import weft
    >>> weft.nn.AdaptiveMaxPool3d(3)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 3, 3, 3])
    """

    dims = 3
    _function = staticmethod(F.adaptive_max_pool3d)
