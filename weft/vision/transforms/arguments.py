"""Arguments that transforms have in common: interpolations, and one number or several."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

__all__ = ["InterpolationMode", "as_mode", "numbers", "pil_modes_mapping"]


class InterpolationMode(Enum):
    """How pixels between pixels get their values; tensors take the first four.

    >>> from weft.vision import transforms as T
    >>> T.InterpolationMode.BILINEAR.value
    'bilinear'
    """

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


#: Pillow's numbers of the modes.
pil_modes_mapping = {
    InterpolationMode.NEAREST: 0, InterpolationMode.LANCZOS: 1, InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3, InterpolationMode.BOX: 4, InterpolationMode.HAMMING: 5,
    InterpolationMode.NEAREST_EXACT: 0,
}  # fmt: skip


def as_mode(interpolation: Any) -> InterpolationMode:
    """A mode, its name, or Pillow's number of it, as a mode."""
    if isinstance(interpolation, InterpolationMode):
        return interpolation
    known = pil_modes_mapping.items()
    found = next((m for m, number in known if interpolation in (number, m.value)), None)
    if found is None:
        raise TypeError(
            f"[interpolation] expected an InterpolationMode, got {interpolation!r}: Argument "
            "interpolation should be a InterpolationMode or a corresponding Pillow integer constant"
        )
    return found


def numbers(who: str, given: Any, counts: Sequence[int]) -> list[Any]:
    """A number or a sequence of one of the lengths, as a list."""
    if isinstance(given, (int, float)):
        return [given]
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(
            f"[{who}] expected a number or a sequence, got {type(given).__name__}: "
            f"Got inappropriate {who} arg"
        )
    if len(given) not in counts:
        known = " or ".join(str(n) for n in counts)
        raise ValueError(
            f"[{who}] expected {known} numbers, got {len(given)}: "
            f"{who} must be a number or a {known} element tuple/list"
        )
    return list(given)
