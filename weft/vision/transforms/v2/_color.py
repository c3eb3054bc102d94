"""Colours at random: channels in another order, and the distortions of SSD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft.vision.transforms.base import p_of, uniform
from weft.vision.transforms.v2 import functional
from weft.vision.transforms.v2._utils import query_chw
from weft.vision.transforms.v2.transform import Transform

__all__ = ["RandomChannelPermutation", "RandomPhotometricDistort"]


class RandomChannelPermutation(Transform):
    """The channels of all images in one random order.

    >>> from weft.vision.transforms import v2
    >>> sorted(v2.RandomChannelPermutation()(weft.arange(3.).view(3, 1, 1)).flatten().tolist())
    [0.0, 1.0, 2.0]
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"permutation": weft.randperm(query_chw(flat_inputs)[0])}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return functional.permute_channels(inpt, params["permutation"])


class RandomPhotometricDistort(Transform):
    """Colours and the order of channels distorted, each at random (Liu et al. 2015).

    Contrast comes before saturation and hue, or after them.

    Args:
        brightness, contrast, saturation, hue: bounds of the factors, as of `ColorJitter`.
        p: the probability of each.

    >>> from weft.vision.transforms import v2
    >>> v2.RandomPhotometricDistort()(weft.rand(3, 4, 6)).shape
    torch.Size([3, 4, 6])
    """

    _FACTORS = ("brightness", "contrast", "saturation", "hue")

    def __init__(
        self,
        brightness: Sequence[float] = (0.875, 1.125),
        contrast: Sequence[float] = (0.5, 1.5),
        saturation: Sequence[float] = (0.5, 1.5),
        hue: Sequence[float] = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        self.brightness, self.contrast = brightness, contrast
        self.saturation, self.hue = saturation, hue
        self.p = p_of("RandomPhotometricDistort", p)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        channels = query_chw(flat_inputs)[0]
        params: dict[str, Any] = {}
        for name in self._FACTORS:
            low, high = getattr(self, name)
            params[f"{name}_factor"] = uniform(low, high) if weft.rand(1) < self.p else None
        params["contrast_before"] = bool(weft.rand(()) < 0.5)
        permuted = bool(weft.rand(1) < self.p)
        params["channel_permutation"] = weft.randperm(channels) if permuted else None
        return params

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        order = list(self._FACTORS)
        if not params["contrast_before"]:
            order.append(order.pop(1))
        for name in order:
            factor = params[f"{name}_factor"]
            if factor is not None:
                inpt = getattr(functional, f"adjust_{name}")(inpt, factor)
        permutation = params["channel_permutation"]
        return inpt if permutation is None else functional.permute_channels(inpt, permutation)
