"""JSON that strict parsers read: what was logged, configurations, what a page is told.

Note [Numbers in JSON]
JSON has no number for nan and infinity. Here they are the strings "NaN", "Infinity" and
"-Infinity", which `decoded` makes floats again; a string that is one of these, or one of them after
backslashes, is written with one backslash more and read with one less. All other floats are written
with the digits that bring the same bits back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["as_float", "decoded", "encoded", "text"]

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encoded(
    value: Any,
    name: str,
    who: str = "log",
    other: Callable[[Any], Any] | None = None,
    around: tuple[int, ...] = (),
) -> Any:
    """A value as JSON has it: numbers, bools, strings, None; a one-element tensor or array is its
    number, others, lists and dicts are their elements.

    Args:
        value: what it is of.
        name: what errors call it.
        who: whose errors they are.
        other: of something else, what is encoded in its place.
        around: the addresses of what the value lies in.

    Raises:
        TypeError: something else.
        ValueError: a list or dict that lies in itself, keys of a dict that have the same text.
    """
    if isinstance(value, str):
        return f"\\{value}" if value.lstrip("\\") in _SPECIAL else value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if id(value) in around:
        raise ValueError(f"[{who}] expected values that do not lie in themselves, got {name}")
    around = *around, id(value)
    if isinstance(value, Mapping):
        out: dict[str, Any] = {}
        for key, item in value.items():
            if str(key) in out:
                raise ValueError(
                    f"[{who}] expected keys of different text, got {str(key)!r} twice in {name}"
                )
            out[str(key)] = encoded(item, f"{name}[{key!r}]", who, other, around)
        return out
    if isinstance(value, (list, tuple)):
        return [encoded(v, f"{name}[{i}]", who, other, around) for i, v in enumerate(value)]
    if hasattr(value, "tolist") and hasattr(value, "shape") and not isinstance(value, type):
        flat = value.tolist()  # of weft and NumPy
        while isinstance(flat, list) and len(flat) == 1:
            flat = flat[0]
        if not isinstance(flat, complex):
            return encoded(flat, name, who, other, around)
    if other is not None:
        return encoded(other(value), name, who, other, around)
    raise TypeError(
        f"[{who}] expected numbers, strings or lists of them, got {type(value).__name__} for {name}"
    )


def decoded(value: Any) -> Any:
    """What `encoded` was given, but for tensors, arrays and tuples."""
    if isinstance(value, str):
        if value.lstrip("\\") in _SPECIAL:
            return _SPECIAL[value] if value in _SPECIAL else value[1:]
        return value
    if isinstance(value, list):
        return [decoded(v) for v in value]
    if isinstance(value, dict):
        return {k: decoded(v) for k, v in value.items()}
    return value


def text(value: Any) -> str:
    """JSON in one line; floats that JSON has not are as `encoded` has them."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(encoded(value, "it"), allow_nan=False, separators=(",", ":"))


def as_float(value: Any) -> float | None:
    """A number that was read as a float, an integer beyond floats as infinity; None: no number."""
    if not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
