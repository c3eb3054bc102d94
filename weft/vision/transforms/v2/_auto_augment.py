"""Chains of random changes of the one image among the inputs."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.vision.transforms import _functional_tensor, autoaugment
from weft.vision.transforms import functional as TF
from weft.vision.transforms.v2.transform import OfImages

__all__ = ["AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide"]


class _OfOneImage(OfImages):
    """A chain of changes as v2 draws it: signs are floats, thresholds are parts of white."""

    _white = 1.0

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        images = len(self._places(flat_inputs))
        if images != 1:
            said = (
                "Auto augment transformations are only properly defined for a single image or "
                f"video, but found {images}."
            )
            raise TypeError(
                f"[{type(self).__name__}] expected one image, got {images}: "
                f"{said if images else 'Found no image in the sample.'}"
            )

    def _threshold(self, img: Any, level: float) -> float:
        white = _functional_tensor.largest(img.dtype) if isinstance(img, Tensor) else 255.0
        return white * level

    def _is_negative(self) -> bool:
        return bool(weft.rand(()) <= 0.5)


class AutoAugment(_OfOneImage, autoaugment.AutoAugment):
    """One of 25 pairs of changes, each with its probability (Cubuk et al. 2018).

    >>> from weft.vision.transforms import v2
    >>> image, label = v2.AutoAugment()(weft.zeros(3, 32, 32, dtype=weft.uint8), 7)
    >>> image.shape, label
    (torch.Size([3, 32, 32]), 7)
    """

    def draw(self, img: Any) -> Any:
        size, steps = TF.get_dimensions(img)[1:], []
        for name, p, level in self.policies[int(weft.randint(len(self.policies), ()))]:
            if weft.rand(()) <= p:
                steps.append(self._step(name, lambda k=level: k, 10, size))  # type: ignore[misc]
        return steps


class RandAugment(_OfOneImage, autoaugment.RandAugment):
    """Changes drawn from all, of one magnitude (Cubuk et al. 2019).

    Raises: ValueError where `num_ops` is no count.

    >>> from weft.vision.transforms import v2
    >>> v2.RandAugment()(weft.zeros(3, 32, 32, dtype=weft.uint8)).shape
    torch.Size([3, 32, 32])
    """

    def __init__(self, num_ops: int = 2, *args: Any, **kwargs: Any) -> None:
        if not isinstance(num_ops, int) or num_ops < 0:
            raise ValueError(
                f"[RandAugment] expected num_ops of at least 0, got {num_ops!r}: "
                f"num_ops should be a non-negative integer, but got {num_ops} instead."
            )
        super().__init__(num_ops, *args, **kwargs)


class TrivialAugmentWide(_OfOneImage, autoaugment.TrivialAugmentWide):
    """One change drawn from all, of a random magnitude (Müller and Hutter 2021)."""


class AugMix(_OfOneImage, autoaugment.AugMix):
    """The image mixed with what chains of changes make of it (Hendrycks et al. 2019)."""
