"""Python's multiprocessing, whose queues, pipes and arguments share the memory of tensors.

A tensor that is sent is moved to shared memory, and the receiver writes into the same.

>>> import weft.multiprocessing as mp
>>> mp.get_all_sharing_strategies()
{'file_descriptor'}
"""

import multiprocessing
from multiprocessing import *  # noqa: F403

from weft.multiprocessing.shared import init_reductions
from weft.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
    start_processes,
)

__all__ = [
    *multiprocessing.__all__, "ProcessContext", "ProcessException", "ProcessExitedException",
    "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies",
    "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip

SpawnContext = ProcessContext


def get_all_sharing_strategies() -> set[str]:
    """How tensors are shared: by descriptors of anonymous files.

    >>> weft.multiprocessing.get_all_sharing_strategies()
    {'file_descriptor'}
    """
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """'file_descriptor'.

    >>> weft.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Chooses 'file_descriptor'. AssertionError for a strategy that is not there.

    >>> weft.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(
            "[set_sharing_strategy] expected 'file_descriptor' (anonymous files, which need no "
            f"name and leave none behind), got {new_strategy!r}"
        )


init_reductions()
