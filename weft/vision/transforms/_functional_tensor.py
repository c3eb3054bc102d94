"""What `transforms.functional` does to tensors [..., C, H, W] of floats in 0..1, or of integers.

The formulas are torchvision's: the matrices of affine maps are about the centre of the image,
colours are mixed and clamped to the range of the dtype, integers are rounded after what needs
floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.nn import functional as nnf

_LARGEST = {
    weft.uint8: 2**8 - 1, weft.int8: 2**7 - 1, weft.int16: 2**15 - 1, weft.uint16: 2**16 - 1,
    weft.int32: 2**31 - 1, weft.int64: 2**63 - 1,
}  # fmt: skip


def largest(dtype: weft.dtype) -> int:
    """The value of white: 1 of floats, the largest value of integers."""
    return _LARGEST.get(dtype, 1)


def get_dimensions(img: Tensor) -> list[int]:
    if img.ndim < 2:
        raise TypeError(
            f"[image] expected a tensor of shape [..., H, W], got shape {list(img.shape)}: "
            "Tensor is not a torch image."
        )
    return [1 if img.ndim == 2 else img.shape[-3], img.shape[-2], img.shape[-1]]


def _check_channels(who: str, img: Tensor) -> int:
    """Of colour or grey images, the number of channels."""
    channels = get_dimensions(img)[0]
    if channels not in (1, 3) or img.ndim < 3:
        raise TypeError(
            f"[{who}] expected a tensor of shape [..., 1 or 3, H, W], got shape {list(img.shape)}: "
            f"Input image tensor permitted channel values are [1, 3], but found {channels}"
        )
    return channels


def _check_factor(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(
            f"[{name}] expected a factor of at least 0, got {factor}: "
            f"{name} ({factor}) is not non-negative."
        )


def convert_image_dtype(image: Tensor, dtype: weft.dtype = weft.float32) -> Tensor:
    if image.dtype == dtype:
        return image
    if image.is_floating_point():
        if dtype.is_floating_point:
            return image.to(dtype)
        lost = (weft.int32, weft.int64) if image.dtype == weft.float32 else (weft.int64,)
        if dtype in lost:
            raise RuntimeError(
                f"[convert_image_dtype] expected a dtype whose values {image.dtype} has, got "
                f"{dtype}: The cast from {image.dtype} to {dtype} cannot be performed safely."
            )
        return image.mul(largest(dtype) + 1.0 - 1e-3).to(dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / float(largest(image.dtype))
    old, new = largest(image.dtype) + 1, largest(dtype) + 1
    if old > new:
        return weft.div(image, old // new, rounding_mode="floor").to(dtype)
    return image.to(dtype) * (new // old)


def _in_floats(img: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """What a function over batches [N, C, H, W] of floats makes of an image, in its dtype."""
    shape = img.shape if img.ndim > 2 else (1, *img.shape)
    known = img.dtype in (weft.float32, weft.float64)
    batch = img.reshape(-1, *shape[-3:]).to(img.dtype if known else weft.float32)
    out = function(batch)
    out = out.reshape(*(img.shape[:-2]), *out.shape[-2:])
    if not img.is_floating_point():
        out = out.round()
    return out.to(img.dtype)


def hflip(img: Tensor) -> Tensor:
    get_dimensions(img)
    return img.flip(-1)


def vflip(img: Tensor) -> Tensor:
    get_dimensions(img)
    return img.flip(-2)


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    _, h, w = get_dimensions(img)
    bottom, right = top + height, left + width
    inner = img[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if top >= 0 and left >= 0 and bottom <= h and right <= w:
        return inner
    across = [max(min(0, right) - left, 0), max(right - max(w, left), 0)]
    down = [max(min(0, bottom) - top, 0), max(bottom - max(h, top), 0)]
    return nnf.pad(inner, across + down)


def _mirrored(n: int, before: int, after: int, mode: str) -> Tensor:
    """Which of n pixels lie at -before to n + after - 1."""
    at = weft.arange(-before, n + after)
    if mode == "edge" or n == 1:
        return at.clamp(0, n - 1)
    last = 2 * n - 2 if mode == "reflect" else 2 * n - 1  # at + its mirror
    at = at % (2 * n - 2 if mode == "reflect" else 2 * n)
    return weft.where(at < n, at, last - at)


def pad(
    img: Tensor, padding: Sequence[int], fill: Any = 0, padding_mode: str = "constant"
) -> Tensor:
    """`padding` is left, top, right, bottom."""
    channels, h, w = get_dimensions(img)
    left, top, right, bottom = padding
    if padding_mode != "constant":
        rows = _mirrored(h, top, bottom, padding_mode)
        columns = _mirrored(w, left, right, padding_mode)
        return img.index_select(-2, rows).index_select(-1, columns)
    values = [fill] if isinstance(fill, (int, float)) else list(fill or [0])
    if len(values) not in (1, channels):
        raise ValueError(
            f"[pad] expected one fill value or {channels}, one for each channel, got {len(values)}"
        )
    sides = [left, right, top, bottom]
    if len(values) == 1:
        return nnf.pad(img, sides, value=values[0])
    parts = [nnf.pad(c, sides, value=v) for c, v in zip(img.unbind(-3), values)]
    return weft.stack(parts, -3)


def resize(img: Tensor, size: list[int], interpolation: str, antialias: bool | None) -> Tensor:
    smooth = interpolation in ("bilinear", "bicubic")
    if not smooth and interpolation not in ("nearest", "nearest-exact"):
        raise NotImplementedError(
            "[resize] expected nearest, nearest-exact, bilinear or bicubic for a tensor, got "
            f"{interpolation}. Hint: PIL images are resized by the others too"
        )

    def resized(batch: Tensor) -> Tensor:
        out = nnf.interpolate(
            batch, size, mode=interpolation, align_corners=False if smooth else None,
            antialias=bool(antialias) and smooth,
        )  # fmt: skip
        return out.clamp(0, 255) if img.dtype == weft.uint8 and interpolation == "bicubic" else out

    return _in_floats(img, resized)


def _sampled(img: Tensor, grid: Tensor, mode: str, fill: Any) -> Tensor:
    """The image at the places of a grid [1, H, W, 2], with `fill` outside of it."""

    def sampled(batch: Tensor) -> Tensor:
        at = grid.to(batch.dtype).expand(len(batch), -1, -1, -1)
        if fill is None:
            return nnf.grid_sample(batch, at, mode=mode, align_corners=False)
        inside = weft.ones_like(batch[:, :1])
        both = nnf.grid_sample(weft.cat([batch, inside], 1), at, mode=mode, align_corners=False)
        out, inside = both[:, :-1], both[:, -1:]
        values = [float(fill)] if isinstance(fill, (int, float)) else [float(v) for v in fill]
        if len(values) not in (1, batch.shape[1]):
            raise ValueError(
                f"[fill] expected one value or {batch.shape[1]}, one for each channel, got "
                f"{len(values)}: The number of elements in 'fill' cannot broadcast to match the "
                f"number of channels of the image ({len(values)} != {batch.shape[1]})"
            )
        filled = weft.tensor(values, dtype=batch.dtype).view(1, -1, 1, 1)
        if mode == "nearest":
            return weft.where(inside < 0.5, filled, out)
        return out * inside + (1.0 - inside) * filled

    if mode not in ("nearest", "bilinear"):
        raise ValueError(
            f"[image] expected nearest or bilinear for a tensor, got {mode}: "
            f"Interpolation mode '{mode}' is unsupported with Tensor input"
        )
    return _in_floats(img, sampled)


def _centres(n: int, dtype: weft.dtype) -> Tensor:
    """The middles of n pixels, from the middle of all."""
    return weft.linspace(-n * 0.5 + 0.5, n * 0.5 - 0.5, n, dtype=dtype)


def _grid_dtype(img: Tensor) -> weft.dtype:
    return weft.float64 if img.dtype == weft.float64 else weft.float32


def affine(
    img: Tensor,
    matrix: list[float],
    interpolation: str,
    fill: Any,
    size: tuple[int, int] | None = None,
) -> Tensor:
    """The image under the inverse of a 2x3 matrix about its centre, of [H, W] `size`."""
    _, h, w = get_dimensions(img)
    height, width = size or (h, w)
    dtype = _grid_dtype(img)
    theta = weft.tensor(matrix, dtype=dtype).view(2, 3).t()
    across, down, moved = theta / weft.tensor([0.5 * w, 0.5 * h], dtype=dtype)
    x = _centres(width, dtype).view(width, 1)
    y = _centres(height, dtype).view(height, 1, 1)
    # A product of matrices may round otherwise, and places between two pixels would fall elsewhere.
    grid = x * across + y * down + moved
    return _sampled(img, grid.unsqueeze(0), interpolation, fill)


def _rotated_size(matrix: list[float], w: int, h: int) -> tuple[int, int]:
    """[H, W] of the smallest image that holds the rotated one."""
    theta = weft.tensor(matrix, dtype=weft.float32).view(2, 3)
    corners = [[-0.5 * w, -0.5 * h, 1.0], [-0.5 * w, 0.5 * h, 1.0]]
    corners += [[0.5 * w, 0.5 * h, 1.0], [0.5 * w, -0.5 * h, 1.0]]
    at = weft.tensor(corners) @ theta.t() + weft.tensor([0.5 * w, 0.5 * h])
    unit = 1e-4  # what is less than this is rounding
    high = ((at.amax(0) / unit).trunc() * unit).ceil()
    low = ((at.amin(0) / unit).trunc() * unit).floor()
    width, height = (high - low).tolist()
    return int(height), int(width)


def rotate(img: Tensor, matrix: list[float], interpolation: str, expand: bool, fill: Any) -> Tensor:
    _, h, w = get_dimensions(img)
    size = _rotated_size(matrix, w, h) if expand else (h, w)
    return affine(img, matrix, interpolation, fill, size)


def perspective(img: Tensor, coeffs: list[float], interpolation: str, fill: Any) -> Tensor:
    _, h, w = get_dimensions(img)
    dtype = _grid_dtype(img)
    x = (_centres(w, dtype) + 0.5 * w).expand(h, w)
    y = (_centres(h, dtype) + 0.5 * h).unsqueeze(-1).expand(h, w)
    a, b, c, d, e, f, g, k = coeffs
    below = g * x + k * y + 1.0
    across = (a * x + b * y + c) / (0.5 * w) / below - 1.0
    down = (d * x + e * y + f) / (0.5 * h) / below - 1.0
    return _sampled(img, weft.stack([across, down], -1).unsqueeze(0), interpolation, fill)


def elastic_transform(img: Tensor, displacement: Tensor, interpolation: str, fill: Any) -> Tensor:
    h, w = img.shape[-2:]
    x = weft.linspace((1 - w) / w, (w - 1) / w, w).expand(h, w)
    y = weft.linspace((1 - h) / h, (h - 1) / h, h).unsqueeze(-1).expand(h, w)
    grid = weft.stack([x, y], -1).unsqueeze(0) + displacement
    return _sampled(img, grid, interpolation, fill)


def _bell(size: int, sigma: float, dtype: weft.dtype) -> Tensor:
    x = weft.linspace(-(size - 1) * 0.5, (size - 1) * 0.5, size, dtype=dtype)
    weights = weft.exp(-0.5 * (x / sigma).pow(2))
    return weights / weights.sum()


def gaussian_blur(img: Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> Tensor:
    def blurred(batch: Tensor) -> Tensor:
        kx, ky = (_bell(k, s, batch.dtype) for k, s in zip(kernel_size, sigma))
        kernel = (ky[:, None] @ kx[None, :]).expand(batch.shape[1], 1, len(ky), len(kx))
        x, y = len(kx) // 2, len(ky) // 2
        batch = nnf.pad(batch, [x, x, y, y], mode="reflect")
        return nnf.conv2d(batch, kernel, groups=batch.shape[1])

    return _in_floats(img, blurred)


def _mixed(img: Tensor, other: Tensor, ratio: float) -> Tensor:
    out = float(ratio) * img + (1.0 - float(ratio)) * other
    return out.clamp(0, largest(img.dtype)).to(img.dtype)


def rgb_to_grayscale(img: Tensor, num_output_channels: int = 1) -> Tensor:
    grey = img
    if _check_channels("rgb_to_grayscale", img) == 3:
        r, g, b = img.unbind(-3)
        grey = (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype).unsqueeze(-3)
    if num_output_channels == 3:
        return weft.cat([grey] * 3, -3)
    return grey.clone() if grey is img else grey


def adjust_brightness(img: Tensor, brightness_factor: float) -> Tensor:
    _check_factor("brightness_factor", brightness_factor)
    _check_channels("adjust_brightness", img)
    return _mixed(img, weft.zeros_like(img), brightness_factor)


def adjust_contrast(img: Tensor, contrast_factor: float) -> Tensor:
    _check_factor("contrast_factor", contrast_factor)
    grey = rgb_to_grayscale(img)
    dtype = img.dtype if img.is_floating_point() else weft.float32
    return _mixed(img, grey.to(dtype).mean((-3, -2, -1), keepdim=True), contrast_factor)


def adjust_saturation(img: Tensor, saturation_factor: float) -> Tensor:
    _check_factor("saturation_factor", saturation_factor)
    if _check_channels("adjust_saturation", img) == 1:
        return img
    return _mixed(img, rgb_to_grayscale(img), saturation_factor)


def adjust_hue(img: Tensor, hue_factor: float) -> Tensor:
    """By way of hue, saturation and value (Smith 1978)."""
    if _check_channels("adjust_hue", img) == 1:
        return img
    rgb = convert_image_dtype(img, img.dtype if img.is_floating_point() else weft.float32)
    r, g, b = rgb.unbind(-3)
    value, span = rgb.amax(-3), rgb.amax(-3) - rgb.amin(-3)
    over = weft.where(span == 0, weft.ones_like(span), span)
    hue = weft.where(value == g, 2.0 + (b - r) / over, 4.0 + (r - g) / over)
    hue = weft.where(value == r, (g - b) / over, hue)
    hue = (hue / 6.0 + hue_factor) % 1.0
    sector = (
        weft.tensor([5.0, 3.0, 1.0], dtype=hue.dtype).view(3, 1, 1) + 6.0 * hue.unsqueeze(-3)
    ) % 6.0
    out = value.unsqueeze(-3) - span.unsqueeze(-3) * weft.minimum(sector, 4.0 - sector).clamp(0, 1)
    return convert_image_dtype(out, img.dtype)


def adjust_gamma(img: Tensor, gamma: float, gain: float = 1) -> Tensor:
    _check_channels("adjust_gamma", img)
    light = img if img.is_floating_point() else convert_image_dtype(img)
    return convert_image_dtype((gain * light.pow(gamma)).clamp(0, 1), img.dtype)


def adjust_sharpness(img: Tensor, sharpness_factor: float) -> Tensor:
    _check_factor("sharpness_factor", sharpness_factor)
    _check_channels("adjust_sharpness", img)
    if min(img.shape[-2:]) <= 2:
        return img

    def smooth(batch: Tensor) -> Tensor:
        kernel = weft.ones(3, 3, dtype=batch.dtype)
        kernel[1, 1] = 5.0
        kernel = (kernel / kernel.sum()).expand(batch.shape[1], 1, 3, 3)
        return nnf.conv2d(batch, kernel, groups=batch.shape[1])

    soft = img.clone()
    soft[..., 1:-1, 1:-1] = _in_floats(img, smooth)
    return _mixed(img, soft, sharpness_factor)


def invert(img: Tensor) -> Tensor:
    _check_channels("invert", img)
    return largest(img.dtype) - img


def posterize(img: Tensor, bits: int) -> Tensor:
    _check_bytes("posterize", img)
    return img & (256 - 2 ** (8 - bits))


def solarize(img: Tensor, threshold: float) -> Tensor:
    _check_channels("solarize", img)
    if threshold > largest(img.dtype):
        raise TypeError(
            f"[solarize] expected a threshold of at most {largest(img.dtype)}, got {threshold}: "
            "Threshold should be less than bound of img."
        )
    return weft.where(img >= threshold, invert(img), img)


def autocontrast(img: Tensor) -> Tensor:
    _check_channels("autocontrast", img)
    bound = largest(img.dtype)
    dtype = img.dtype if img.is_floating_point() else weft.float32
    low, high = (f((-2, -1), keepdim=True).to(dtype) for f in (img.amin, img.amax))
    scale = bound / (high - low)
    flat = ~scale.isfinite()
    low, scale = low.masked_fill(flat, 0), scale.masked_fill(flat, 1)
    return ((img - low) * scale).clamp(0, bound).to(img.dtype)


def _check_bytes(who: str, img: Tensor) -> None:
    _check_channels(who, img)
    if img.dtype != weft.uint8:
        raise TypeError(
            f"[{who}] expected uint8, got {img.dtype}: "
            f"Only torch.uint8 image tensors are supported, but found {img.dtype}"
        )


def equalize(img: Tensor) -> Tensor:
    """Each channel through the table that makes its histogram flat, as Pillow rounds it."""
    _check_bytes("equalize", img)

    def channel(values: Tensor) -> Tensor:
        counts = weft.bincount(values.reshape(-1).long(), minlength=256)
        step = int(counts[counts != 0][:-1].sum()) // 255
        if step == 0:
            return values
        below = counts.cumsum(0) - counts
        table = weft.div(below + step // 2, step, rounding_mode="floor")
        return table.clamp(0, 255)[values.long()].to(weft.uint8)

    flat = img.reshape(-1, *img.shape[-2:])
    return weft.stack([channel(c) for c in flat]).reshape(img.shape)


def normalize(tensor: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """(tensor - mean) / std, by channel of a float tensor [..., C, H, W].

    Raises: TypeError for integers, ValueError for other shapes and where std is 0.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.normalize(weft.tensor([[[1.0, 3.0]]]), [2.0], [1.0])
    tensor([[[-1.,  1.]]])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"[normalize] expected a tensor, got {type(tensor).__name__}: img should be Tensor "
            f"Image. Got {type(tensor)}. Hint: ToTensor() before it"
        )
    if not tensor.is_floating_point():
        raise TypeError(
            f"[normalize] expected a float tensor, got {tensor.dtype}: "
            f"Input tensor should be a float tensor. Got {tensor.dtype}. Hint: ToTensor() or "
            "ConvertImageDtype(weft.float) before it"
        )
    if tensor.ndim < 3:
        raise ValueError(
            "[normalize] Expected tensor to be a tensor image of size (..., C, H, W). "
            f"Got tensor.size() = {tensor.size()}"
        )
    mean, std = (weft.as_tensor(v, dtype=tensor.dtype) for v in (mean, std))
    if (std == 0).any():
        raise ValueError(
            f"[normalize] expected std other than 0, got {std.tolist()}: std evaluated to zero "
            f"after conversion to {tensor.dtype}, leading to division by zero."
        )
    mean, std = (v.view(-1, 1, 1) if v.ndim == 1 else v for v in (mean, std))
    out = tensor if inplace else tensor.clone()
    return out.sub_(mean).div_(std)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """The tensor with `v` in the part at row `i` and column `j`, of `h` rows and `w` columns.

    Raises: TypeError for what is no tensor.

    [..., C, H, W], with `v` of [C, h, w] or what broadcasts to it.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.erase(weft.ones(1, 1, 3), 0, 0, 1, 2, weft.tensor(0.0))
    tensor([[[0., 0., 1.]]])
    """
    if not isinstance(img, Tensor):
        raise TypeError(
            f"[erase] expected a tensor, got {type(img).__name__}: "
            f"img should be Tensor Image. Got {type(img)}"
        )
    out = img if inplace else img.clone()
    out[..., i : i + h, j : j + w] = v
    return out
