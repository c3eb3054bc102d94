"""Images changed in given ways: PIL images by Pillow, tensors [..., C, H, W] by weft's ops.

A function gives what it is given: a PIL image for a PIL image, a tensor of the same dtype for a
tensor. Names and meanings are torchvision's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.vision.transforms import _functional_pil, _functional_tensor
from weft.vision.transforms._functional_colors import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    adjust_sharpness,
    autocontrast,
    equalize,
    invert,
    posterize,
    rgb_to_grayscale,
    solarize,
    to_grayscale,
)
from weft.vision.transforms._functional_kinds import _of
from weft.vision.transforms._functional_tensor import erase, normalize
from weft.vision.transforms.arguments import (
    InterpolationMode,
    as_mode,
    numbers,
    pil_modes_mapping,
)  # fmt: skip
from weft.vision.transforms.conversion import (
    convert_image_dtype,
    pil_to_tensor,
    to_pil_image,
    to_tensor,
)  # fmt: skip

__all__ = [
    "InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue",
    "adjust_saturation", "adjust_sharpness", "affine", "autocontrast", "center_crop",
    "convert_image_dtype", "crop", "elastic_transform", "equalize", "erase", "five_crop",
    "gaussian_blur", "get_dimensions", "get_image_num_channels", "get_image_size", "hflip",
    "invert", "normalize", "pad", "perspective", "pil_modes_mapping", "pil_to_tensor", "posterize",
    "resize", "resized_crop", "rgb_to_grayscale", "rotate", "solarize", "ten_crop", "to_grayscale",
    "to_pil_image", "to_tensor", "vflip",
]  # fmt: skip


_NEAREST, _BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def _how(img: Any, interpolation: Any) -> Any:
    """An interpolation as the functions for the image have it."""
    mode = as_mode(interpolation)
    return mode.value if isinstance(img, Tensor) else pil_modes_mapping[mode]


def _pair(who: str, given: Any) -> list[Any]:
    found = numbers(who, given, (1, 2))
    return found * 2 if len(found) == 1 else found


def get_dimensions(img: Any) -> list[int]:
    """Channels, height and width.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.get_dimensions(weft.zeros(8, 3, 20, 30))
    [3, 20, 30]
    """
    found: list[int] = _of(img).get_dimensions(img)
    return found


def get_image_size(img: Any) -> list[int]:
    """Width and height.

    Of a PIL image or a tensor [..., C, H, W].

    >>> from weft.vision.transforms import functional as TF
    >>> TF.get_image_size(weft.ones(3, 4, 5))
    [5, 4]
    """
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    """The number of channels.

    Of a PIL image or a tensor [..., C, H, W].

    >>> from weft.vision.transforms import functional as TF
    >>> TF.get_image_num_channels(weft.ones(3, 4, 5))
    3
    """
    return get_dimensions(img)[0]


def output_size(height: int, width: int, size: list[int], max_size: int | None) -> list[int]:
    """[H, W] of an image whose shorter edge becomes `size[0]`, or which becomes `size`."""
    if len(size) == 2:
        return list(size)
    short, long = min(height, width), max(height, width)
    new_short, new_long = size[0], int(size[0] * long / short)
    if max_size is not None:
        if max_size <= size[0]:
            raise ValueError(
                f"[resize] expected max_size above size, got max_size {max_size} and size "
                f"{size[0]}: max_size = {max_size} must be strictly greater than the requested "
                f"size for the smaller edge size = {size}"
            )
        if new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return [new_long, new_short] if width <= height else [new_short, new_long]


def resize(
    img: Any,
    size: Any,
    interpolation: Any = _BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The image in another size.

    Args:
        size: [H, W], or what the shorter edge becomes.
        max_size: what the longer edge becomes at most, where `size` is one number.
        antialias: whether bilinear and bicubic weigh all pixels that fall on one; they always do
            for PIL images.

    Raises: TypeError and ValueError for a size or an interpolation that is none.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.resize(weft.rand(3, 20, 30), 10).shape
    torch.Size([3, 10, 15])
    """
    return resized(img, size, interpolation, max_size, antialias, _functional_tensor.resize)


