"""The functions of `transforms.functional` under v2's names, of tensors by v2's formulas."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import weft
from weft import Tensor
from weft.base.pillow import is_pil
from weft.vision import tv_tensors
from weft.vision.transforms import functional as _v1
from weft.vision.transforms.functional import *  # noqa: F403
from weft.vision.transforms.functional import (
    InterpolationMode,
    convert_image_dtype,
    crop,
    elastic_transform,
    get_dimensions,
    get_image_num_channels,
    hflip,
    pil_to_tensor,
    resized,
    rgb_to_grayscale,
    to_pil_image,
    vflip,
)  # fmt: skip
from weft.vision.transforms.v2 import _functional_tensor

__all__ = [
    *_v1.__all__, "elastic", "gaussian_noise", "get_num_channels", "get_size", "grayscale_to_rgb",
    "horizontal_flip", "permute_channels", "to_dtype", "to_image", "vertical_flip",
]  # fmt: skip

horizontal_flip, vertical_flip = hflip, vflip
get_num_channels, elastic = get_image_num_channels, elastic_transform


def _of_tensors(name: str) -> Callable[..., Any]:
    """v1's function of that name, but v2's where the image is a tensor."""
    of_v1, of_tensors = getattr(_v1, name), getattr(_functional_tensor, name)

    @wraps(of_v1)
    def either(img: Any, *args: Any, **kwargs: Any) -> Any:
        return (of_tensors if isinstance(img, Tensor) else of_v1)(img, *args, **kwargs)

    return either


adjust_contrast, adjust_saturation, adjust_sharpness = map(
    _of_tensors, ("adjust_contrast", "adjust_saturation", "adjust_sharpness")
)
autocontrast, equalize, posterize = map(_of_tensors, ("autocontrast", "equalize", "posterize"))


@wraps(_v1.resize)
def _resize(
    img: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    return resized(img, size, interpolation, max_size, antialias, _functional_tensor.resize)


@wraps(_v1.resized_crop)
def _resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    part = crop(img, top, left, height, width)
    return resize(part, size, interpolation, antialias=antialias)


resize, resized_crop = _resize, _resized_crop


def get_size(inpt: Any) -> list[int]:
    """Height and width.

    >>> from weft.vision.transforms import v2
    >>> v2.functional.get_size(weft.ones(3, 4, 5))
    [4, 5]
    """
    return get_dimensions(inpt)[1:]


def to_image(inpt: Any) -> Tensor:
    """A PIL image, an array [H, W, C] or a tensor as `tv_tensors.Image`, with its own values.

    >>> from weft.vision.transforms.v2 import functional as TF
    >>> type(TF.to_image(weft.zeros(3, 2, 2))).__name__
    'Image'
    """
    import numpy as np

    if isinstance(inpt, np.ndarray):
        array = inpt[:, :, None] if inpt.ndim == 2 else inpt
        return tv_tensors.Image(weft.from_numpy(array.transpose(2, 0, 1)).contiguous())
    if isinstance(inpt, Tensor) or is_pil(inpt):
        return tv_tensors.Image(inpt)
    raise TypeError(
        f"[to_image] expected a tensor, a PIL image or an array, got {type(inpt).__name__}: Input "
        f"can either be a pure Tensor, a numpy array, or a PIL image, but got {type(inpt)} instead."
    )


def to_dtype(inpt: Tensor, dtype: weft.dtype = weft.float32, scale: bool = False) -> Tensor:
    """A tensor in another dtype; with `scale` white stays white.

    The shape stays.

    >>> from weft.vision.transforms import v2
    >>> v2.functional.to_dtype(weft.full((1,), 255, dtype=weft.uint8), scale=True)
    tensor([1.])
    """
    if not isinstance(inpt, Tensor):
        raise TypeError(f"[to_dtype] expected a tensor, got {type(inpt).__name__}")
    return convert_image_dtype(inpt, dtype) if scale else inpt.to(dtype)


def grayscale_to_rgb(inpt: Any) -> Any:
    """A grey image with three channels of the same values; one that has three as it is.

    >>> from weft.vision.transforms.v2 import functional as TF
    >>> TF.grayscale_to_rgb(weft.zeros(1, 4, 6)).shape
    torch.Size([3, 4, 6])
    """
    if is_pil(inpt):
        return inpt.convert("RGB")
    return rgb_to_grayscale(inpt, 3) if get_num_channels(inpt) == 1 else inpt


def permute_channels(inpt: Any, permutation: Any) -> Any:
    """The image with its channels in another order: channel i is `permutation[i]` of before.

    Raises: ValueError where there are not as many numbers as channels.

    >>> from weft.vision.transforms.v2 import functional as TF
    >>> TF.permute_channels(weft.arange(3).view(3, 1, 1), [2, 0, 1]).flatten()
    tensor([2, 0, 1])
    """
    channels = get_num_channels(inpt)
    if len(permutation) != channels:
        raise ValueError(
            f"[permute_channels] expected {channels} numbers, got {len(permutation)}: Length of "
            f"permutation does not match number of channels: {len(permutation)} != {channels}"
        )
    if is_pil(inpt):
        return to_pil_image(permute_channels(pil_to_tensor(inpt), permutation))
    return inpt.index_select(-3, weft.as_tensor(permutation))


def gaussian_noise(
    inpt: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True
) -> Tensor:
    """A float image with normal numbers added, within 0 to 1 where `clip`.

    The shape stays.

    >>> from weft.vision.transforms import v2
    >>> v2.functional.gaussian_noise(weft.ones(1, 2, 2)).shape
    torch.Size([1, 2, 2])
    """
    if not (isinstance(inpt, Tensor) and inpt.is_floating_point()):
        raise ValueError(
            "[gaussian_noise] expected a float tensor, got "
            f"{inpt.dtype if isinstance(inpt, Tensor) else type(inpt).__name__}: "
            "Input tensor is expected to be in float dtype"
        )
    if sigma < 0:
        raise ValueError(
            f"[gaussian_noise] expected sigma of at least 0, got {sigma}: "
            f"sigma shouldn't be negative. Got {sigma}"
        )
    out = inpt + (mean + weft.randn_like(inpt) * sigma)
    return out.clamp(0, 1) if clip else out
