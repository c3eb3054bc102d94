"""Files of images as tensors [C, H, W] of bytes, and back, by Pillow."""

from __future__ import annotations

import io
import os
from enum import Enum
from typing import Any

import weft
from weft import Tensor
from weft.base.pillow import pillow
from weft.vision.transforms.functional import pil_to_tensor, to_pil_image

__all__ = [
    "ImageReadMode", "decode_image", "decode_jpeg", "decode_png", "encode_jpeg", "encode_png",
    "read_file", "read_image", "write_file", "write_jpeg", "write_png",
]  # fmt: skip

_Path = str | os.PathLike[str]


class ImageReadMode(Enum):
    """The channels of what is read: those of the file, or others.

    >>> from weft.vision import io
    >>> io.ImageReadMode.GRAY.name
    'GRAY'
    """

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


_MODES = {"GRAY": "L", "GRAY_ALPHA": "LA", "RGB": "RGB", "RGB_ALPHA": "RGBA", "RGBA": "RGBA"}


def _read(file: Any, mode: Any, apply_exif_orientation: bool, *formats: str) -> Tensor:
    name = mode.name if isinstance(mode, ImageReadMode) else str(mode).upper()
    if name not in _MODES and name != "UNCHANGED":
        raise ValueError(
            f"[decode_image] expected a mode of {', '.join(ImageReadMode.__members__)}, got "
            f"{mode!r}"
        )
    try:
        image = pillow().open(file, formats=formats or None)
        if apply_exif_orientation:
            image = pillow("ImageOps").exif_transpose(image)
        palette = image.mode in ("P", "PA", "1")
        kept = "RGBA" if "transparency" in image.info else "RGB" if palette else image.mode
        out = pil_to_tensor(image.convert(_MODES.get(name, kept)))
    except pillow().UnidentifiedImageError as error:
        raise RuntimeError(
            f"[decode_image] expected an image of {', '.join(formats) or 'a known format'}, got "
            f"other bytes: {error}"
        ) from error
    return out.contiguous()


def _bytes(who: str, input: Any) -> io.BytesIO:
    if not (isinstance(input, Tensor) and input.dtype == weft.uint8 and input.ndim == 1):
        shown = f"{input.dtype} {list(input.shape)}" if isinstance(input, Tensor) else repr(input)
        raise RuntimeError(
            f"[{who}] expected the bytes of a file, a 1-d uint8 tensor, got {shown}: "
            "Expected a non empty 1-dimensional tensor"
        )
    return io.BytesIO(input.numpy().tobytes())


def read_file(path: _Path) -> Tensor:
    """The bytes of a file, uint8 [n].

    >>> from weft.vision import io
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "file.png")
    >>> io.write_file(path, weft.arange(3).to(weft.uint8))
    >>> io.read_file(path)
    tensor([0, 1, 2], dtype=torch.uint8)
    """
    with open(path, "rb") as file:
        return weft.frombuffer(bytearray(file.read()), dtype=weft.uint8)


def write_file(filename: _Path, data: Tensor) -> None:
    """Writes bytes, uint8 [n], to a file.

    >>> from weft.vision import io
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "file.png")
    >>> io.write_file(path, weft.arange(3).to(weft.uint8))
    >>> os.path.getsize(path)
    3
    """
    content = _bytes("write_file", data).getvalue()
    with open(filename, "wb") as file:
        file.write(content)


