"""Layers that give images another size."""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.nn import functional as F
from weft.nn.module import Module


class Upsample(Module):
    """Resamples `(batch, channels, *sizes)` to other sizes: `functional.interpolate`.

    Args:
        size: the new sizes; or
        scale_factor: new sizes over old ones.
        mode: 'nearest', 'linear', 'bilinear', 'bicubic' or 'trilinear'.
        align_corners: whether the centres of the corner pixels stay where they are.
        recompute_scale_factor: take the scale from the sizes, not from `scale_factor`.

    >>> import weft
    >>> weft.nn.Upsample(scale_factor=2)(weft.zeros(1, 1, 3, 3)).shape
    torch.Size([1, 1, 6, 6])
    """

    __constants__ = [
        "size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor",
    ]  # fmt: skip

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(s) for s in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            size = f"scale_factor={self.scale_factor!r}"
        else:
            size = f"size={self.size!r}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Repeats pixels of `(batch, channels, height, width)`.

    >>> import weft
    >>> weft.nn.UpsamplingNearest2d(scale_factor=2)(weft.zeros(1, 1, 3, 3)).shape
    torch.Size([1, 1, 6, 6])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Interpolates between pixels of `(batch, channels, height, width)`, with aligned corners.

    >>> import weft
    >>> weft.nn.UpsamplingBilinear2d(size=5)(weft.zeros(1, 1, 3, 3)).shape
    torch.Size([1, 1, 5, 5])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
