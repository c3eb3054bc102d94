"""What `transforms.functional` does to PIL images: Pillow's own operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base.pillow import is_pil, pillow


def get_dimensions(img: Any) -> list[int]:
    if not is_pil(img):
        raise TypeError(
            f"[image] expected a tensor or a PIL image, got {type(img).__name__}: "
            f"Unexpected type {type(img)}"
        )
    return [len(img.getbands()), img.height, img.width]


def hflip(img: Any) -> Any:
    return img.transpose(pillow().Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Any) -> Any:
    return img.transpose(pillow().Transpose.FLIP_TOP_BOTTOM)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    return img.crop((left, top, left + width, top + height))


def _colour(img: Any, fill: Any) -> Any:
    """A fill value in the form of the image's mode."""
    bands = len(img.getbands())
    values = [0] if fill is None else [fill] if isinstance(fill, (int, float)) else list(fill)
    if len(values) not in (1, bands):
        raise ValueError(
            f"[fill] expected one value or {bands}, one for each channel, got {len(values)}: The "
            "number of elements in 'fill' does not match the number of channels of the image "
            f"({len(values)} != {bands})"
        )
    if img.mode != "F":
        values = [int(v) for v in values]
    return values[0] if bands == 1 else tuple(values * bands if len(values) == 1 else values)


def pad(img: Any, padding: Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> Any:
    """`padding` is left, top, right, bottom."""
    import numpy as np

    if padding_mode == "constant":
        out = pillow("ImageOps").expand(img, border=tuple(padding), fill=_colour(img, fill))
    else:
        left, top, right, bottom = (max(p, 0) for p in padding)
        cut = [max(-p, 0) for p in padding]
        kept = img.crop((cut[0], cut[1], img.width - cut[2], img.height - cut[3]))
        array = np.asarray(kept)
        widths = [(top, bottom), (left, right), (0, 0)][: array.ndim]
        out = pillow().fromarray(np.pad(array, widths, padding_mode))  # type: ignore[call-overload]
    if img.mode == "P":
        out.putpalette(img.getpalette())
    return out


def resize(img: Any, size: list[int], interpolation: int) -> Any:
    return img.resize((size[1], size[0]), interpolation)


def affine(img: Any, matrix: list[float], interpolation: int, fill: Any) -> Any:
    how = pillow().Transform.AFFINE
    return img.transform(img.size, how, matrix, interpolation, fillcolor=_colour(img, fill))


def rotate(img: Any, angle: float, interpolation: int, expand: bool, center: Any, fill: Any) -> Any:
    return img.rotate(angle, interpolation, expand, center, fillcolor=_colour(img, fill))


def perspective(img: Any, coeffs: list[float], interpolation: int, fill: Any) -> Any:
    how = pillow().Transform.PERSPECTIVE
    return img.transform(img.size, how, coeffs, interpolation, fillcolor=_colour(img, fill))


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    grey = img.convert("L")
    return grey if num_output_channels == 1 else pillow().merge("RGB", [grey] * 3)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    return pillow("ImageEnhance").Brightness(img).enhance(brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    return pillow("ImageEnhance").Contrast(img).enhance(contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    return pillow("ImageEnhance").Color(img).enhance(saturation_factor)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    return pillow("ImageEnhance").Sharpness(img).enhance(sharpness_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    if img.mode in ("L", "1", "I", "F"):
        return img
    hue, saturation, value = img.convert("HSV").split()
    turn = int(hue_factor * 255)
    hue = hue.point([(h + turn) % 256 for h in range(256)])
    return pillow().merge("HSV", (hue, saturation, value)).convert(img.mode)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    table = [int((256 - 1e-3) * gain * (v / 255.0) ** gamma) for v in range(256)]
    return img.convert("RGB").point(table * 3).convert(img.mode)


def invert(img: Any) -> Any:
    return pillow("ImageOps").invert(img)


def posterize(img: Any, bits: int) -> Any:
    return pillow("ImageOps").posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    return pillow("ImageOps").solarize(img, threshold)


def autocontrast(img: Any) -> Any:
    return pillow("ImageOps").autocontrast(img)


def equalize(img: Any) -> Any:
    return pillow("ImageOps").equalize(img)
