"""Tensors changed by v2's formulas, where they round otherwise than v1's."""

from __future__ import annotations

import weft
from weft import Tensor
from weft.nn import functional as nnf
from weft.vision.transforms import _functional_tensor as _v1
from weft.vision.transforms._functional_tensor import (
    _check_channels,
    _check_factor,
    convert_image_dtype,
    largest,
)  # fmt: skip


def resize(img: Tensor, size: list[int], interpolation: str, antialias: bool | None) -> Tensor:
    """Bytes in integers, as Pillow sums them."""
    if img.dtype != weft.uint8 or interpolation not in ("bilinear", "bicubic"):
        return _v1.resize(img, size, interpolation, antialias)
    shape = img.shape if img.ndim > 2 else (1, *img.shape)
    batch = img.reshape(-1, *shape[-3:])
    out = nnf.interpolate(batch, size, mode=interpolation, antialias=bool(antialias))
    return out.reshape(*img.shape[:-2], *out.shape[-2:])


def _mixed(img: Tensor, other: Tensor, ratio: float) -> Tensor:
    out = img.mul(float(ratio)).add(other, alpha=1.0 - float(ratio))
    return out.clamp(0, largest(img.dtype)).to(img.dtype)


def _grey(img: Tensor) -> Tensor:
    """In grey, in floats: of integers whole numbers."""
    if img.shape[-3] == 1:
        return img if img.is_floating_point() else img.float()
    r, g, b = img.unbind(-3)
    grey = r.mul(0.2989).add(g, alpha=0.587).add(b, alpha=0.114).unsqueeze(-3)
    return grey if img.is_floating_point() else grey.floor()


def adjust_contrast(img: Tensor, contrast_factor: float) -> Tensor:
    _check_factor("contrast_factor", contrast_factor)
    _check_channels("adjust_contrast", img)
    return _mixed(img, _grey(img).mean((-3, -2, -1), keepdim=True), contrast_factor)


def adjust_saturation(img: Tensor, saturation_factor: float) -> Tensor:
    _check_factor("saturation_factor", saturation_factor)
    if _check_channels("adjust_saturation", img) == 1:
        return img
    return _mixed(img, _grey(img), saturation_factor)


def adjust_sharpness(img: Tensor, sharpness_factor: float) -> Tensor:
    _check_factor("sharpness_factor", sharpness_factor)
    channels = _check_channels("adjust_sharpness", img)
    if min(img.shape[-2:]) <= 2:
        return img
    floats = img if img.is_floating_point() else img.float()
    kernel = weft.full((3, 3), 1.0 / 13.0, dtype=floats.dtype)
    kernel[1, 1] = 5.0 / 13.0
    batch = floats.reshape(-1, *img.shape[-3:])
    soft = nnf.conv2d(batch, kernel.expand(channels, 1, 3, 3), groups=channels)
    soft = soft if img.is_floating_point() else soft.round()
    out = batch.clone()
    inside = batch[..., 1:-1, 1:-1]
    out[..., 1:-1, 1:-1] = inside.add(soft - inside, alpha=1.0 - sharpness_factor)
    return out.clamp(0, largest(img.dtype)).to(img.dtype).reshape(img.shape)


def autocontrast(img: Tensor) -> Tensor:
    _check_channels("autocontrast", img)
    bound = largest(img.dtype)
    floats = img if img.is_floating_point() else img.float()
    low, high = floats.amin((-2, -1), keepdim=True), floats.amax((-2, -1), keepdim=True)
    flat = low == high
    scale = ((high - low) * (1.0 / bound)).masked_fill(flat, 1)
    return ((floats - low.masked_fill(flat, 0)) / scale).clamp(0, bound).to(img.dtype)


def equalize(img: Tensor) -> Tensor:
    """Other dtypes by way of bytes."""
    return convert_image_dtype(_v1.equalize(convert_image_dtype(img, weft.uint8)), img.dtype)


def posterize(img: Tensor, bits: int) -> Tensor:
    """Floats in 2 ** `bits` steps."""
    if not img.is_floating_point():
        return _v1.posterize(img, bits)
    levels = 1 << bits
    return img.mul(levels).floor().clamp(0, levels - 1).mul(1.0 / levels)
