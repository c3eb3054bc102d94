"""PyTorch's path of the process group and of its exchanges."""

from weft.distributed import (
    balance,
    barriers,
    exchanges,
    messages,
    objects,
    stores,
    subgroups,
    work,
    world,
)
from weft.distributed.balance import *  # noqa: F403
from weft.distributed.barriers import *  # noqa: F403
from weft.distributed.exchanges import *  # noqa: F403
from weft.distributed.messages import *  # noqa: F403
from weft.distributed.objects import *  # noqa: F403
from weft.distributed.reducer import GradBucket as GradBucket
from weft.distributed.reducing import ReduceOp as ReduceOp
from weft.distributed.reducing import reduce_op as reduce_op
from weft.distributed.stores import *  # noqa: F403
from weft.distributed.subgroups import *  # noqa: F403
from weft.distributed.work import *  # noqa: F403
from weft.distributed.world import *  # noqa: F403
from weft.distributed.world import _get_default_group as _get_default_group
from weft.distributed.world import _get_default_store as _get_default_store

__all__ = [
    *world.__all__, *exchanges.__all__, *barriers.__all__, *messages.__all__, *objects.__all__,
    *balance.__all__, *stores.__all__, *subgroups.__all__, *work.__all__, "GradBucket", "ReduceOp",
    "reduce_op",
]  # fmt: skip
