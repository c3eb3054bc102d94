"""Whether all processes call the same exchange: asked before each where
TORCH_DISTRIBUTED_DEBUG=DETAIL is set."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import weft
from weft._C import Tensor
from weft.base.frames import user_frame
from weft.distributed.work import Work

if TYPE_CHECKING:
    from weft.distributed.world import ProcessGroup

__all__ = ["agree", "is_asked"]

#: The size of what a process says of its call, in bytes; longer shapes are cut.
_SAID = 1024


def is_asked() -> bool:
    """Whether the environment asks for it."""
    return os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"


def agree(
    group: ProcessGroup, who: str, tensors: Sequence[Tensor], facts: Mapping[str, Any]
) -> None:
    """RuntimeError in all processes of the group where they do not call the same.

    Args:
        who: the function.
        tensors: what is exchanged: their shapes and dtypes have to agree.
        facts: other arguments that have to.
    """
    if not is_asked() or group.size() == 1:
        return
    group._calls += 1
    shapes = [f"{str(t.dtype).split('.')[-1]} {list(t.shape)}" for t in tensors]
    words = ", ".join([*shapes, *(f"{name}={value}" for name, value in facts.items())])
    mine = pickle.dumps((f"{who}({words})"[: _SAID // 2], _line()[-_SAID // 4 :]))
    said = weft.zeros(_SAID, dtype=weft.uint8)
    said[: len(mine)] = weft.tensor(list(mine), dtype=weft.uint8)
    everyone = weft.zeros(group.size() * _SAID, dtype=weft.uint8)
    Work(who, group._comm.all_gather(everyone, said), timeout=group._timeout).wait()
    calls = [pickle.loads(bytes(one.tolist())) for one in everyone.split(_SAID)]
    if any(call != calls[0][0] for call, _ in calls):
        listed = "".join(
            f"\n  rank {rank}: {call} at {line}" for rank, (call, line) in zip(group._ranks, calls)
        )
        raise RuntimeError(
            f"[{who}] expected the same call in all processes, got call {group._calls} of the "
            f"group:{listed}\n(Detected mismatch between collectives on ranks.)"
        )


def _line() -> str:
    """The line of the program that calls."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
