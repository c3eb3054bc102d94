"""Whether files are there and are what they should be."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

__all__ = ["calculate_md5", "check_integrity", "missing", "verify_str_arg"]


def calculate_md5(fpath: str | os.PathLike[str], chunk_size: int = 1024 * 1024) -> str:
    """The MD5 of a file, in hex."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
        while part := file.read(chunk_size):
            digest.update(part)
    return digest.hexdigest()


def check_integrity(fpath: str | os.PathLike[str], md5: str | None = None) -> bool:
    """Whether a file is there and, with `md5`, has that sum."""
    return os.path.isfile(fpath) and (md5 is None or calculate_md5(fpath) == md5)


def verify_str_arg(value: str, arg: str, valid_values: Iterable[str]) -> str:
    """The value, if it is one of those.

    Raises: ValueError if it is not.
    """
    known = list(valid_values)
    if value not in known:
        raise ValueError(
            f"[{arg}] expected one of {', '.join(known)}, got {value!r}: "
            f"Unknown value '{value}' for argument {arg}. Valid values are {known}."
        )
    return value


def missing(name: str, folder: str, files: Iterable[str], source: str) -> RuntimeError:
    """The error about files that are not there, or are others; nothing here downloads them."""
    return RuntimeError(
        f"[{name}] expected {', '.join(files)} in {folder}, which are not there or have other "
        "sums: Dataset not found or corrupted. Hint: nothing is downloaded here; put them there, "
        f"from {source}"
    )
