"""Ranks whose program has ended, which others must not wait for.

Note [Ranks that leave]
MPI ends no process before all are at their end, so one whose program has ended, with status 0, is
waited for by those that still exchange. Such a rank writes a file into a folder of its launch: for
each group that it was in, how many exchanges it has begun. Who has waited for a while looks there,
and gives up where its own exchange is a later one. There is no such folder on several machines, nor
without `weft launch`: there the timeout is what ends it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence

__all__ = ["FOLDER", "count", "leave", "left"]

#: The variable with the launch's folder.
FOLDER = "WEFT_LAUNCH_FOLDER"
#: How long a message of a rank that has left may still be on its way, in seconds.
_ON_ITS_WAY = 3.0

#: By the name of a group, how many of its exchanges this process has begun.
_begun: dict[str, int] = {}


def count(name: str) -> int:
    """Counts an exchange of a group that begins now; the first is 1."""
    _begun[name] = _begun.get(name, 0) + 1
    return _begun[name]


def _path(folder: str, rank: int) -> str:
    return os.path.join(folder, f"left-{rank}")


def leave(rank: int) -> None:
    """Says that this process' program has ended."""
    folder = os.environ.get(FOLDER)
    if folder is None or not os.path.isdir(folder):
        return
    path = _path(folder, rank)
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(_begun, file)
    os.replace(path + ".part", path)


def left(name: str, ranks: Sequence[int], number: int | None) -> list[int]:
    """The ranks among these that have left before an exchange of a group.

    Args:
        number: which exchange; None: a message, which those that left may have sent.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        return []
    found = []
    for rank in ranks:
        try:
            with open(_path(folder, rank), encoding="utf-8") as file:
                theirs = json.load(file).get(name, 0)
            age = time.time() - os.path.getmtime(_path(folder, rank))
        except FileNotFoundError:
            continue
        if theirs < number if number is not None else age > _ON_ITS_WAY:
            found.append(rank)
    return found
