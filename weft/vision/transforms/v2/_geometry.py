"""Sizes at random: larger canvases and resized images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import weft
from weft.vision.transforms.arguments import as_mode
from weft.vision.transforms.base import p_of
from weft.vision.transforms.v2 import functional
from weft.vision.transforms.v2._utils import query_size
from weft.vision.transforms.v2.transform import Transform

__all__ = ["RandomResize", "RandomShortestSize", "RandomZoomOut", "ScaleJitter"]


class RandomZoomOut(Transform):
    """The images somewhere on a larger canvas, with probability `p` (Liu et al. 2015).

    Args:
        fill: the canvas: a number, one for each channel, or either by type of the input, with
            "others" for types that are not named.
        side_range: bounds of the canvas's edges, in those of the image.

    Raises: ValueError for bounds below 1 or in the wrong order.

    >>> from weft.vision.transforms import v2
    >>> v2.RandomZoomOut(side_range=(2.0, 2.0), p=1.0)(weft.ones(3, 4, 6)).shape
    torch.Size([3, 8, 12])
    """

    def __init__(
        self, fill: Any = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5
    ) -> None:
        super().__init__()
        self.fill, self.p = fill, p_of("RandomZoomOut", p)
        self.side_range = side_range
        if not 1.0 <= side_range[0] <= side_range[1]:
            raise ValueError(
                f"[RandomZoomOut] expected 1 <= min <= max, got {side_range}: "
                f"Invalid side range provided {side_range}."
            )

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        if weft.rand(1) >= self.p:
            return {"padding": None}
        height, width = query_size(flat_inputs)
        low, high = self.side_range
        times = low + weft.rand(1) * (high - low)
        more_x, more_y = int(width * times) - width, int(height * times) - height
        x, y = weft.rand(2)
        left, top = int(more_x * x), int(more_y * y)
        return {"padding": [left, top, more_x - left, more_y - top]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if params["padding"] is None:
            return inpt
        fill = self.fill
        if isinstance(fill, Mapping):
            fill = fill[type(inpt) if type(inpt) in fill else "others"]
        return functional.pad(inpt, params["padding"], 0 if fill is None else fill)


class _Resized(Transform):
    """All images resized alike, to what is drawn."""

    def __init__(self, interpolation: Any, antialias: bool | None) -> None:
        super().__init__()
        self.interpolation, self.antialias = as_mode(interpolation), antialias

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        how = (self.interpolation, None, self.antialias)
        return functional.resize(inpt, params["size"], *how)


class ScaleJitter(_Resized):
    """The images resized to a random part of what fits a size (Ghiasi et al. 2020).

    Args:
        target_size: width and height that the image fits into at scale 1.
        scale_range: bounds of the scale.

    >>> from weft.vision.transforms import v2
    >>> v2.ScaleJitter((8, 8), scale_range=(2.0, 2.0))(weft.rand(3, 4, 8)).shape
    torch.Size([3, 8, 16])
    """

    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = (0.1, 2.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__(interpolation, antialias)
        self.target_size, self.scale_range = target_size, scale_range

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        low, high = self.scale_range
        scale = low + weft.rand(1) * (high - low)
        scale = min(self.target_size[1] / height, self.target_size[0] / width) * scale
        return {"size": (int(height * scale), int(width * scale))}


class RandomShortestSize(_Resized):
    """The images resized so that the shorter edge becomes one of some sizes.

    Args:
        min_size: the sizes, or one.
        max_size: what the longer edge becomes at most.

    >>> from weft.vision.transforms import v2
    >>> v2.RandomShortestSize([8], max_size=12)(weft.rand(3, 4, 8)).shape
    torch.Size([3, 6, 12])
    """

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int | None = None,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__(interpolation, antialias)
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size = max_size

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        scale = self.min_size[int(weft.randint(len(self.min_size), ()))] / min(height, width)
        if self.max_size is not None:
            scale = min(scale, self.max_size / max(height, width))
        return {"size": (int(height * scale), int(width * scale))}


class RandomResize(_Resized):
    """The images resized so that the shorter edge becomes `min_size` to `max_size` - 1.

    >>> from weft.vision.transforms import v2
    >>> v2.RandomResize(8, 9)(weft.rand(3, 4, 8)).shape
    torch.Size([3, 8, 16])
    """

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__(interpolation, antialias)
        self.min_size, self.max_size = min_size, max_size

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"size": [int(weft.randint(self.min_size, self.max_size, ()))]}
