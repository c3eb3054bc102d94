"""Tensors that say that they are images, for transforms of several things at once."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor

__all__ = ["Image", "TVTensor", "wrap"]


class TVTensor(Tensor):
    """A tensor with a meaning; what ops make of it is a plain tensor."""

    __torch_function__ = _C._disabled_torch_function_impl  # type: ignore[assignment]


class Image(TVTensor):
    """A tensor [..., C, H, W], or what `weft.as_tensor` makes one of, that is an image.

    >>> from weft.vision import tv_tensors
    >>> image = tv_tensors.Image(weft.zeros(3, 2, 2))
    >>> isinstance(image, tv_tensors.Image), isinstance(image + 1, tv_tensors.Image)
    (True, False)
    """

    def __new__(cls, data: Any, *, dtype: weft.dtype | None = None) -> Image:
        from weft.base.pillow import is_pil
        from weft.vision.transforms.functional import pil_to_tensor

        found = weft.as_tensor(pil_to_tensor(data) if is_pil(data) else data, dtype=dtype)
        if found.ndim < 2:
            raise ValueError(
                f"[Image] expected a tensor of two or more dimensions, got {found.ndim}"
            )
        whole = found if found.ndim > 2 else found.unsqueeze(0)
        image: Image = whole.as_subclass(cls)
        return image


def wrap(wrappee: Tensor, *, like: Any) -> Tensor:
    """`wrappee` as what `like` is."""
    if not isinstance(like, TVTensor) or not isinstance(wrappee, Tensor):
        return wrappee
    out: Tensor = wrappee.as_subclass(type(like))
    return out