def resized(
    img: Any,
    size: Any,
    interpolation: Any,
    max_size: int | None,
    antialias: bool | None,
    of_tensors: Callable[[Tensor, list[int], str, bool | None], Tensor],
) -> Any:
    """`resize` with the given function of tensors."""
    sizes = numbers("size", size, (1, 2))
    if max_size is not None and len(sizes) == 2:
        raise ValueError(
            f"[resize] expected one number with max_size, got {size}: max_size should only be "
            "passed if size specifies the length of the smaller edge"
        )
    how = _how(img, interpolation)
    _, height, width = get_dimensions(img)
    new = output_size(height, width, sizes, max_size)
    if new == [height, width]:
        return img
    if isinstance(img, Tensor):
        return of_tensors(img, new, how, antialias)
    if antialias is False:
        warnings.warn(
            "Anti-alias option is always applied for PIL Image input. Argument antialias is "
            "ignored.",
            stacklevel=2,
        )
    return _functional_pil.resize(img, new, how)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """The image with a border.

    A PIL image or a tensor [..., C, H, W].

    Args:
        padding: one number for all sides; left and right, top and bottom; or left, top, right,
            bottom.
        fill: the colour, one number or one for each channel.
        padding_mode: "constant", "edge", "reflect" (the edge once) or "symmetric" (twice).

    >>> from weft.vision.transforms import functional as TF
    >>> TF.pad(weft.ones(1, 2, 2), 1).shape
    torch.Size([1, 4, 4])
    """
    sides = numbers("padding", padding, (1, 2, 4))
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(
            f"[pad] expected constant, edge, reflect or symmetric, got {padding_mode!r}: "
            "Padding mode should be either constant, edge, reflect or symmetric"
        )
    return _of(img).pad(img, (sides * 4)[:4], fill, padding_mode)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of the image; what lies outside of the image is 0.

    A PIL image or a tensor [..., C, H, W], whose part is [..., C, height, width].

    >>> from weft.vision.transforms import functional as TF
    >>> TF.crop(weft.arange(16).view(1, 4, 4), 0, 0, 2, 2)
    tensor([[[0, 1],
             [4, 5]]])
    """
    return _of(img).crop(img, top, left, height, width)


def center_crop(img: Any, output_size: Any) -> Any:
    """The middle of the image, which is padded with 0 first where it is smaller.

    A PIL image or a tensor [..., C, H, W], whose result is [..., C, h, w] for a size (h, w).

    >>> from weft.vision.transforms import functional as TF
    >>> TF.center_crop(weft.arange(16).view(1, 4, 4), 2)
    tensor([[[ 5,  6],
             [ 9, 10]]])
    """
    height, width = _pair("output_size", output_size)
    _, h, w = get_dimensions(img)
    if width > w or height > h:
        more = [max(width - w, 0), max(height - h, 0)]
        img = pad(img, [more[0] // 2, more[1] // 2, (more[0] + 1) // 2, (more[1] + 1) // 2])
        _, h, w = get_dimensions(img)
    return crop(img, round((h - height) / 2.0), round((w - width) / 2.0), height, width)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = _BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A part of the image, in another size.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.resized_crop(weft.ones(1, 4, 4), 0, 0, 2, 2, [4, 4]).shape
    torch.Size([1, 4, 4])
    """
    part = crop(img, top, left, height, width)
    return resize(part, size, interpolation, antialias=antialias)


def five_crop(img: Any, size: Any) -> tuple[Any, ...]:
    """The four corners (top left, top right, bottom left, bottom right) and the middle.

    A PIL image or a tensor [..., C, H, W], whose result is [..., C, h, w] for a size (h, w).

    >>> from weft.vision.transforms import functional as TF
    >>> [part.shape for part in TF.five_crop(weft.ones(1, 4, 4), 2)][0]
    torch.Size([1, 2, 2])
    """
    height, width = _pair("size", size)
    _, h, w = get_dimensions(img)
    if width > w or height > h:
        raise ValueError(
            f"[five_crop] expected a size of at most {(h, w)}, got {(height, width)}: Requested "
            f"crop size {(height, width)} is bigger than input size {(h, w)}"
        )
    corners = [(y, x) for y in (0, h - height) for x in (0, w - width)]
    parts = [crop(img, y, x, height, width) for y, x in corners]
    return (*parts, center_crop(img, [height, width]))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """`five_crop` of the image and of the mirrored one.

    A PIL image or a tensor [..., C, H, W], whose result is [..., C, h, w] for a size (h, w).

    >>> from weft.vision.transforms import functional as TF
    >>> len(TF.ten_crop(weft.ones(1, 4, 4), 2))
    10
    """
    mirrored = vflip(img) if vertical_flip else hflip(img)
    return five_crop(img, size) + five_crop(mirrored, size)


