"""The folder of a run's checkpoints.

Note [Newest checkpoint]
A checkpoint is a folder `checkpoint_000012`, named by the report that it came with, and has a file
of PyTorch's format of each rank that gave a state. Its ranks write into `checkpoint_000012.part`,
which is renamed when all have written: whatever ends them, the newest folder with a name is whole.
Those before it are removed then.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import Any

import weft

__all__ = ["begin", "finish", "newest", "read", "write"]

_NAME = re.compile(r"checkpoint_(\d{6,})")
_FILE = re.compile(r"rank-(\d+)-of-(\d+)\.pt")


def _path(folder: str, number: int) -> str:
    return os.path.join(folder, f"checkpoint_{number:06d}")


def _whole(folder: str) -> list[int]:
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def newest(folder: str) -> int:
    """The number of the newest checkpoint; 0: there is none."""
    return max(_whole(folder), default=0)


def begin(folder: str) -> None:
    """Removes what ranks that were ended had begun to write."""
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if _NAME.fullmatch(name.removesuffix(".part")) and name.endswith(".part"):
            shutil.rmtree(os.path.join(folder, name))


def write(folder: str, number: int, state: Any, rank: int, size: int) -> str:
    """Writes the state of a rank, aside; the file."""
    part = _path(folder, number) + ".part"
    os.makedirs(part, exist_ok=True)
    file = os.path.join(part, f"rank-{rank}-of-{size}.pt")
    with open(file, "wb") as out:
        weft.save(state, out)
        out.flush()
        os.fsync(out.fileno())
    return file


def finish(folder: str, number: int) -> None:
    """Has the checkpoint be there, all ranks having written, and those before it be gone."""
    path = _path(folder, number)
    os.rename(path + ".part", path)
    for other in _whole(folder):
        if other < number:
            shutil.rmtree(_path(folder, other))


def read(folder: str, number: int, rank: int, size: int) -> Any:
    """The state that a rank gave; for one that gave none, that of the first that did.

    Raises: ValueError where several ranks gave one, and they were not as many as there are now.
    """
    path = _path(folder, number)
    found = [match for name in os.listdir(path) if (match := _FILE.fullmatch(name))]
    if not found:
        raise FileNotFoundError(f"[get_checkpoint] expected files of ranks in {path}, got none")
    by_rank = {int(match[1]): match[0] for match in found}
    sizes = {int(match[2]) for match in found}
    if len(found) > 1 and sizes != {size}:
        raise ValueError(
            f"[get_checkpoint] expected {min(sizes)} workers, whose states are in {path}, got "
            f"{size}. Hint: what rank 0 alone reports may be read by any number of workers"
        )
    name = by_rank.get(rank, by_rank[min(by_rank)])
    return weft.load(os.path.join(path, name))