def read_image(
    path: _Path, mode: Any = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """The image of a file, uint8 [C, H, W].

    Args:
        mode: the channels to make of it, an `ImageReadMode` or the name of one.
        apply_exif_orientation: whether it is turned as its camera says.

    Raises: RuntimeError for what is no image, ModuleNotFoundError without Pillow.

    >>> from weft.vision import io
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "file.png")
    >>> io.write_png(weft.zeros(3, 2, 4, dtype=weft.uint8), path)
    >>> io.read_image(path).shape
    torch.Size([3, 2, 4])
    """
    return _read(io.BytesIO(read_file(path).numpy().tobytes()), mode, apply_exif_orientation)


def decode_image(
    input: Any, mode: Any = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """The image in the bytes of a file, uint8 [n], or at a path.

    >>> from weft.vision import io
    >>> data = io.encode_png(weft.full((3, 2, 4), 7, dtype=weft.uint8))
    >>> io.decode_image(data).shape, io.decode_image(data, "GRAY").shape
    (torch.Size([3, 2, 4]), torch.Size([1, 2, 4]))
    """
    if isinstance(input, (str, os.PathLike)):
        return read_image(input, mode, apply_exif_orientation)
    return _read(_bytes("decode_image", input), mode, apply_exif_orientation)


def decode_png(
    input: Tensor, mode: Any = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """The image in the bytes of a PNG file.

    Bytes uint8 [n] give an image uint8 [C, H, W].

    >>> from weft.vision import io
    >>> io.decode_png(io.encode_png(weft.zeros(3, 2, 4, dtype=weft.uint8))).shape
    torch.Size([3, 2, 4])
    """
    return _read(_bytes("decode_png", input), mode, apply_exif_orientation, "PNG")


def decode_jpeg(
    input: Any, mode: Any = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Any:
    """The image in the bytes of a JPEG file, or those of a list.

    >>> from weft.vision import io
    >>> io.decode_jpeg(io.encode_jpeg(weft.zeros(3, 2, 4, dtype=weft.uint8))).shape
    torch.Size([3, 2, 4])
    """
    if isinstance(input, list):
        return [decode_jpeg(one, mode, apply_exif_orientation) for one in input]
    return _read(_bytes("decode_jpeg", input), mode, apply_exif_orientation, "JPEG")


def _encoded(who: str, input: Any, format: str, **how: int) -> Tensor:
    right = isinstance(input, Tensor) and input.dtype == weft.uint8 and input.ndim == 3
    if not right or input.shape[0] not in (1, 3):
        shown = f"{input.dtype} {list(input.shape)}" if isinstance(input, Tensor) else repr(input)
        raise RuntimeError(
            f"[{who}] expected uint8 [1 or 3, H, W], got {shown}: "
            "Input tensor dtype should be uint8, with 1 or 3 channels"
        )
    file = io.BytesIO()
    to_pil_image(input).save(file, format, **how)
    return weft.frombuffer(bytearray(file.getvalue()), dtype=weft.uint8)


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """The bytes of a PNG file of an image, uint8 [1 or 3, H, W].

    >>> from weft.vision import io
    >>> io.encode_png(weft.zeros(3, 2, 4, dtype=weft.uint8)).dtype
    torch.uint8
    """
    if not 0 <= compression_level <= 9:
        raise RuntimeError(
            f"[encode_png] expected a level of 0 to 9, got {compression_level}: "
            "Compression level should be between 0 and 9"
        )
    return _encoded("encode_png", input, "PNG", compress_level=compression_level)


def encode_jpeg(input: Any, quality: int = 75) -> Any:
    """The bytes of a JPEG file of an image, uint8 [1 or 3, H, W], or those of a list.

    >>> from weft.vision import io
    >>> io.encode_jpeg(weft.zeros(3, 2, 4, dtype=weft.uint8)).dtype
    torch.uint8
    """
    if not 1 <= quality <= 100:
        raise ValueError(
            f"[encode_jpeg] expected a quality of 1 to 100, got {quality}: "
            "Image quality should be a positive number between 1 and 100"
        )
    if isinstance(input, list):
        return [encode_jpeg(one, quality) for one in input]
    return _encoded("encode_jpeg", input, "JPEG", quality=quality)


def write_png(input: Tensor, filename: _Path, compression_level: int = 6) -> None:
    """Writes an image, uint8 [1 or 3, H, W], to a PNG file.

    >>> from weft.vision import io
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "file.png")
    >>> io.write_png(weft.zeros(3, 2, 4, dtype=weft.uint8), path)
    >>> io.read_image(path).shape
    torch.Size([3, 2, 4])
    """
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input: Tensor, filename: _Path, quality: int = 75) -> None:
    """Writes an image, uint8 [1 or 3, H, W], to a JPEG file.

    >>> from weft.vision import io
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "file.jpg")
    >>> io.write_jpeg(weft.zeros(3, 2, 4, dtype=weft.uint8), path)
    >>> io.read_image(path).shape
    torch.Size([3, 2, 4])
    """
    write_file(filename, encode_jpeg(input, quality))