def hflip(img: Any) -> Any:
    """The image mirrored left to right.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.hflip(weft.tensor([[[1, 2]]]))
    tensor([[[2, 1]]])
    """
    return _of(img).hflip(img)


def vflip(img: Any) -> Any:
    """The image mirrored top to bottom.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.vflip(weft.tensor([[[1], [2]]]))
    tensor([[[2],
             [1]]])
    """
    return _of(img).vflip(img)


def _inverse(
    center: Sequence[float], angle: float, translate: Any, scale: float, shear: Sequence[float]
) -> list[float]:
    """The first two rows of the inverse of T C R(angle) Shear(y) Shear(x) scale C^-1."""
    turn, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - sy) / math.cos(sy)
    b = -a * math.tan(sx) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -c * math.tan(sx) + math.cos(turn)  # a d - b c = 1
    p, q, r, s = (v / scale for v in (d, -b, -c, a))
    x, y = center[0] + translate[0], center[1] + translate[1]
    return [p, q, center[0] - p * x - q * y, r, s, center[1] - r * x - s * y]


def _from_middle(img: Any, center: Sequence[float] | None) -> list[float]:
    if center is None:
        return [0.0, 0.0]
    return [c - s * 0.5 for c, s in zip(center, get_image_size(img))]


def _check_center(center: Any) -> None:
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError(
            f"[center] expected a sequence, got {center!r}: Argument center should be a sequence"
        )


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = _NEAREST,
    expand: bool = False,
    center: Any = None,
    fill: Any = None,
) -> Any:
    """The image turned counter-clockwise by `angle` degrees about (x, y) `center`, or its middle.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    Args:
        expand: whether the result is large enough for all of it.
        fill: what lies outside of the image: a number or one for each channel.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.rotate(weft.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 90)
    tensor([[[2., 4.],
             [1., 3.]]])
    """
    if not isinstance(angle, (int, float)):
        raise TypeError(
            f"[rotate] expected a number, got {angle!r}: Argument angle should be int or float"
        )
    _check_center(center)
    how = _how(img, interpolation)
    if not isinstance(img, Tensor):
        return _of(img).rotate(img, angle, how, expand, center, fill)
    matrix = _inverse(_from_middle(img, center), -angle, (0.0, 0.0), 1.0, (0.0, 0.0))
    return _functional_tensor.rotate(img, matrix, how, expand, fill)


def affine(
    img: Any,
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    interpolation: Any = _NEAREST,
    fill: Any = None,
    center: Any = None,
) -> Any:
    """The image turned clockwise, moved, scaled and sheared, its middle fixed.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    Args:
        angle: degrees.
        translate: pixels across and down.
        shear: degrees, along x or along x and y.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.affine(weft.tensor([[[1.0, 2.0]]]), 0, [1, 0], 1, [0])
    tensor([[[0., 1.]]])
    """
    if scale <= 0.0:
        raise ValueError(
            f"[affine] expected a positive scale, got {scale}: Argument scale should be positive"
        )
    if not isinstance(translate, (list, tuple)):
        raise TypeError(
            f"[affine] expected translate of 2 numbers, got {translate!r}: "
            "Argument translate should be a sequence"
        )
    moved = numbers("translate", translate, (2,))
    shears = [shear, 0.0] if isinstance(shear, (int, float)) else _pair("shear", shear)
    _check_center(center)
    how = _how(img, interpolation)
    if isinstance(img, Tensor):
        matrix = _inverse(_from_middle(img, center), angle, moved, scale, shears)
        return _functional_tensor.affine(img, matrix, how, fill)
    middle = center or [s * 0.5 for s in get_image_size(img)]
    return _of(img).affine(img, _inverse(middle, angle, moved, scale, shears), how, fill)


