"""Where a checkpoint lies, by PyTorch's names: a folder."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["FileSystemReader", "FileSystemWriter", "folder_of"]

#: What a whole checkpoint has.
INDEX = "index.json"


class _Folder:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    @property
    def checkpoint_id(self) -> str:
        """The folder."""
        return self.path


class FileSystemWriter(_Folder):
    """The folder that `save` and `async_save` write.

    Args:
        path: the folder.
        single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead,
            cache_staged_state_dict: taken and not looked at: each process writes one file, on the
            disk when it is done.
        overwrite: replace a checkpoint that is there; else saving raises RuntimeError.

    >>> from weft.distributed.checkpoint import FileSystemWriter
    >>> FileSystemWriter("/tmp/net").path
    '/tmp/net'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        super().__init__(path)
        self.overwrite = overwrite


class FileSystemReader(_Folder):
    """The folder that `load` reads.

    >>> from weft.distributed.checkpoint import FileSystemReader
    >>> FileSystemReader("/tmp/net").path
    '/tmp/net'
    """


def folder_of(who: str, checkpoint_id: Any, storage: Any, kind: type[_Folder]) -> str:
    """The folder that one of the two names.

    Raises: TypeError for storage of another kind; ValueError without both, or for two folders;
        RuntimeError for a checkpoint that is not to be overwritten.
    """
    if storage is not None and not isinstance(storage, kind):
        raise TypeError(f"[{who}] expected a {kind.__name__}, got {type(storage).__name__}")
    named = {os.fspath(checkpoint_id)} if checkpoint_id is not None else set()
    named |= {storage.path} if storage is not None else set()
    if len(named) != 1:
        raise ValueError(
            f"[{who}] expected the folder by checkpoint_id or by a {kind.__name__}, got "
            f"{sorted(named) or 'neither'}"
        )
    folder = str(named.pop())
    keeps = isinstance(storage, FileSystemWriter) and not storage.overwrite
    if keeps and os.path.exists(os.path.join(folder, INDEX)):
        raise RuntimeError(
            f"[{who}] expected a folder without a checkpoint, got {folder} (Checkpoint already "
            "exists and self.overwrite=False.)"
        )
    return folder
