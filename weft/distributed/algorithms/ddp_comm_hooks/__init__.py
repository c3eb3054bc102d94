"""Ways to exchange gradients, for `DistributedDataParallel.register_comm_hook`."""

from __future__ import annotations

from enum import Enum, member
from typing import Any

from weft.distributed.algorithms.ddp_comm_hooks import default_hooks as default

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(Enum):
    """The hooks, by name.

    >>> from weft.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
    >>> [kind.name for kind in DDPCommHookType]
    ['ALLREDUCE', 'FP16_COMPRESS', 'BF16_COMPRESS']
    """

    ALLREDUCE = member(default.allreduce_hook)
    FP16_COMPRESS = member(default.fp16_compress_hook)
    BF16_COMPRESS = member(default.bf16_compress_hook)


def register_ddp_comm_hook(
    comm_hook_type: DDPCommHookType, model: Any, state: object = None
) -> None:
    """`model.register_comm_hook` of a hook by its name.

    Args:
        comm_hook_type: which.
        model: a `DistributedDataParallel`.
        state: the group; None: that of the model.

    >>> from weft.distributed.algorithms.ddp_comm_hooks import *
    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> net = weft.nn.parallel.DistributedDataParallel(weft.nn.Linear(2, 1))
    >>> register_ddp_comm_hook(DDPCommHookType.BF16_COMPRESS, net)
    >>> dist.destroy_process_group()
    """
    group = model.process_group if state is None else state
    model.register_comm_hook(group, comm_hook_type.value)
