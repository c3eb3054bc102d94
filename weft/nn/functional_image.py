"""Images: padding, patches, other sizes, sampling at given places.

Images are `(batch, channels, *sizes)` with one to three sizes.

>>> import weft
>>> import weft.nn.functional as F
>>> F.interpolate(weft.tensor([[[1.0, 2.0]]]), scale_factor=2).tolist()
[[[1.0, 1.0, 2.0, 2.0]]]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import _C, Tensor
from weft.base.warn import warn
from weft.nn.functional_pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

__all__ = [
    "pad", "unfold", "fold", "interpolate", "upsample", "upsample_nearest", "upsample_bilinear",
    "grid_sample", "affine_grid",
]  # fmt: skip

Ints = int | Sequence[int]


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Pad from the last dimension on, before and after it.

    Args:
        input: any shape; `(batch, channels, *sizes)` or `(channels, *sizes)` with a mode other than
            'constant'.
        pad: two numbers per padded dimension, the last one first; negative ones cut off.
        mode: 'constant', 'reflect', 'replicate' or 'circular'.
        value: what to pad with in mode 'constant'; None is 0.

    Raises:
        NotImplementedError: a mode or a number of dimensions that does not exist.
        RuntimeError: pads that do not fit, or a value with a mode that takes none.

    >>> weft.nn.functional.pad(weft.ones(2, 2), (1, 0, 0, 1))
    tensor([[0., 1., 1.],
            [0., 1., 1.],
            [0., 0., 0.]])
    """
    return _C.ops.pad(input, pad, mode, value)


def unfold(
    input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """Return the patches of images `(n, c, h, w)` as columns `(n, c * kernel, places)`.

    Raises:
        RuntimeError: sizes that do not fit.

    >>> weft.nn.functional.unfold(weft.arange(4.0).view(1, 1, 2, 2), 2).flatten()
    tensor([0., 1., 2., 3.])
    """
    return _C.ops.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> Tensor:
    """Add columns `(n, c * kernel, places)` into images of `output_size`: unfold's adjoint.

    Raises:
        RuntimeError: sizes that do not fit.

    >>> weft.nn.functional.fold(weft.ones(1, 4, 1), (2, 2), 2)
    tensor([[[[1., 1.],
              [1., 1.]]]])
    """
    return _C.ops.col2im(input, output_size, kernel_size, dilation, padding, stride)


# --- other sizes --------------------------------------------------------------------------------


def _scales(dims: int, scale_factor: Any) -> list[float]:
    if isinstance(scale_factor, Tensor):
        raise TypeError(
            "[interpolate] expected a float or floats as scale_factor, got a tensor of shape "
            f"{tuple(scale_factor.shape)}"
        )
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != dims:
            raise ValueError(
                f"[interpolate] expected a scale_factor of {dims} numbers, for the input's spatial "
                f"dimensions, got {scale_factor}"
            )
    factors = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * dims
    if any(isinstance(s, (str, bytes)) for s in factors):
        raise TypeError(
            f"[interpolate] expected a float or floats as scale_factor, got {scale_factor!r}"
        )
    return [float(s) for s in factors]


def _target(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float] | None]:
    """The spatial sizes of the result, and the scales that the kernel shall use."""
    dims = input.dim() - 2
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "only one of size or scale_factor should be defined"
            if size is not None
            else "either size or scale_factor should be defined"
        )
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        if not isinstance(size, (list, tuple)):
            return [size] * dims, None
        if len(size) != dims:
            raise ValueError(
                f"[interpolate] expected a size of {dims} numbers, for the input's spatial "
                f"dimensions, got {tuple(size)}"
            )
        return list(size), None
    scales = _scales(dims, scale_factor)
    sizes = [math.floor(float(n) * s) for n, s in zip(input.shape[2:], scales, strict=True)]
    return sizes, None if recompute else scales


