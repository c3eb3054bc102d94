"""How numbers, times and dtypes are written where weft shows them in its own form.

What PyTorch prescribes (the profiler's tables) is written there, by its rules.
"""

from __future__ import annotations

from typing import Any

__all__ = ["dtype_name", "duration", "interval", "size"]


def dtype_name(dtype: Any) -> str:
    """A dtype's name without its module: "float32"."""
    return str(dtype).removeprefix("torch.")


def duration(seconds: float) -> str:
    """A time of three digits, "1.25 ms"; none is empty."""
    if seconds <= 0:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def size(count: int) -> str:
    """A number of bytes of three digits, in powers of ten: "1.05 MB"."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(count) >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def interval(of: tuple[int, int]) -> str:
    """The least and the most of some numbers: "3–7", or "3" where they are the same."""
    return str(of[0]) if of[0] == of[1] else f"{of[0]}–{of[1]}"
