"""Files of lines, each an object of JSON (Note [Numbers in JSON] in weft/base/strict_json.py)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.base.strict_json import decoded

__all__ = ["Lines", "read", "row_of"]


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
