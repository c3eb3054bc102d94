"""Transforms of images within any structure: torchvision's v2 over v1's, which draw the same.

>>> from weft.vision.transforms import v2
>>> to_input = v2.Compose([v2.ToImage(), v2.ToDtype(weft.float32, scale=True), v2.Resize([4, 4])])
>>> image, label = to_input(weft.full((3, 8, 8), 255, dtype=weft.uint8), 7)
>>> image.shape, float(image.max()), label
(torch.Size([3, 4, 4]), 1.0, 7)
"""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.base.pillow import is_pil
from weft.vision.transforms import transforms as _v1
from weft.vision.transforms.autoaugment import AutoAugmentPolicy
from weft.vision.transforms.functional import InterpolationMode
from weft.vision.transforms.v2 import functional
from weft.vision.transforms.v2._augment import CutMix, MixUp
from weft.vision.transforms.v2._auto_augment import (
    AugMix,
    AutoAugment,
    RandAugment,
    TrivialAugmentWide,
)  # fmt: skip
from weft.vision.transforms.v2._color import RandomChannelPermutation, RandomPhotometricDistort
from weft.vision.transforms.v2._geometry import (
    RandomResize,
    RandomShortestSize,
    RandomZoomOut,
    ScaleJitter,
)  # fmt: skip
from weft.vision.transforms.v2._utils import (
    check_type,
    has_all,
    has_any,
    is_pure_tensor,
    query_chw,
    query_size,
)  # fmt: skip
from weft.vision.transforms.v2.transform import (
    Compose,
    OfImages,
    RandomApply,
    RandomChoice,
    RandomOrder,
    Transform,
)  # fmt: skip

__all__ = [
    "AugMix", "AutoAugment", "AutoAugmentPolicy", "CenterCrop", "ColorJitter", "Compose",
    "ConvertImageDtype", "CutMix", "ElasticTransform", "FiveCrop", "GaussianBlur", "GaussianNoise",
    "Grayscale", "Identity", "InterpolationMode", "Lambda", "LinearTransformation", "MixUp",
    "Normalize", "PILToTensor", "Pad", "RGB", "RandAugment", "RandomAdjustSharpness",
    "RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChannelPermutation", "RandomChoice",
    "RandomCrop", "RandomEqualize", "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip",
    "RandomInvert", "RandomOrder", "RandomPerspective", "RandomPhotometricDistort",
    "RandomPosterize", "RandomResize", "RandomResizedCrop", "RandomRotation", "RandomShortestSize",
    "RandomSolarize", "RandomVerticalFlip", "RandomZoomOut", "Resize", "ScaleJitter", "TenCrop",
    "ToDtype", "ToImage", "ToPILImage", "ToPureTensor", "ToTensor", "Transform",
    "TrivialAugmentWide", "check_type", "functional", "has_all", "has_any", "is_pure_tensor",
    "query_chw", "query_size",
]  # fmt: skip


class ToImage(Transform):
    """A PIL image, an array or a tensor as `tv_tensors.Image`.

    Tensors [..., C, H, W], arrays [H, W, C].

    >>> from weft.vision.transforms import v2
    >>> type(v2.ToImage()(weft.ones(3, 2, 2))).__name__
    'Image'
    """

    def _places(self, flat: list[Any]) -> list[int]:
        import numpy as np

        return [i for i, x in enumerate(flat) if isinstance(x, np.ndarray)] or super()._places(flat)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return functional.to_image(inpt)


class ToPureTensor(Transform):
    """Images that are tensors as plain tensors.

    >>> from weft.vision.transforms import v2
    >>> type(v2.ToPureTensor()(v2.ToImage()(weft.ones(3, 2, 2)))).__name__
    'Tensor'
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt

    def forward(self, *inputs: Any) -> Any:
        from weft.utils._pytree import tree_map
        from weft.vision.tv_tensors import TVTensor

        def plain(x: Any) -> Any:
            return x.as_subclass(Tensor) if isinstance(x, TVTensor) else x

        return tree_map(plain, inputs if len(inputs) > 1 else inputs[0])


class ToDtype(Transform):
    """Tensors in another dtype; with `scale` white stays white. PIL images stay.

    >>> from weft.vision.transforms import v2
    >>> v2.ToDtype(weft.float32, scale=True)(weft.full((1, 1, 1), 255, dtype=weft.uint8))
    tensor([[[1.]]])
    """

    def __init__(self, dtype: weft.dtype, scale: bool = False) -> None:
        super().__init__()
        if not isinstance(dtype, weft.dtype):
            raise ValueError(
                f"[ToDtype] expected a dtype, got {dtype!r}: "
                "dtype must be a dict or a torch.dtype. Hint: one dtype, for the images"
            )
        self.dtype, self.scale = dtype, scale

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt if is_pil(inpt) else functional.to_dtype(inpt, self.dtype, self.scale)

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, scale={self.scale}"


class Identity(Transform):
    """What it is given.

    >>> from weft.vision.transforms import v2
    >>> v2.Identity()(weft.ones(1, 1, 1), 7)
    (tensor([[[1.]]]), 7)
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt


