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

__all__ = ["agree", "agree_on_parts", "expect_said", "is_asked", "say"]

#: The size of what a process says of its call, in bytes; longer shapes are cut.
_SAID = 1024
#: What the tags of words about messages have, and theirs have not.
_APART = 1 << 24


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
    shapes = [_of(t) for t in tensors]
    words = ", ".join([*shapes, *(f"{name}={value}" for name, value in facts.items())])
    everyone = weft.zeros(group.size() * _SAID, dtype=weft.uint8)
    _gather(who, group, everyone, _saying(f"{who}({words})"))
    calls = [_said(one) for one in everyone.split(_SAID)]
    if any(call != calls[0][0] for call, _ in calls):
        listed = "".join(
            f"\n  rank {rank}: {call} at {line}" for rank, (call, line) in zip(group._ranks, calls)
        )
        raise RuntimeError(
            f"[{who}] expected the same call in all processes, got call {group._calls} of the "
            f"group:{listed}\n(Detected mismatch between collectives on ranks.)"
        )


def agree_on_parts(
    group: ProcessGroup, who: str, into: Sequence[int], out_of: Sequence[int]
) -> None:
    """RuntimeError in all processes where one expects another number of elements than it is sent.

    Args:
        into, out_of: how many elements this process gets of each, and sends to each.
    """
    if not is_asked() or group.size() == 1:
        return
    size = group.size()
    everyone = weft.zeros(2 * size * size, dtype=weft.int64)
    _gather(who, group, everyone, weft.tensor([*into, *out_of], dtype=weft.int64))
    table = everyone.view(size, 2, size).tolist()
    for rank, (gets, _) in enumerate(table):
        for other, (_, sends) in enumerate(table):
            if gets[other] != sends[rank]:
                mine, theirs = group._ranks[rank], group._ranks[other]
                raise RuntimeError(
                    f"[{who}] expected what rank {theirs} sends to rank {mine} to be what that "
                    f"expects, {gets[other]} elements, got {sends[rank]} at {_line()} (Detected "
                    "mismatch between collectives on ranks.)"
                )


def _gather(who: str, group: ProcessGroup, everyone: Tensor, mine: Tensor) -> None:
    request = group._comm.all_gather(everyone, mine)
    Work(who, request, timeout=group._timeout, left=group._left()).wait()


def say(group: ProcessGroup, tensor: Tensor, to: int, tag: int) -> None:
    """Sends, before a tensor, what it is, where that is asked for."""
    if is_asked():
        request = group._comm.send(_saying(_of(tensor)), to, tag ^ _APART)
        Work("isend", request, timeout=group._timeout).goes_on()


def expect_said(group: ProcessGroup, tensor: Tensor, source: int | None, tag: int) -> Any:
    """A function that raises RuntimeError where what was sent is not like the tensor.

    It is called with the rank that has sent. What that said is received in the order in which this
    function was called, of any process in that of the messages.
    """
    if not is_asked():
        return lambda source: None
    said, expected, line = weft.zeros(_SAID, dtype=weft.uint8), _of(tensor), _line()

    def started(source: int) -> Work:
        request = group._comm.receive(said, source, tag ^ _APART)
        return Work("recv", request, timeout=group._timeout)

    work = None if source is None else started(source)

    def check(source: int) -> None:
        (work or started(source)).wait()
        got, there = _said(said)
        if got != expected:
            mine, theirs = group._ranks[group.rank()], group._ranks[source]
            raise RuntimeError(
                f"[recv] expected a message like the tensor, got another:\n  rank {mine}: recv("
                f"{expected}) at {line}\n  rank {theirs}: send({got}) at {there}"
            )

    return check


def _of(t: Tensor) -> str:
    return f"{str(t.dtype).split('.')[-1]} {list(t.shape)}"


def _saying(call: str) -> Tensor:
    """A call and its line, as it is sent."""
    mine = pickle.dumps((call[: _SAID // 2], _line()[-_SAID // 4 :]))
    said = weft.zeros(_SAID, dtype=weft.uint8)
    said[: len(mine)] = weft.tensor(list(mine), dtype=weft.uint8)
    return said


def _said(data: Tensor) -> tuple[str, str]:
    call, line = pickle.loads(bytes(data.tolist()))
    return call, line


def _line() -> str:
    """The line of the program that calls."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
