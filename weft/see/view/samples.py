"""Values as histograms and pictures, of elements at equal distances where there are many."""

from __future__ import annotations

import base64
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import weft
from weft import _C, Tensor

PIXELS = 4096  # of a picture that comes with a step
MOST_PIXELS = 1 << 16  # of one that is asked for
ELEMENTS = 4096  # of a histogram
BINS = 32
TILES = 8
NAN, INF, LEVELS = 255, 254, 253  # in a picture: codes of those, and how many levels others have


F = TypeVar("F", bound=Callable[..., Any])


def aside(function: F) -> F:
    """`function`, of whose calls nobody hears: not recorded, kept, mapped or cast."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return _C._aside(function, *args, **kwargs)

    return called  # type: ignore[return-value]


def thin(t: Tensor, most: int) -> Tensor:
    """A view of at most about `most` elements: of the longest dim every second, until they are."""
    while t.numel() > most:
        sizes = list(t.shape)
        longest = sizes.index(max(sizes))
        step = max(2, math.ceil(t.numel() / most)) if len(sizes) == 1 else 2
        t = t[(slice(None),) * longest + (slice(None, None, step),)]
    return t


def numbers(t: Tensor) -> NDArray[np.float64]:
    """The elements as floats; of complex ones how large they are."""
    t = t.detach()
    if t.is_complex():
        t = t.abs()
    array: NDArray[np.float64] = t.to(weft.float64).numpy()
    return array


def _range(array: NDArray[np.float64]) -> tuple[float, float, float]:
    """(least, most, scale) of what is finite: divided by the scale, a power of two, the largest is
    about one, so that differences and squares are no larger than floats."""
    finite = array[np.isfinite(array)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    largest = max(-low, high)
    return low, high, math.ldexp(1.0, max(math.frexp(largest)[1] - 1, -1000)) if largest else 1.0


@aside
def histogram(t: Tensor) -> dict[str, Any]:
    """`counts` of elements between `low` and `high`, their mean and std, `odd` that are not finite;
    `of` all elements it looked at `seen`."""
    part = numbers(thin(t, ELEMENTS)).ravel()
    low, high, scale = _range(part)
    unit = part[np.isfinite(part)] / scale
    bounds = (low / scale, high / scale) if high > low else (low / scale - 0.5, low / scale + 0.5)
    counts = np.histogram(unit, BINS, bounds)[0]
    return {
        "low": low, "high": high, "counts": counts.tolist(), "odd": len(part) - len(unit),
        "mean": float(unit.mean()) * scale if len(unit) else 0.0,
        "std": float(unit.std()) * scale if len(unit) else 0.0,
        "seen": len(part), "of": t.numel(),
    }  # fmt: skip


@aside
def picture(t: Tensor, most: int = PIXELS) -> dict[str, Any]:
    """The last two dims as `rows` and `cols`, up to eight `tiles` along the dim before; of further
    dims the first. A vector comes in rows of 64. `data` has a byte for each, between `low` and
    `high`, and `note` says what was left out."""
    shape = tuple(t.shape)
    notes = []
    t = t.detach()
    while t.ndim > 3:
        notes.append(f"the first of {t.shape[0]}")
        t = t[0]
    if t.ndim < 2:
        part = numbers(thin(t.reshape(-1) if t.ndim == 0 else t, most)).ravel()
        cols = min(64, max(len(part), 1))
        rows = math.ceil(len(part) / cols)
        image = np.full((1, rows, cols), np.nan)
        image.reshape(-1)[: len(part)] = part
        blank = rows * cols - len(part)
        seen = len(part)
    else:
        blank = 0
        if t.ndim == 2:
            t = t[None]
        if t.shape[0] > TILES:
            notes.append(f"the first {TILES} of {t.shape[0]}")
            t = t[:TILES]
        side = max(int(math.sqrt(most / max(t.shape[0], 1))), 1)
        steps = []
        for size, other in ((t.shape[1], t.shape[2]), (t.shape[2], t.shape[1])):
            room = max(side, int(side * side / max(min(other, side), 1)))
            steps.append(max(1, math.ceil(size / room)))
        if max(steps) > 1:
            notes.append(f"every {steps[0]}. row and {steps[1]}. column")
        image = numbers(t[:, :: steps[0], :: steps[1]])
        seen = image.size
    low, high, scale = _range(image)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        slope = (LEVELS - 1) / (high / scale - low / scale) if high > low else 0.0
        levels = (image / scale - low / scale) * slope
    levels = np.nan_to_num(levels, nan=0, posinf=0, neginf=0)
    data = np.clip(levels, 0, LEVELS - 1).astype(np.uint8)
    data[np.isinf(image)] = INF
    data[np.isnan(image)] = NAN
    count = math.prod(shape)
    if seen < count:
        notes.append(f"{seen} of {count} elements")
    return {
        "shape": shape, "tiles": image.shape[0], "rows": image.shape[1], "cols": image.shape[2],
        "blank": blank, "low": low, "high": high, "note": ", ".join(notes),
        "nans": int(np.isnan(image).sum()) - blank, "infs": int(np.isinf(image).sum()),
        "data": base64.b64encode(data.tobytes()).decode(),
    }  # fmt: skip
