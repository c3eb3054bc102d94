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
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["append", "decoded", "encoded", "read"]

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encoded(value: Any, name: str) -> Any:
    """A value as JSON has it: numbers, bools, strings, None; a one-element tensor or array is its
    number, others, lists and dicts are their elements.

    Raises:
        TypeError: something else, named by `name`.
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
    if isinstance(value, Mapping):
        return {str(k): encoded(v, f"{name}[{k!r}]") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(v, f"{name}[{i}]") for i, v in enumerate(value)]
    if hasattr(value, "tolist") and hasattr(value, "shape"):  # of weft and NumPy
        flat = value.tolist()
        while isinstance(flat, list) and len(flat) == 1:
            flat = flat[0]
        if not isinstance(flat, complex):
            return encoded(flat, name)
    raise TypeError(
        f"[log] expected numbers, strings or lists of them, got {type(value).__name__} for {name}"
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


def append(file: int, row: dict[str, Any]) -> None:
    """Writes a line to an open file by one call: what kills the process leaves whole lines."""
    line = memoryview((json.dumps(row, allow_nan=False) + "\n").encode())
    while line:
        line = line[os.write(file, line) :]


def read(path: Path, most: int | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a file of lines; none if it is not there, nor of a line that was cut off.

    `most`: of so many bytes at the end alone.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if most is None else max(size - most, 0))
            text = file.read()
    except FileNotFoundError:
        return
    whole = most is None or size <= most
    for line in text.split(b"\n")[0 if whole else 1 : -1]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield {k: decoded(v) for k, v in row.items()}