class GaussianNoise(Transform):
    """Float images with normal numbers added.

    The shape stays.

    >>> from weft.vision.transforms import v2
    >>> v2.GaussianNoise()(weft.ones(1, 2, 2)).shape
    torch.Size([1, 2, 2])
    """

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        super().__init__()
        self.mean, self.sigma, self.clip = mean, sigma, clip

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return functional.gaussian_noise(inpt, self.mean, self.sigma, self.clip)

    def extra_repr(self) -> str:
        return f"mean={self.mean}, sigma={self.sigma}, clip={self.clip}"


class RGB(Transform):
    """Grey images with three channels.

    [..., 1, H, W] gives [..., 3, H, W].

    >>> from weft.vision.transforms import v2
    >>> v2.RGB()(weft.ones(1, 2, 2)).shape
    torch.Size([3, 2, 2])
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return functional.grayscale_to_rgb(inpt)


class Lambda(_v1.Lambda):
    """A function of everything of the given types; of all, without any.

    >>> from weft.vision.transforms import v2
    >>> v2.Lambda(lambda x: -x, int)((weft.ones(1), 7))
    (tensor([1.]), -7)
    """

    def __init__(self, lambd: Any, *types_to_apply: type) -> None:
        super().__init__(lambd)
        self.types_to_apply = types_to_apply or (object,)

    def forward(self, *inputs: Any) -> Any:
        from weft.utils._pytree import tree_map

        def applied(x: Any) -> Any:
            return self.lambd(x) if isinstance(x, self.types_to_apply) else x

        return tree_map(applied, inputs if len(inputs) > 1 else inputs[0])


class ToTensor(_v1.ToTensor):
    """A PIL image or an array of bytes as a tensor of 0 to 1; ToImage and ToDtype do it since.

    >>> from weft.vision.transforms import v2
    >>> from PIL import Image
    >>> v2.ToTensor()(Image.new("RGB", (2, 3))).shape
    torch.Size([3, 3, 2])
    """


class LinearTransformation(OfImages, _v1.LinearTransformation):
    """(image as a row - mean) times a matrix, for each image."""


class CenterCrop(OfImages, _v1.CenterCrop):
    """The middle of each image."""


class ColorJitter(OfImages, _v1.ColorJitter):
    """Brightness, contrast, saturation and hue changed alike."""


class ConvertImageDtype(OfImages, _v1.ConvertImageDtype):
    """Each image in another dtype, white as white."""


class ElasticTransform(OfImages, _v1.ElasticTransform):
    """Each image as if seen through the same moving water."""


class FiveCrop(OfImages, _v1.FiveCrop):
    """The four corners and the middle of each image."""


class GaussianBlur(OfImages, _v1.GaussianBlur):
    """Each image blurred by the same bell."""


class Grayscale(OfImages, _v1.Grayscale):
    """Each image in grey."""


class Normalize(OfImages, _v1.Normalize):
    """(image - mean) / std, by channel, for each image."""


class PILToTensor(OfImages, _v1.PILToTensor):
    """PIL images as tensors of their own values."""


class Pad(OfImages, _v1.Pad):
    """Each image with a border."""


class RandomAdjustSharpness(OfImages, _v1.RandomAdjustSharpness):
    """Each image sharper or softer, with probability `p`."""


class RandomAffine(OfImages, _v1.RandomAffine):
    """Each image turned, moved, scaled and sheared alike."""


class RandomAutocontrast(OfImages, _v1.RandomAutocontrast):
    """Each channel stretched from black to white, with probability `p`."""


class RandomCrop(OfImages, _v1.RandomCrop):
    """The same part of each image."""


class RandomEqualize(OfImages, _v1.RandomEqualize):
    """Each channel with a flat histogram, with probability `p`."""


class RandomErasing(OfImages, _v1.RandomErasing):
    """The same rectangle of each tensor erased, with probability `p`."""


class RandomGrayscale(OfImages, _v1.RandomGrayscale):
    """Each image in grey, with probability `p`."""


class RandomHorizontalFlip(OfImages, _v1.RandomHorizontalFlip):
    """Each image mirrored left to right, with probability `p`."""


class RandomInvert(OfImages, _v1.RandomInvert):
    """White less each image, with probability `p`."""


class RandomPerspective(OfImages, _v1.RandomPerspective):
    """Each image seen from the same side, with probability `p`."""


class RandomPosterize(OfImages, _v1.RandomPosterize):
    """`bits` bits of each value, with probability `p`."""


class RandomResizedCrop(OfImages, _v1.RandomResizedCrop):
    """The same part of each image, resized."""


class RandomRotation(OfImages, _v1.RandomRotation):
    """Each image turned by the same angle."""


class RandomSolarize(OfImages, _v1.RandomSolarize):
    """Values of at least `threshold` inverted, with probability `p`."""


class RandomVerticalFlip(OfImages, _v1.RandomVerticalFlip):
    """Each image mirrored top to bottom, with probability `p`."""


class Resize(OfImages, _v1.Resize):
    """Each image in another size."""


class TenCrop(OfImages, _v1.TenCrop):
    """The corners and the middle of each image and of the mirrored one."""


class ToPILImage(OfImages, _v1.ToPILImage):
    """Tensors and arrays as PIL images."""
