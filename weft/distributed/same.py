"""Tensors made the same in all processes, and a look whether they can be."""

from __future__ import annotations

from collections.abc import Sequence

import weft
from weft._C import Tensor
from weft.base.modes import no_grad
from weft.distributed.exchanges import broadcast
from weft.distributed.objects import all_gather_object
from weft.distributed.world import ProcessGroup

__all__ = ["broadcast_all", "expect_same"]

#: Bytes that are sent at once.
_AT_ONCE = 1 << 28


def broadcast_all(tensors: Sequence[Tensor], group: ProcessGroup, root: int) -> None:
    """Writes the tensors of the group's process `root` into those of all, many in one message."""
    waiting: dict[object, list[Tensor]] = {}
    for t in tensors:
        waiting.setdefault(t.dtype, []).append(t)
    for alike in waiting.values():
        batch: list[Tensor] = []
        for t in alike:
            batch.append(t)
            if sum(b.numel() for b in batch) * t.itemsize > _AT_ONCE:
                _broadcast_batch(batch, group, root)
                batch = []
        if batch:
            _broadcast_batch(batch, group, root)


def _broadcast_batch(batch: Sequence[Tensor], group: ProcessGroup, root: int) -> None:
    with no_grad():
        together = weft.cat([t.detach().reshape(-1) for t in batch])
        broadcast(together, group=group, group_src=root)
        if group.rank() != root:
            for t, piece in zip(batch, together.split([t.numel() for t in batch])):
                t.detach().copy_(piece.view(t.shape))


def expect_same(who: str, named: Sequence[tuple[str, Tensor]], group: ProcessGroup) -> None:
    """RuntimeError in all processes where names, shapes or dtypes are not the same in all."""
    mine = [(name, tuple(t.shape), str(t.dtype), t.requires_grad) for name, t in named]
    everyone: list[list[tuple[object, ...]]] = [[] for _ in range(group.size())]
    all_gather_object(everyone, mine, group)
    for rank, theirs in enumerate(everyone):
        if theirs == everyone[0]:
            continue
        place = next(
            (i for i, (a, b) in enumerate(zip(theirs, everyone[0])) if a != b),
            min(len(theirs), len(everyone[0])),
        )
        here, there = (
            str(side[place]) if place < len(side) else "none" for side in (everyone[0], theirs)
        )
        raise RuntimeError(
            f"[{who}] expected the same parameters in all processes, got parameter {place}: {here} "
            f"in rank {group._ranks[0]}, {there} in rank {group._ranks[rank]}"
        )
