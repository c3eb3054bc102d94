"""Images as columns of patches, and back."""

from __future__ import annotations

from weft import Tensor
from weft.nn import functional as F
from weft.nn.conv import Ints
from weft.nn.module import Module


class Unfold(Module):
    """The patches of images `(n, c, h, w)` as columns `(n, c * kernel, places)`.

    Args:
        kernel_size, dilation, padding, stride: of the window; integers, or two of them.

    >>> import weft
    >>> weft.nn.Unfold(2)(weft.zeros(1, 3, 4, 5)).shape
    torch.Size([1, 12, 12])
    """

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """Adds columns of patches `(n, c * kernel, places)` into images of `output_size`.

    Args:
        output_size: height and width.
        kernel_size, dilation, padding, stride: of the window; integers, or two of them.

    >>> import weft
    >>> weft.nn.Fold((4, 5), 2)(weft.zeros(1, 12, 12)).shape
    torch.Size([1, 3, 4, 5])
    """

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self,
        output_size: Ints,
        kernel_size: Ints,
        dilation: Ints = 1,
        padding: Ints = 0,
        stride: Ints = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )
