"""Which functions an image is for: those of PIL images, or those of tensors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from weft import Tensor
from weft.base.pillow import is_pil
from weft.vision.transforms import _functional_pil, _functional_tensor


def _of(img: Any) -> ModuleType:
    """The functions for an image of this kind."""
    if isinstance(img, Tensor):
        return _functional_tensor
    if is_pil(img):
        return _functional_pil
    raise TypeError(
        f"[image] expected a tensor or a PIL image, got {type(img).__name__}: "
        f"img should be PIL Image or Tensor. Got {type(img)}"
    )
