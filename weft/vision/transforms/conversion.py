"""PIL images and arrays as tensors, and back."""

from __future__ import annotations

import sys
from typing import Any

import weft
from weft import Tensor
from weft.base.pillow import is_pil, pillow
from weft.vision.transforms import _functional_tensor

__all__ = ["convert_image_dtype", "pil_to_tensor", "to_pil_image", "to_tensor"]

_SHORT = "I;16" if sys.byteorder == "little" else "I;16B"
#: Modes of Pillow by channels; the first is what uint8 becomes.
_MODES = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}


def _array(pic: Any) -> Any:
    """The values of a PIL image or of an array, [H, W, C]."""
    import numpy as np

    array = np.array(pic)
    if array.ndim not in (2, 3):
        raise ValueError(
            f"[to_tensor] expected an array [H, W] or [H, W, C], got shape {list(array.shape)}: "
            f"pic should be 2/3 dimensional. Got {array.ndim} dimensions."
        )
    return array[:, :, None] if array.ndim == 2 else array


def to_tensor(pic: Any) -> Tensor:
    """A PIL image or an array [H, W, C] as a tensor [C, H, W].

    What has bytes becomes floats of 0 to 1 in the default dtype; other values stay as they are.

    Raises: TypeError for what is neither.

    >>> import numpy
    >>> from weft.vision.transforms import functional as TF
    >>> TF.to_tensor(numpy.full((1, 2, 3), 51, numpy.uint8))[0]
    tensor([[0.2000, 0.2000]])
    """
    import numpy as np

    if not (is_pil(pic) or isinstance(pic, np.ndarray)):
        raise TypeError(
            f"[to_tensor] expected a PIL image or an array, got {type(pic).__name__}: "
            f"pic should be PIL Image or ndarray. Got {type(pic)}"
        )
    array = _array(pic)
    if is_pil(pic) and pic.mode == "1":
        array = array.astype(np.uint8) * 255
    if is_pil(pic) and pic.mode == _SHORT:
        array = array.astype(np.int16)
    out = weft.from_numpy(array.transpose(2, 0, 1)).contiguous()
    return out.to(weft.get_default_dtype()).div(255) if out.dtype == weft.uint8 else out


def pil_to_tensor(pic: Any) -> Tensor:
    """A PIL image as a tensor [C, H, W] of the image's own values.

    Raises: TypeError for anything else.

    >>> from weft.vision.transforms import functional as TF
    >>> from PIL import Image
    >>> TF.pil_to_tensor(Image.new("RGB", (2, 3))).shape
    torch.Size([3, 3, 2])
    """
    if not is_pil(pic):
        raise TypeError(
            f"[pil_to_tensor] expected a PIL image, got {type(pic).__name__}: "
            f"pic should be PIL Image. Got {type(pic)}"
        )
    return weft.from_numpy(_array(pic)).permute(2, 0, 1)


def convert_image_dtype(image: Tensor, dtype: weft.dtype = weft.float32) -> Tensor:
    """A tensor in another dtype, white as white: 255 of uint8 is 1 of a float.

    Raises: TypeError for what is no tensor, RuntimeError where floats cannot say all integers.

    The shape stays.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.convert_image_dtype(weft.full((1, 1, 1), 255, dtype=weft.uint8))
    tensor([[[1.]]])
    """
    if not isinstance(image, Tensor):
        raise TypeError(
            f"[convert_image_dtype] expected a tensor, got {type(image).__name__}: "
            "Input img should be Tensor Image"
        )
    return _functional_tensor.convert_image_dtype(image, dtype)


def _mode(array: Any, mode: str | None) -> str:
    """The mode of Pillow for an array [H, W, C], or the one that is asked for."""
    channels, kind = array.shape[2], str(array.dtype)
    grey = {"uint8": ("L",), "int16": (_SHORT,), "int32": ("I",), "float32": ("F",)}
    known = grey.get(kind, ()) if channels == 1 else _MODES[channels]
    if mode is not None and mode not in known:
        raise ValueError(
            f"[to_pil_image] expected mode {' or '.join(known) or None} for {channels} channels of "
            f"{kind}, got {mode}: Incorrect mode ({mode}) supplied for input type {kind}"
        )
    if mode is None and known and (channels == 1 or kind == "uint8"):
        return known[0]
    if mode is None:
        raise TypeError(
            f"[to_pil_image] expected uint8 or floats, got {kind}: "
            f"Input type {kind} is not supported"
        )
    return mode


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor [C, H, W] or [H, W], or an array [H, W, C], as a PIL image.

    Floats are taken as 0 to 1.

    Args:
        mode: Pillow's mode, where the channels leave a choice.

    Raises: TypeError and ValueError for what is no image.

    >>> from weft.vision.transforms import functional as TF
    >>> TF.to_pil_image(weft.ones(3, 2, 4)).size
    (4, 2)
    """
    import numpy as np

    if isinstance(pic, Tensor):
        moved = pic.permute(1, 2, 0) if pic.ndim == 3 else pic
        array = moved.numpy(force=True)
    elif isinstance(pic, np.ndarray):
        array = pic
    else:
        raise TypeError(
            f"[to_pil_image] expected a tensor or an array, got {type(pic).__name__}: "
            f"pic should be Tensor or ndarray. Got {type(pic)}."
        )
    array = array[:, :, None] if array.ndim == 2 else array
    if array.ndim != 3:
        raise ValueError(
            f"[to_pil_image] expected [H, W] or [C, H, W], got shape {list(pic.shape)}: "
            f"pic should be 2/3 dimensional. Got {array.ndim} dimensions."
        )
    if not 1 <= array.shape[2] <= 4:
        raise ValueError(
            f"[to_pil_image] expected 1 to 4 channels, got {array.shape[2]}: "
            f"pic should not have > 4 channels. Got {array.shape[2]} channels."
        )
    if array.dtype.kind == "f" and mode != "F":
        array = (array * 255).astype(np.uint8)
    mode = _mode(array, mode)
    height, width, _ = array.shape
    return pillow().frombytes(mode, (width, height), np.ascontiguousarray(array).tobytes())
