"""Folders that are removed when the process that made them is done with them, or gone.

Note [Left folders]
A killed process removes nothing, and what is in shared memory is a part of the machine's. So who
makes a folder locks it (flock, which ends with the process and holds across containers), and who
makes another of the same name first removes those that nobody locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator

__all__ = ["SHARED", "own_folder", "remove_left"]

#: Where shared memory lies; None where there is none to write to.
SHARED = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None


@contextlib.contextmanager
def own_folder(prefix: str, where: str | None = None) -> Iterator[str]:
    """A scope with a new folder, which is removed at its end.

    Args:
        prefix: of its name. Folders that begin so, of processes that are gone, are removed.
        where: the folder that it is made in; that of temporary files by default.
    """
    remove_left(prefix, where)
    path, lock = _made(prefix, where)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def remove_left(prefix: str, where: str | None = None) -> None:
    """Removes the folders whose names begin so of processes that are gone."""
    for path in glob.glob(os.path.join(glob.escape(where or tempfile.gettempdir()), f"{prefix}*")):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # another user's, or removed meanwhile
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _made(prefix: str, where: str | None) -> tuple[str, int]:
    """A new folder and its lock, which another process may take and remove it before this one."""
    while True:
        path = tempfile.mkdtemp(prefix=prefix, dir=where)
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.isdir(path):
                return path, lock
            os.close(lock)
