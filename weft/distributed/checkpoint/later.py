"""Checkpoints written beside the training.

Note [Saving beside training]
The state is copied before `async_save` returns. A thread saves the copy, and what it exchanges with
the threads of the other processes goes through a group of its own, so that it does not come
between the exchanges of the training.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from weft import Tensor
from weft.base.modes import no_grad
from weft.distributed.checkpoint.files import save
from weft.distributed.checkpoint.filesystem import FileSystemWriter, folder_of
from weft.distributed.checkpoint.stateful import states_of
from weft.distributed.world import (
    _known,
    destroy_process_group,
    get_process_group_ranks,
    is_initialized,
    new_group,
)
from weft.utils._pytree import tree_map_only

__all__ = ["async_save"]


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> Future[None]:
    """`save` of the state as it is now, while the program goes on.

    All processes of the group call it, wait for its Future before they end the group, and before
    they save to the same folder again.

    Args:
        state_dict, checkpoint_id, storage_writer, process_group, no_dist: as of `save`.

    Returns: a `concurrent.futures.Future`, whose `result()` waits and raises what `save` raises.

    >>> import tempfile
    >>> from weft.distributed import checkpoint
    >>> x = weft.ones(2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = checkpoint.async_save({"x": x}, checkpoint_id=folder)
    ...     _ = x.zero_()
    ...     saved.result()
    ...     checkpoint.load({"x": x}, checkpoint_id=folder)
    >>> x
    tensor([1., 1.])
    """
    folder = folder_of("async_save", checkpoint_id, storage_writer, FileSystemWriter)
    with no_grad():
        copied: dict[str, Any] = tree_map_only(Tensor, _copy, states_of(state_dict))
    own = None
    if not no_dist and is_initialized() and _known(process_group).size() > 1:
        own = new_group(get_process_group_ranks(process_group))

    def write() -> None:
        try:
            save(copied, checkpoint_id=folder, process_group=own, no_dist=own is None)
        finally:
            if own is not None:
                destroy_process_group(own)

    pool = ThreadPoolExecutor(1, "weft-save")
    try:
        return pool.submit(write)
    finally:
        pool.shutdown(wait=False)


def _copy(t: Tensor) -> Tensor:
    return t.detach().clone()
