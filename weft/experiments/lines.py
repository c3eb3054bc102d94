"""JSON that strict parsers read: the values of metrics and configurations, and files of lines.

Note [Numbers]
JSON has no number for nan and infinity. Here they are the strings "NaN", "Infinity" and
"-Infinity", which `decoded` makes floats again; a string that is one of these, or one of them after
backslashes, is written with one backslash more and read with one less. All other floats are written
with the digits that bring the same bits back.
"""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["Lines", "as_float", "decoded", "encoded", "index", "read", "row_of", "text"]

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


def index(value: Any, who: str, what: str) -> int:
    """An argument as an integer.

    Raises:
        TypeError: it is none.
    """
    try:
        return operator.index(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"[{who}] expected an integer as {what}, got {value!r} of type {kind}"
        ) from None


def as_float(value: Any) -> float | None:
    """A number that was read as a float, an integer beyond floats as infinity; None: no number."""
    if not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


class Lines:
    """A file that grows by lines, each written by one call of the system: what kills the process
    leaves whole lines. After a write that failed half way the next one begins a line."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self._torn = False

    def append(self, row: dict[str, Any]) -> None:
        """Adds a line.

        Raises:
            OSError: it cannot be written, as on a full disk.
        """
        line = (json.dumps(row, allow_nan=False) + "\n").encode()
        if self._torn:
            line = b"\n" + line
        at, torn = 0, self._torn
        self._torn = True
        try:
            while at < len(line):
                at += os.write(self._file, line[at:])
        except OSError:
            self._torn = torn if at == 0 else line[at - 1 : at] != b"\n"
            raise
        self._torn = False

    def close(self) -> None:
        os.close(self._file)


def row_of(line: bytes) -> dict[str, Any] | None:
    """The object of a line, decoded; None: there is none, as in one that was cut off."""
    try:
        row = json.loads(line)
        return decoded(row) if isinstance(row, dict) else None
    except (ValueError, RecursionError):
        return None


def read(path: Path, most: int | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a file of lines; none if it is not there, nor of a line that was cut off.

    `most`: of so many bytes at the end alone.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if most is None else max(size - most, 0))
            content = file.read()
    except FileNotFoundError:
        return
    whole = most is None or size <= most
    for line in content.split(b"\n")[0 if whole else 1 : -1]:
        row = row_of(line)
        if row is not None:
            yield row
