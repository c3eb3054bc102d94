"""Layers that rearrange channels and pixels."""

from __future__ import annotations

from weft import Tensor
from weft.nn import functional as F
from weft.nn.module import Module


class PixelShuffle(Module):
    """`(*, c r², h, w)` as `(*, c, h r, w r)`. Shi et al., 2016.

    >>> import weft
    >>> weft.nn.PixelShuffle(2)(weft.zeros(1, 8, 3, 3)).shape
    torch.Size([1, 2, 6, 6])
    """

    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """`(*, c, h r, w r)` as `(*, c r², h, w)`: the inverse of `PixelShuffle`.

    >>> import weft
    >>> weft.nn.PixelUnshuffle(2)(weft.zeros(1, 2, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """

    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """The channels, seen as `[groups, channels / groups]`, transposed. Zhang et al., 2018.

    >>> import weft
    >>> weft.nn.ChannelShuffle(2)(weft.arange(4).reshape(1, 4, 1)).flatten().tolist()
    [0, 2, 1, 3]
    """

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
