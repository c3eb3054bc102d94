"""What all processes of a save or load are told where it failed in some."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from weft.distributed.objects import all_gather_object
from weft.distributed.world import ProcessGroup

__all__ = ["CheckpointException", "in_all"]

T = TypeVar("T")
Failure = tuple[BaseException, traceback.StackSummary]


class CheckpointException(RuntimeError):
    """A save or load failed in some processes. All of its group raise it.

    In PyTorch it is no `Exception`; here it is a RuntimeError.

    >>> from weft.distributed.checkpoint import CheckpointException
    >>> error = CheckpointException("[save] failed", {1: (OSError("disk full"), [])})
    >>> list(error.failures), str(error)
    ([1], '[save] failed\\n  rank 1: OSError: disk full')
    """

    def __init__(self, msg: str, failures: dict[int, Failure]) -> None:
        lines = [f"\n  rank {r}: {type(e).__name__}: {e}" for r, (e, _) in failures.items()]
        super().__init__(msg + "".join(lines))
        self._msg = msg
        self._failures = failures

    def __reduce__(self) -> Any:
        return type(self), (self._msg, self._failures)

    @property
    def failures(self) -> dict[int, Failure]:
        """By rank in the group, what was raised and the lines that led to it."""
        return self._failures


def in_all(who: str, group: ProcessGroup | None, part: Callable[[], T]) -> list[T]:
    """What each process' part has returned, by rank; of one process, its own.

    Raises: CheckpointException in all processes where a part raised; without a group what it was.
    """
    if group is None:
        return [part()]
    mine: tuple[T | None, Failure | None]
    try:
        mine = (part(), None)
    except Exception as error:
        mine = (None, (_sendable(error), _lines(error)))
    everyone = [mine] * group.size()
    all_gather_object(everyone, mine, group)
    failures: dict[int, Failure] = {
        rank: failed for rank, (_, failed) in enumerate(everyone) if failed is not None
    }
    if failures:
        message = f"[{who}] expected all processes to {who}, got failures"
        raise CheckpointException(message, failures)
    return [value for value, _ in everyone]  # type: ignore[misc]


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _lines(error: Exception) -> traceback.StackSummary:
    summary = traceback.extract_tb(error.__traceback__)
    for frame in summary:
        if hasattr(frame, "_code"):
            object.__setattr__(frame, "_code", None)  # Python 3.13's, which is not pickled
    return summary