def _perspective_coefficients(start: Any, end: Any) -> list[float]:
    """Of (a x + b y + c) / (g x + h y + 1) and the like, which take each of `end` to `start`."""
    if len(start) != 4 or len(end) != 4:
        raise ValueError(
            f"[perspective] expected four corners, got {len(start)} and {len(end)}: Please provide "
            f"exactly four corners, got {len(start)} startpoints and {len(end)} endpoints."
        )
    rows = []
    for (x, y), (u, v) in zip(end, start):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    matrix = weft.tensor(rows, dtype=weft.float64)
    target = weft.tensor(start, dtype=weft.float64).view(8, 1)
    found: list[float] = weft.linalg.lstsq(matrix, target).solution.view(8).float().tolist()
    return found


def perspective(
    img: Any, startpoints: Any, endpoints: Any, interpolation: Any = _BILINEAR, fill: Any = None
) -> Any:
    """The image seen so that the corners `startpoints`, [x, y] each, lie at `endpoints`.

    >>> from weft.vision.transforms import functional as TF
    >>> corners = [[0, 0], [1, 0], [1, 1], [0, 1]]
    >>> TF.perspective(weft.ones(1, 2, 2), corners, corners).shape
    torch.Size([1, 2, 2])
    """
    coefficients = _perspective_coefficients(startpoints, endpoints)
    return _of(img).perspective(img, coefficients, _how(img, interpolation), fill)


def elastic_transform(
    img: Any, displacement: Tensor, interpolation: Any = _BILINEAR, fill: Any = None
) -> Any:
    """The image with each pixel taken from another place.

    Args:
        displacement: [1, H, W, 2], how far across and down from its own place a pixel is taken, in
            halves of the width and of the height.
        fill: what lies outside of the image: a number or one for each channel.

    Raises: TypeError where `displacement` is no tensor, ValueError where it has another shape.

    >>> from weft.vision.transforms import functional as TF
    >>> right = weft.tensor([2. / 3, 0.]).expand(1, 1, 3, 2)  # a pixel of three
    >>> TF.elastic_transform(weft.tensor([[[1., 2., 3.]]]), right)
    tensor([[[2., 3., 0.]]])
    """
    if not isinstance(displacement, Tensor):
        raise TypeError(
            f"[elastic_transform] expected displacement as a tensor, got {displacement!r}: "
            "Argument displacement should be a Tensor"
        )
    shape = (1, *get_dimensions(img)[1:], 2)
    if displacement.shape != shape:
        raise ValueError(
            f"[elastic_transform] expected displacement of shape {shape}, got "
            f"{tuple(displacement.shape)}: Argument displacement shape should be {shape}, but "
            f"given {displacement.shape}"
        )
    how = as_mode(interpolation).value
    if isinstance(img, Tensor):
        return _functional_tensor.elastic_transform(img, displacement, how, fill)
    values = _functional_tensor.elastic_transform(pil_to_tensor(img), displacement, how, fill)
    return to_pil_image(values, img.mode)


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """The image blurred by a bell of `kernel_size` (odd, across and down) pixels.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.gaussian_blur(weft.ones(1, 3, 3), 3).shape
    torch.Size([1, 3, 3])
    """
    sizes = _pair("kernel_size", kernel_size)
    for size in sizes:
        if size % 2 == 0 or size < 0:
            raise ValueError(
                f"[gaussian_blur] expected odd sizes, got {sizes}: "
                f"kernel_size should have odd and positive integers. Got {sizes}"
            )
    default = [size * 0.15 + 0.35 for size in sizes]
    widths = default if sigma is None else _pair("sigma", sigma)
    if min(widths) <= 0.0:
        raise ValueError(
            f"[gaussian_blur] expected positive sigma, got {widths}: "
            f"sigma should have positive values. Got {widths}"
        )
    if isinstance(img, Tensor):
        return _functional_tensor.gaussian_blur(img, sizes, widths)
    _of(img)
    return to_pil_image(
        _functional_tensor.gaussian_blur(pil_to_tensor(img), sizes, widths), img.mode
    )
