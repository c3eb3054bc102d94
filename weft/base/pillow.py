"""Pillow, which PIL images and files of images need: the extra `weft[vision]`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__all__ = ["is_pil", "pillow"]


def pillow(name: str = "Image") -> ModuleType:
    """The module PIL.Image, or another of PIL's.

    Raises: ModuleNotFoundError where Pillow is not installed.
    """
    import importlib

    try:
        return importlib.import_module(f"PIL.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "PIL":
            raise
        raise ModuleNotFoundError(
            "[pillow] expected the package pillow, which is not installed. "
            "Hint: pip install 'weft[vision]', or use tensors",
            name="PIL",
        ) from None


def is_pil(img: Any) -> bool:
    """Whether it is an image of Pillow's, which is not imported for this."""
    image = sys.modules.get("PIL.Image")
    return image is not None and isinstance(img, image.Image)
