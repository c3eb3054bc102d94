"""Replacing a file as one step: who reads sees the old file or the new one, never a part."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write; at the end of the scope it takes the place of `path`.

    The new file is made in the same folder, flushed to the disk, renamed, and the folder flushed.
    If the scope raises, the old file stays as it was and nothing is left behind. A device or a pipe
    is written directly.

    >>> import os, tempfile
    >>> from weft._checkpoint.atomic import replaced
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replaced(os.path.join(folder, "a")) as file:
    ...         _ = file.write(b"x")
    ...     os.listdir(folder)
    ['a']
    """
    target = os.path.realpath(os.fspath(path))
    mode = None
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(target)
        if not stat.S_ISREG(status.st_mode):
            with open(target, "wb") as file:
                yield file
            return
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
        mode = stat.S_IMODE(status.st_mode)
    folder = os.path.dirname(target)
    try:
        hidden, handle = _create(folder, os.path.basename(target))
    except OSError as error:  # of the hidden file, whose name is nobody's business
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with open(handle, "wb") as file:
            if mode is not None:
                os.fchmod(handle, mode)
            yield file
            file.flush()
            os.fsync(handle)
        os.replace(hidden, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def expect_folder(path: str | os.PathLike[str]) -> None:
    """Raises PyTorch's RuntimeError for a file in a folder that is not there."""
    folder = os.path.dirname(os.fspath(path))
    if folder and not os.path.isdir(folder):
        raise RuntimeError(
            f"[save] expected a file in a folder that exists, got {os.fspath(path)} (Parent "
            f"directory {folder} does not exist.)"
        )


def _create(folder: str, name: str) -> tuple[str, int]:
    """A new file beside the target, with the permissions that open() would give."""
    while True:
        path = os.path.join(folder, f".{name[:200]}.{os.urandom(6).hex()}.tmp")
        with contextlib.suppress(FileExistsError):
            return path, os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
