"""Chains of random changes that were searched for, or need no search.

Each transform draws names of changes and how far they go, then does them one after the other.
Tensors are uint8 [..., 1 or 3, H, W]; PIL images grey or in colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from types import ModuleType
from typing import Any

import weft
from weft import _C, Tensor
from weft.vision.transforms import functional as TF
from weft.vision.transforms.arguments import as_mode
from weft.vision.transforms.base import Transform
from weft.vision.transforms.policies import POLICIES

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"]

_NEAREST, _BILINEAR = TF.InterpolationMode.NEAREST, TF.InterpolationMode.BILINEAR
#: The name of a change, and how far it goes.
_Step = tuple[str, float]


class AutoAugmentPolicy(Enum):
    """The data for which changes were searched.

    >>> from weft.vision import transforms as T
    >>> T.AutoAugmentPolicy("cifar10")
    <AutoAugmentPolicy.CIFAR10: 'cifar10'>
    """

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


def _moved(f: ModuleType, img: Any, interpolation: Any, fill: Any, moved: Sequence[int]) -> Any:
    return f.affine(img, 0.0, list(moved), 1.0, [0.0, 0.0], interpolation, fill)


def _sheared(
    f: ModuleType, img: Any, interpolation: Any, fill: Any, slopes: Sequence[float]
) -> Any:
    shear = [math.degrees(math.atan(slope)) for slope in slopes]
    return f.affine(img, 0.0, [0, 0], 1.0, shear, interpolation, fill, center=[0, 0])


#: Changes of an image, by functions f and a magnitude x, with an interpolation and a fill value.
_CHANGES: dict[str, Callable[[ModuleType, Any, float, Any, Any], Any]] = {
    "Identity": lambda f, img, x, mode, fill: img,
    "ShearX": lambda f, img, x, mode, fill: _sheared(f, img, mode, fill, (x, 0.0)),
    "ShearY": lambda f, img, x, mode, fill: _sheared(f, img, mode, fill, (0.0, x)),
    "TranslateX": lambda f, img, x, mode, fill: _moved(f, img, mode, fill, (int(x), 0)),
    "TranslateY": lambda f, img, x, mode, fill: _moved(f, img, mode, fill, (0, int(x))),
    "Rotate": lambda f, img, x, mode, fill: f.rotate(img, x, mode, fill=fill),
    "Brightness": lambda f, img, x, mode, fill: f.adjust_brightness(img, 1.0 + x),
    "Color": lambda f, img, x, mode, fill: f.adjust_saturation(img, 1.0 + x),
    "Contrast": lambda f, img, x, mode, fill: f.adjust_contrast(img, 1.0 + x),
    "Sharpness": lambda f, img, x, mode, fill: f.adjust_sharpness(img, 1.0 + x),
    "Posterize": lambda f, img, x, mode, fill: f.posterize(img, int(x)),
    "Solarize": lambda f, img, x, mode, fill: f.solarize(img, x),
    "AutoContrast": lambda f, img, x, mode, fill: f.autocontrast(img),
    "Equalize": lambda f, img, x, mode, fill: f.equalize(img),
    "Invert": lambda f, img, x, mode, fill: f.invert(img),
}
#: Those that have no magnitude, and those whose magnitude has a sign.
_PLAIN = ("Identity", "AutoContrast", "Equalize", "Invert")
_COLOURS = ("Brightness", "Color", "Contrast", "Sharpness")
_PLACES = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
_SIGNED = (*_PLACES, *_COLOURS)
_ALL = ("Identity", *_SIGNED, "Posterize", "Solarize", "AutoContrast", "Equalize")


class Augment(Transform):
    """What draws changes: which there are, and how far they go.

    A magnitude is one of `bins` levels, evenly from none to the most.
    """

    #: The most of ShearX and ShearY, of Rotate in degrees, of the factors of colours less 1.
    _shear, _turn, _colour = 0.3, 30.0, 0.9
    #: The bits that Posterize leaves at the first level, and how many fewer at the last.
    _bits = (8, 4)
    #: The threshold of Solarize at the first level, where images are bytes.
    _white = 255.0

    def __init__(self, interpolation: Any, fill: Any) -> None:
        super().__init__()
        self.interpolation, self.fill = as_mode(interpolation), fill

    def _shift(self, length: int) -> float:
        """How far an image of that height or width moves at most."""
        return 150.0 / 331.0 * length

    def _most(self, name: str, size: Sequence[int]) -> float:
        """The last level of a change with a sign."""
        if name.startswith("Shear"):
            return self._shear
        if name.startswith("Translate"):
            return self._shift(size[1 if name == "TranslateX" else 0])
        return self._turn if name == "Rotate" else self._colour

    def _levels(self, name: str, bins: int, size: Sequence[int]) -> Tensor:
        """The magnitudes of a change of an image of [H, W] `size`."""
        if name == "Posterize":
            most, fewer = self._bits
            return most - (weft.arange(bins) / ((bins - 1) / fewer)).round().int()
        if name == "Solarize":
            return weft.linspace(self._white, 0.0, bins)
        return weft.linspace(0.0, self._most(name, size), bins)

    def _threshold(self, img: Any, level: float) -> float:
        """That of Solarize, as the image has its values."""
        return level

    def _is_negative(self) -> bool:
        """Draws a sign."""
        return bool(weft.randint(2, (1,)))

    def _drawn_name(self, names: Sequence[str]) -> str:
        return names[int(weft.randint(len(names), (1,)))]

    def _step(self, name: str, level: Callable[[], int], bins: int, size: Sequence[int]) -> _Step:
        """A change, its level and its sign, drawn in that order where it has them."""
        if name in _PLAIN:
            return name, 0.0
        magnitude = float(self._levels(name, bins, size)[level()])
        return name, -magnitude if name in _SIGNED and self._is_negative() else magnitude

    def _changed(self, img: Any, steps: Sequence[_Step]) -> Any:
        for name, magnitude in steps:
            if name == "Solarize":
                magnitude = self._threshold(img, magnitude)
            img = _CHANGES[name](self.functional, img, magnitude, self.interpolation, self.fill)
        return img

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self._changed(img, drawn)

    def extra_repr(self) -> str:
        names = (*self._shown, "interpolation", "fill")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


class AutoAugment(Augment):
    """One of 25 pairs of changes, each with its probability (Cubuk et al. 2018).

    Args:
        policy: which pairs: those found for ImageNet, CIFAR-10 or SVHN.
        interpolation: nearest or bilinear; for PIL images others too.
        fill: what lies outside of the image: a number or one for each channel; None for 0.

    >>> from weft.vision import transforms as T
    >>> t = T.AutoAugment(T.AutoAugmentPolicy.CIFAR10)
    >>> t(weft.zeros(3, 32, 32, dtype=weft.uint8)).shape
    torch.Size([3, 32, 32])
    >>> t.policies[0]
    (('Invert', 0.1, None), ('Contrast', 0.2, 6))
    """

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Any = _NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        if not isinstance(policy, AutoAugmentPolicy):
            raise ValueError(
                f"[AutoAugment] expected an AutoAugmentPolicy, got {policy!r}: "
                f"The provided policy {policy} is not recognized."
            )
        self.policy, self.policies = policy, POLICIES[policy.value]

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """Which pair of that many; of each change, what its probability is held against, [2], and
        whether its magnitude is positive, [2].
        """
        return int(weft.randint(transform_num, (1,))), weft.rand((2,)), weft.randint(2, (2,))

    def draw(self, img: Any) -> Any:
        size = TF.get_dimensions(img)[1:]
        pair, chances, signs = self.get_params(len(self.policies))
        steps = []
        for (name, p, level), chance, sign in zip(self.policies[pair], chances, signs):
            if chance <= p:
                found = 0.0 if level is None else float(self._levels(name, 10, size)[level])
                steps.append((name, -found if name in _SIGNED and sign == 0 else found))
        return steps

    def extra_repr(self) -> str:
        return f"policy={self.policy}, fill={self.fill}"


class RandAugment(Augment):
    """Changes drawn from all, of one magnitude (Cubuk et al. 2019).

    Args:
        num_ops: how many changes.
        magnitude: which of the levels, from 0.
        num_magnitude_bins: how many levels there are.
        interpolation: nearest or bilinear; for PIL images others too.
        fill: what lies outside of the image: a number or one for each channel; None for 0.

    >>> from weft.vision import transforms as T
    >>> T.RandAugment(num_ops=3)(weft.zeros(8, 3, 32, 32, dtype=weft.uint8)).shape
    torch.Size([8, 3, 32, 32])
    """

    _shown = ("num_ops", "magnitude", "num_magnitude_bins")

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = _NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_ops, self.magnitude = num_ops, magnitude
        self.num_magnitude_bins = num_magnitude_bins

    def draw(self, img: Any) -> Any:
        size, bins = TF.get_dimensions(img)[1:], self.num_magnitude_bins
        names = (self._drawn_name(_ALL) for _ in range(self.num_ops))
        return [self._step(name, lambda: self.magnitude, bins, size) for name in names]


class TrivialAugmentWide(Augment):
    """One change drawn from all, of a random magnitude (Müller and Hutter 2021).

    Args:
        num_magnitude_bins: how many levels there are.
        interpolation: nearest or bilinear; for PIL images others too.
        fill: what lies outside of the image: a number or one for each channel; None for 0.

    >>> from weft.vision import transforms as T
    >>> T.TrivialAugmentWide()(weft.zeros(3, 32, 32, dtype=weft.uint8)).shape
    torch.Size([3, 32, 32])
    """

    _shown = ("num_magnitude_bins",)
    _shear, _turn, _colour, _bits = 0.99, 135.0, 0.99, (8, 6)

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Any = _NEAREST, fill: Any = None
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def _shift(self, length: int) -> float:
        return 32.0

    def draw(self, img: Any) -> Any:
        size, bins = TF.get_dimensions(img)[1:], self.num_magnitude_bins
        name = self._drawn_name(_ALL)
        return [self._step(name, lambda: int(weft.randint(bins, (1,))), bins, size)]


class AugMix(Augment):
    """The image mixed with what chains of changes make of it (Hendrycks et al. 2019).

    Args:
        severity: how many of ten levels are drawn from, 1 to 10.
        mixture_width: how many chains.
        chain_depth: changes of a chain; 1 to 3 at random if not positive.
        alpha: of the Dirichlet distributions of the weights; 1 is even.
        all_ops: whether changes of brightness, colour, contrast and sharpness are among them.
        interpolation: nearest or bilinear.
        fill: what lies outside of the image: a number or one for each channel; None for 0.

    Raises: ValueError for another severity.

    >>> from weft.vision import transforms as T
    >>> T.AugMix(chain_depth=2)(weft.zeros(3, 32, 32, dtype=weft.uint8)).dtype
    torch.uint8
    """

    _shown = ("severity", "mixture_width", "chain_depth", "alpha", "all_ops")
    _bits, _LEVELS = (4, 4), 10
    _NAMES = (*_PLACES, "Posterize", "Solarize", "AutoContrast", "Equalize")

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = _BILINEAR,
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        if not 1 <= severity <= self._LEVELS:
            raise ValueError(
                f"[AugMix] expected a severity of 1 to {self._LEVELS}, got {severity}: "
                f"The severity must be between [1, {self._LEVELS}]. Got {severity} instead."
            )
        self.severity, self.mixture_width, self.chain_depth = severity, mixture_width, chain_depth
        self.alpha, self.all_ops = alpha, all_ops

    def _shift(self, length: int) -> float:
        return length / 3.0

    def _weights(self, rows: int, columns: int) -> Tensor:
        """Positive numbers [rows, columns], those of a row 1 together."""
        return _C.ops._sample_dirichlet(weft.tensor([self.alpha] * columns).expand(rows, -1))

    def _chain(self, size: Sequence[int]) -> list[_Step]:
        names = (*self._NAMES, *_COLOURS) if self.all_ops else self._NAMES
        depth = self.chain_depth if self.chain_depth > 0 else int(weft.randint(1, 4, (1,)))
        drawn = (self._drawn_name(names) for _ in range(depth))

        def level() -> int:
            return int(weft.randint(self.severity, (1,)))

        return [self._step(name, level, self._LEVELS, size) for name in drawn]

    def draw(self, img: Any) -> Any:
        size = TF.get_dimensions(img)[1:]
        rows = len(img) if isinstance(img, Tensor) and img.ndim > 3 else 1
        own = self._weights(rows, 2)
        chains = self._weights(rows, self.mixture_width) * own[:, 1:]
        return own[:, 0], chains, [self._chain(size) for _ in range(self.mixture_width)]

    def apply_to(self, img: Any, drawn: Any) -> Any:
        own, weights, chains = drawn
        given = img if isinstance(img, Tensor) else TF.pil_to_tensor(img)
        batch = given.reshape([1] * max(4 - given.ndim, 0) + list(given.shape))
        shape = [-1] + [1] * (batch.ndim - 1)
        mix = own.view(shape) * batch
        for weight, steps in zip(weights.unbind(1), chains):
            mix = mix + weight.view(shape) * self._changed(batch, steps)
        mix = mix.reshape(given.shape).to(given.dtype)
        return mix if isinstance(img, Tensor) else TF.to_pil_image(mix)
