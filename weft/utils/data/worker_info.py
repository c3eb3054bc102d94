"""What a worker process of a DataLoader knows about itself."""

from __future__ import annotations

from typing import Any, NamedTuple


class WorkerInfo(NamedTuple):
    """A worker: its number, how many there are, its seed, and its copy of the dataset.

    >>> weft.utils.data.get_worker_info() is None
    True
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_current: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a DataLoader, what it knows about itself; elsewhere None.

    An iterable dataset uses it to give each worker its share.

    >>> weft.utils.data.get_worker_info() is None
    True
    """
    return _current


def set_worker_info(info: WorkerInfo | None) -> None:
    """Called by the worker."""
    global _current
    _current = info
