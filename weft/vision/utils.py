"""Many images as one, in a tensor or in a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.nn import functional as nnf

__all__ = ["make_grid", "save_image"]


def _batch(tensor: Any) -> Tensor:
    """Images as [N, C, H, W], grey ones with three channels."""
    if isinstance(tensor, Sequence) and all(isinstance(t, Tensor) for t in tensor):
        tensor = weft.stack(list(tensor))
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"[make_grid] expected a tensor or a list of tensors, got {type(tensor).__name__}: "
            f"tensor or list of tensors expected, got {type(tensor)}"
        )
    if not 2 <= tensor.ndim <= 4:
        raise ValueError(
            f"[make_grid] expected [N, C, H, W], [C, H, W] or [H, W], got {list(tensor.shape)}"
        )
    whole = tensor.reshape((1,) * (4 - tensor.ndim) + tuple(tensor.shape))
    return weft.cat([whole] * 3, 1) if whole.shape[1] == 1 else whole


def _stretched(images: Tensor, value_range: tuple[float, float] | None) -> Tensor:
    """The images with their values, or those of the range, as 0 to 1."""
    low, high = value_range or (float(images.min()), float(images.max()))
    return (images.clamp(low, high) - low) / max(high - low, 1e-5)


@weft.no_grad()
def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Images side by side, as one.

    Args:
        tensor: [N, C, H, W], or a list of images of one shape. One image stays as it is.
        nrow: images in a row.
        padding: pixels of `pad_value` around each.
        normalize: whether values become 0 to 1, by `value_range` or by the least and the largest,
            of all images or with `scale_each` of each.

    Returns: [C, H, W], three channels for grey images.

    Raises: TypeError for what is no tensor.

    >>> from weft.vision import utils
    >>> utils.make_grid(weft.ones(5, 1, 4, 4), nrow=3).shape
    torch.Size([3, 14, 20])
    """
    if value_range is not None and not isinstance(value_range, tuple):
        raise TypeError(
            f"[make_grid] expected a tuple of two numbers, got {value_range!r}: value_range has to "
            "be a tuple (min, max) if specified. min and max are numbers"
        )
    images = _batch(tensor)
    if normalize and scale_each:
        images = weft.stack([_stretched(image, value_range) for image in images])
    elif normalize:
        images = _stretched(images, value_range)
    n, channels = images.shape[:2]
    if n == 1:
        return images[0]
    across = min(nrow, n)
    down = -(-n // across)
    tiles = nnf.pad(images, [padding, 0, padding, 0], value=pad_value)
    tiles = nnf.pad(tiles, [0, 0] * 3 + [0, across * down - n], value=pad_value)
    height, width = tiles.shape[2:]
    grid = tiles.reshape(down, across, channels, height, width).permute(2, 0, 3, 1, 4)
    grid = grid.reshape(channels, down * height, across * width)
    return nnf.pad(grid, [0, padding, 0, padding], value=pad_value)


@weft.no_grad()
def save_image(
    tensor: Any, fp: str | os.PathLike[str] | Any, format: str | None = None, **kwargs: Any
) -> None:
    """Writes images of 0 to 1 to a file, as `make_grid` arranges them.

    Args:
        fp: a path or a file.
        format: Pillow's name of it, where the path does not say.
        kwargs: of `make_grid`.

    Raises: ModuleNotFoundError without Pillow.

    >>> from weft import vision
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "file.png")
    >>> vision.utils.save_image(weft.zeros(3, 2, 4), path)
    >>> vision.io.read_image(path).shape
    torch.Size([3, 2, 4])
    """
    from weft.vision.transforms.functional import to_pil_image

    grid = make_grid(tensor, **kwargs).mul(255).add(0.5).clamp(0, 255).to(weft.uint8)
    to_pil_image(grid).save(fp, format=format)
