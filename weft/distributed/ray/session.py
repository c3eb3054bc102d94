"""What a function that trains tells the run that calls it, and asks it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import weft
from weft import _C
from weft.distributed import world
from weft.distributed.barriers import barrier
from weft.distributed.exchanges import all_reduce
from weft.distributed.ray import saved
from weft.distributed.reducing import ReduceOp

__all__ = ["REPORT", "REPORT_END", "RankSession", "Session", "get_checkpoint", "report", "within"]

#: What rank 0 writes around a report, to stderr, which its launch reads.
REPORT, REPORT_END = b"\x06weft: report\x06", b"\x06\n"


class Session(Protocol):
    """The run that a function trains for."""

    def report(self, metrics: dict[str, Any], checkpoint: Any) -> None:
        """See `report`."""
        ...

    def get_checkpoint(self) -> Any:
        """See `get_checkpoint`."""
        ...


_sessions: list[Session] = []


@contextmanager
def within(session: Session) -> Iterator[None]:
    """A scope whose functions report to the session."""
    _sessions.append(session)
    try:
        yield
    finally:
        _sessions.remove(session)


def _session(who: str) -> Session:
    if not _sessions:
        raise RuntimeError(
            f"[{who}] expected a function that weft.distributed.ray's run or search calls, got a "
            "call outside of one"
        )
    return _sessions[-1]


def report(metrics: dict[str, Any], checkpoint: Any = None) -> None:
    """Tells the run how it goes, and where it can go on from. All workers call it.

    Args:
        metrics: numbers, strings and 0-d tensors by name; those of rank 0 are shown and kept.
        checkpoint: what `weft.load` reads: tensors, numbers and strings in dicts and lists. Each
            worker gives its own, or some, as rank 0, one for all, and the others None. It is whole
            on the disk when the call returns.

    Raises:
        RuntimeError: nobody runs the function; a checkpoint, and no folder that all workers see.
        TypeError: other metrics.

    >>> from weft.distributed import ray
    >>> def train():
    ...     for step in range(3):
    ...         ray.report({"step": step}, {"weight": weft.ones(2) * step})
    >>> result = ray.run(train, progress=False)
    >>> [one["step"] for one in result.history], result.get_checkpoint()
    ([0, 1, 2], {'weight': tensor([2., 2.])})
    """
    if not isinstance(metrics, dict):
        raise TypeError(f"[report] expected a dict of metrics, got {type(metrics).__name__}")
    _session("report").report({str(k): _plain(str(k), v) for k, v in metrics.items()}, checkpoint)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, _C.Tensor) and value.numel() == 1:
        value = value.item()
    elif getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a number of NumPy's
        value = value.item()
    if not isinstance(value, (int, float, str, bool, type(None))):
        raise TypeError(
            f"[report] expected a number or a string for {name!r}, got {type(value).__name__}"
        )
    return value


def get_checkpoint() -> Any:
    """The last state that this worker reported, before the run was ended too; None without one.

    Of a worker that gave none it is what the first that gave one did.

    Raises:
        RuntimeError: nobody runs the function.
        ValueError: each worker gave its own, and they were not as many as there are now.

    >>> from weft.distributed import ray
    >>> def train():
    ...     begin = (ray.get_checkpoint() or {"step": 0})["step"]
    ...     for step in range(begin, 4):
    ...         ray.report({"begun": begin}, {"step": step + 1})
    ...         if step == 1 and begin == 0:
    ...             raise OSError("once")
    >>> again = ray.FailureConfig(max_failures=1)
    >>> ray.run(train, failure_config=again, progress=False).metrics
    {'begun': 2}
    """
    return _session("get_checkpoint").get_checkpoint()


class RankSession:
    """The session of a rank of `run`.

    Args:
        folder: of the checkpoints; None where there is none that all ranks see.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._rank, self._size = world.get_rank(), world.get_world_size()
        number = weft.zeros((), dtype=weft.int64)
        if folder is not None and self._rank == 0:
            saved.begin(folder)
            number.fill_(saved.newest(folder))
        all_reduce(number)
        #: The number of the last report; of the last that came with a checkpoint.
        self._last = self._saved = int(number)
        self._is_checked = False

    def report(self, metrics: dict[str, Any], checkpoint: Any) -> None:
        """See `report`."""
        given = weft.tensor(int(checkpoint is not None))
        all_reduce(given, ReduceOp.MAX)
        self._last += 1
        if has_checkpoint := bool(given):
            self._save(checkpoint)
        if self._rank == 0:
            _tell({"number": self._last, "metrics": metrics, "is_saved": has_checkpoint})

    def _save(self, state: Any) -> None:
        if self._folder is None:
            raise RuntimeError(
                "[report] expected run(..., checkpoint=folder) with a folder that all machines "
                "see, got none, and workers on several machines"
            )
        if state is not None:
            file = saved.write(self._folder, self._last, state, self._rank, self._size)
            if not self._is_checked:
                weft.load(file)  # what cannot be read is told now, not when a worker was lost
                self._is_checked = True
        barrier()  # each has written
        if self._rank == 0:
            saved.finish(self._folder, self._last)
        barrier()
        self._saved = self._last

    def get_checkpoint(self) -> Any:
        """See `get_checkpoint`."""
        if self._folder is None or self._saved == 0:
            return None
        return saved.read(self._folder, self._saved, self._rank, self._size)


def _tell(what: dict[str, Any]) -> None:
    data = REPORT + json.dumps(what).encode() + REPORT_END
    while data:
        data = data[os.write(2, data) :]