_NEAREST = ("nearest", "nearest-exact")
_LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}
_AREA = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resample images to another size.

    Args:
        input: `(batch, channels, *sizes)`, floating, or uint8 but for 'linear', 'trilinear' and
            'area': then it is rounded after each size, the last one first, as Pillow does it.
        size: the new sizes; or
        scale_factor: new sizes over old ones.
        mode: 'nearest', 'nearest-exact', 'linear' (one size), 'bilinear' or 'bicubic' (two),
            'trilinear' (three) or 'area'.
        align_corners: whether the centres of the corner pixels stay where they are, for the linear
            and cubic modes; else the corners of the pixels do.
        recompute_scale_factor: take the scale from the sizes, not from `scale_factor`.
        antialias: smooth when making smaller, for 'bilinear' and 'bicubic'.

    Raises:
        ValueError: arguments that contradict each other.
        NotImplementedError: a mode that the number of sizes does not allow.

    >>> weft.nn.functional.interpolate(weft.tensor([[[1., 3.]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    if mode in (*_NEAREST, "area"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the "
                "interpolating modes: linear | bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    sizes, scales = _target(input, size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
            "tensor as input"
        )
    if mode == "area" and input.dim() in _AREA:
        return _AREA[input.dim()](input, sizes)
    steps: list[float | None] = [None] * (3 - len(sizes))
    steps += scales or [None] * len(sizes)
    if input.dtype == weft.uint8:
        return _C.ops._upsample_bytes(input, sizes, mode, bool(align_corners), antialias, *steps)
    return _C.ops._upsample(input, sizes, mode, bool(align_corners), antialias, *steps)


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Resample images: an older name of `interpolate`.

    [n, c, *] gives [n, c, *size].

    >>> weft.nn.functional.upsample(weft.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Repeat pixels: `interpolate` with mode 'nearest'.

    [n, c, *] gives [n, c, *size].

    >>> weft.nn.functional.upsample_nearest(weft.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Interpolate between pixels: `interpolate` with mode 'bilinear' and aligned corners.

    [n, c, h, w] gives [n, c, *size].

    >>> weft.nn.functional.upsample_bilinear(weft.tensor([[[[1.0, 2.0]]]]), size=(1, 3))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """
    warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead."
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# --- sampling at given places -------------------------------------------------------------------


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return the input's values at the places that the grid names.

    Args:
        input: `(n, c, h, w)` or `(n, c, d, h, w)`.
        grid: `(n, *out, 2)` or `(n, *out, 3)`: x, y and z, from -1 to 1 over the image.
        mode: 'bilinear' (of all dimensions), 'nearest' or 'bicubic' (for two sizes).
        padding_mode: 'zeros', 'border' or 'reflection', for places outside.
        align_corners: whether -1 and 1 are the centres of the corner pixels, or their corners.

    Returns:
        A tensor of `(n, c, *out)`.

    Raises:
        ValueError: a mode that does not exist.
        RuntimeError: shapes that do not fit.

    >>> x = weft.tensor([[[[1., 2.], [3., 4.]]]])
    >>> middle = weft.zeros(1, 1, 1, 2)
    >>> weft.nn.functional.grid_sample(x, middle, align_corners=True)
    tensor([[[[2.5000]]]])
    """
    if align_corners is None:
        warn("Default grid_sample and affine_grid behavior has changed to align_corners=False.")
    return _C.ops._grid_sample(input, grid, mode, padding_mode, bool(align_corners))


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the grid for `grid_sample` that an affine map makes of an image's pixels.

    Args:
        theta: `(n, 2, 3)` or `(n, 3, 4)`.
        size: of the images that grid_sample shall make: `(n, c, h, w)` or `(n, c, d, h, w)`.
        align_corners: as in grid_sample.

    Raises:
        ValueError: shapes that do not fit.

    >>> theta = weft.tensor([[[1., 0, 0], [0, 1, 0]]])
    >>> weft.nn.functional.affine_grid(theta, (1, 1, 2, 2), align_corners=True).flatten(1, 2)
    tensor([[[-1., -1.],
             [ 1., -1.],
             [-1.,  1.],
             [ 1.,  1.]]])
    """
    if align_corners is None:
        warn("Default grid_sample and affine_grid behavior has changed to align_corners=False.")
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(
            f"[affine_grid] expected a size of 4 or 5 numbers, got {size} (affine_grid only "
            "supports 4D and 5D sizes, for 2D and 3D affine transforms)"
        )
    if theta.dim() != 3 or theta.shape[1:] != (dims, dims + 1):
        raise ValueError(
            f"[affine_grid] expected matrices for {dims}D images, got others (Expected a batch of "
            f"{dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {tuple(size)}. Got "
            f"{theta.shape}.)"
        )
    if min(size) <= 0:
        raise ValueError(f"[affine_grid] expected a positive size, got {tuple(size)}")
    if theta.shape[0] != size[0]:
        raise RuntimeError(
            f"[affine_grid] expected a size that begins with {theta.shape[0]}, the matrices of "
            f"theta, got {tuple(size)}"
        )
    sizes = list(size[2:])
    if align_corners and min(sizes) == 1:
        warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the "
            "documentation of affine_grid for details."
        )
    columns = []
    for k in reversed(range(dims)):
        n = sizes[k]
        line = (
            weft.linspace(-1, 1, n, dtype=theta.dtype, device=theta.device)
            if n > 1
            else theta.new_zeros(1)
        )
        if not align_corners:
            line = line * (n - 1) / n
        shape = [1] * dims
        shape[k] = n
        columns.append(line.reshape(shape).expand(sizes))
    columns.append(weft.ones(sizes, dtype=theta.dtype, device=theta.device))
    base = weft.stack(columns, -1).reshape(1, -1, dims + 1)
    return _C.ops._relaid(base @ theta.transpose(1, 2), (theta.shape[0], *sizes, dims))
