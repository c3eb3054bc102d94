"""Images in other colours: the part of `functional` that leaves every pixel in its place."""

from __future__ import annotations

from typing import Any

from weft.base.pillow import is_pil
from weft.vision.transforms._functional_kinds import _of


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The image in grey, as one channel or as three of the same values.

    A PIL image or a tensor [..., 3, H, W], of which [..., num_output_channels, H, W] are left.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.rgb_to_grayscale(weft.ones(3, 2, 2)).shape
    torch.Size([1, 2, 2])
    """
    if num_output_channels not in (1, 3):
        raise ValueError(
            f"[rgb_to_grayscale] expected 1 or 3 channels, got {num_output_channels}: "
            "num_output_channels should be either 1 or 3"
        )
    return _of(img).rgb_to_grayscale(img, num_output_channels)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """A PIL image in grey.

    Its size stays.

    >>> from weft.vision.transforms import functional as TF
    >>> from PIL import Image
    >>> TF.to_grayscale(Image.new("RGB", (2, 2))).mode
    'L'
    """
    if not is_pil(img):
        raise TypeError(
            f"[to_grayscale] expected a PIL image, got {type(img).__name__}: Input should be PIL "
            "Image. Hint: rgb_to_grayscale takes tensors"
        )
    return rgb_to_grayscale(img, num_output_channels)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """The image times `brightness_factor`: 0 is black, 1 the image.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.adjust_brightness(weft.full((3, 1, 1), 0.5), 0.5).flatten()
    tensor([0.2500, 0.2500, 0.2500])
    """
    return _of(img).adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """The image's distance from its mean grey times `contrast_factor`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.adjust_contrast(weft.full((3, 1, 1), 0.5), 2).flatten()
    tensor([0.5000, 0.5000, 0.5000])
    """
    return _of(img).adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """The image's distance from itself in grey times `saturation_factor`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.adjust_saturation(weft.full((3, 1, 1), 0.5), 2).flatten()
    tensor([0.5000, 0.5000, 0.5000])
    """
    return _of(img).adjust_saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """The image with its hues turned: 0.5 is half of the circle.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.adjust_hue(weft.tensor([1.0, 0.0, 0.0]).view(3, 1, 1), 0.5).flatten()
    tensor([0., 1., 1.])
    """
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(
            f"[adjust_hue] expected a factor of -0.5 to 0.5, got {hue_factor}: "
            f"hue_factor ({hue_factor}) is not in [-0.5, 0.5]."
        )
    return _of(img).adjust_hue(img, hue_factor)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain * image ** gamma, of values of 0 to 1.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.adjust_gamma(weft.full((3, 1, 1), 0.5), 2).flatten()
    tensor([0.2500, 0.2500, 0.2500])
    """
    if gamma < 0:
        raise ValueError(
            f"[adjust_gamma] expected gamma of at least 0, got {gamma}: "
            "Gamma should be a non-negative real number"
        )
    return _of(img).adjust_gamma(img, gamma, gain)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """The image's distance from itself blurred times `sharpness_factor`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.adjust_sharpness(weft.ones(1, 3, 3), 2).shape
    torch.Size([1, 3, 3])
    """
    return _of(img).adjust_sharpness(img, sharpness_factor)


def invert(img: Any) -> Any:
    """White less the image.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.invert(weft.tensor([[[0.25, 1.0]]]))
    tensor([[[0.7500, 0.0000]]])
    """
    return _of(img).invert(img)


def posterize(img: Any, bits: int) -> Any:
    """The image with `bits` high bits of each value.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.posterize(weft.full((1, 1, 1), 255, dtype=weft.uint8), 2)
    tensor([[[192]]], dtype=torch.uint8)
    """
    if not 0 <= bits <= 8:
        raise ValueError(
            f"[posterize] expected 0 to 8 bits, got {bits}: "
            f"The number if bits should be between 0 and 8. Got {bits}"
        )
    return _of(img).posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """The image with values of at least `threshold` inverted.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.solarize(weft.tensor([[[0.25, 1.0]]]), 0.5)
    tensor([[[0.2500, 0.0000]]])
    """
    return _of(img).solarize(img, threshold)


def autocontrast(img: Any) -> Any:
    """Each channel stretched from black to white.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.autocontrast(weft.tensor([[[0.25, 0.75]]]))
    tensor([[[0., 1.]]])
    """
    return _of(img).autocontrast(img)


def equalize(img: Any) -> Any:
    """Each channel with its histogram made flat.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.equalize(weft.tensor([[[1, 2]]], dtype=weft.uint8)).shape
    torch.Size([1, 1, 2])
    """
    return _of(img).equalize(img)
