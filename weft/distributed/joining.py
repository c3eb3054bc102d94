"""What a process without further batches does for `DistributedDataParallel`'s others."""

from __future__ import annotations

from typing import Any

import weft
from weft.distributed.algorithms.join import JoinHook
from weft.distributed.exchanges import all_reduce
from weft.distributed.reducing import ReduceOp
from weft.distributed.world import ProcessGroup

__all__ = ["DDPJoinHook", "tell"]


def tell(group: ProcessGroup, is_active: bool, syncs: bool) -> tuple[bool, int]:
    """Whether those that train exchange gradients this time, and the last rank of them."""
    told = weft.tensor([int(is_active and syncs), group.rank() if is_active else -1])
    all_reduce(told, ReduceOp.MAX, group)
    some, root = told.tolist()
    return bool(some), int(root)


class DDPJoinHook(JoinHook):
    """Takes part in what a batch of the others exchanges."""

    def __init__(self, ddp: Any) -> None:
        self._ddp = ddp

    def main_hook(self) -> None:
        """The buffers of who still trains, and zeros for the gradients."""
        ddp = self._ddp
        syncs, root = tell(ddp.process_group, False, False)
        ddp._exchange_buffers(root)
        ddp.require_forward_param_sync = syncs
        if syncs:
            ddp._reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """The parameters and buffers of a process that trained to the end."""
        ddp = self._ddp
        if ddp._reducer is None:
            return
        ddp._reducer.divisor = ddp.process_group.size()
        _, root = tell(ddp.process_group, is_last_joiner, False)
        ddp._broadcast([*ddp._parameters_in_order(), *ddp._synced_buffers()], root)
