"""What a transform is: numbers drawn once, and a function of an image and those numbers."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import weft
from weft.nn import Module
from weft.vision.transforms import functional as TF
from weft.vision.transforms.arguments import numbers

__all__ = ["Transform", "p_of", "pair", "symmetric", "uniform"]


class Transform(Module):
    """A transform of one image: `draw` decides, `apply_to` does."""

    #: The functions of images that it calls: v1's or v2's.
    functional: ModuleType = TF
    #: The attributes that the transform shows of itself.
    _shown: tuple[str, ...] = ()

    def draw(self, img: Any) -> Any:
        """What is random, for this image; None where nothing is."""
        return None

    def apply_to(self, img: Any, drawn: Any) -> Any:
        """The image under what was drawn."""
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        return self.apply_to(img, self.draw(img))

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={_text(getattr(self, name))}" for name in self._shown)


def _text(value: Any) -> Any:
    return value.value if isinstance(value, TF.InterpolationMode) else value


def uniform(low: float, high: float) -> float:
    """One number of the generator, of low to high."""
    return float(weft.empty(1).uniform_(low, high).item())


def p_of(who: str, p: float) -> float:
    """A probability."""
    if not (isinstance(p, (int, float)) and 0.0 <= p <= 1.0):
        raise ValueError(
            f"[{who}] expected a probability of 0 to 1, got {p!r}: "
            f"`p` should be a floating point value in the interval [0.0, 1.0]."
        )
    return p


def pair(who: str, size: Any) -> tuple[int, int]:
    """A size as height and width."""
    found = numbers(who, size, (1, 2))
    return (found[0], found[-1])


def symmetric(who: str, given: Any, counts: Sequence[int] = (2,)) -> list[float]:
    """The bounds of a random number: -x to x for one number."""
    if isinstance(given, (int, float)):
        if given < 0:
            raise ValueError(
                f"[{who}] expected a number of at least 0, or bounds, got {given}: "
                f"If {who} is a single number, it must be positive."
            )
        return [-float(given), float(given)]
    return [float(x) for x in numbers(who, given, counts)]
