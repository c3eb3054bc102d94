"""What weights of models want of an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.nn import Module
from weft.vision.transforms import functional as TF
from weft.vision.transforms.arguments import as_mode

__all__ = ["ImageClassification"]


class ImageClassification(Module):
    """A PIL image or a tensor resized, its middle in floats and normalized.

    >>> from weft.vision.transforms._presets import ImageClassification
    >>> ImageClassification(crop_size=4, resize_size=6)(weft.zeros(3, 9, 12)).shape
    torch.Size([3, 4, 4])
    """

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: Sequence[float] = (0.485, 0.456, 0.406),
        std: Sequence[float] = (0.229, 0.224, 0.225),
        interpolation: Any = TF.InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation, self.antialias = as_mode(interpolation), antialias

    def forward(self, img: Any) -> Tensor:
        img = TF.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        img = TF.center_crop(img, self.crop_size)
        tensor = img if isinstance(img, Tensor) else TF.pil_to_tensor(img)
        return TF.normalize(TF.convert_image_dtype(tensor, weft.float32), self.mean, self.std)

    def __repr__(self) -> str:
        shown = ("crop_size", "resize_size", "mean", "std", "interpolation")
        lines = "".join(f"\n    {name}={getattr(self, name)}" for name in shown)
        return f"{type(self).__name__}({lines}\n)"
