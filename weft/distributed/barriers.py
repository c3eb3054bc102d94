"""Where processes wait for one another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import weft
from weft.distributed.agreement import agree
from weft.distributed.arguments import begun, members
from weft.distributed.work import Work

__all__ = ["barrier", "monitored_barrier"]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Waits for all processes of the group to call it.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.barrier()
    >>> dist.destroy_process_group()
    """
    g = members("barrier", group)
    if g is None:
        return None
    agree(g, "barrier", [], {})
    return begun("barrier", g, g._comm.barrier(), async_op, lambda: None)


#: The tags of the messages of `monitored_barrier`.
_HERE, _GO = (1 << 20) + 1, (1 << 20) + 2


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """`barrier` that tells who did not come.

    Args:
        timeout: how long the group's first process waits for the others.
        wait_all_ranks: look for all that are missing, instead of the first.

    Raises: RuntimeError with their ranks.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.monitored_barrier()
    >>> dist.destroy_process_group()
    """
    g = members("monitored_barrier", group)
    if g is None or g.size() == 1:
        return
    sign = weft.zeros(1, dtype=weft.uint8)
    limit = timeout or g._timeout
    if g.rank() != 0:
        Work("monitored_barrier", g._comm.send(sign, 0, _HERE), timeout=limit).wait()
        Work("monitored_barrier", g._comm.receive(sign, 0, _GO), timeout=limit).wait()
        return
    signs = [sign.clone() for _ in range(1, g.size())]
    waited = [
        Work("monitored_barrier", g._comm.receive(signs[rank - 1], rank, _HERE), timeout=limit)
        for rank in range(1, g.size())
    ]
    missing: list[int] = []
    for rank, work in enumerate(waited, 1):
        try:
            work.wait(timedelta(seconds=1e-3) if missing else limit)
        except RuntimeError:
            missing.append(g._ranks[rank])
            if not wait_all_ranks:
                break
    if missing:
        raise RuntimeError(
            f"[monitored_barrier] expected all processes within {limit.total_seconds():g} s, got "
            f"nothing of {missing} ([Rank 0]: Ranks {', '.join(map(str, missing))} failed to pass "
            f"monitoredBarrier in {int(limit.total_seconds() * 1000)} ms)"
        )
    for rank in range(1, g.size()):
        Work("monitored_barrier", g._comm.send(sign, rank, _GO), timeout=limit).wait()
