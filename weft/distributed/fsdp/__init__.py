"""Parameters cut over processes: `fully_shard`, its settings and policies."""

from weft.distributed.fsdp.fully_sharded_data_parallel import *  # noqa: F403
from weft.distributed.fsdp.fully_sharded_data_parallel import __all__ as _wrapper
from weft.distributed.fsdp.sharding import FSDPModule as FSDPModule
from weft.distributed.fsdp.sharding import UnshardHandle as UnshardHandle
from weft.distributed.fsdp.sharding import fully_shard as fully_shard
from weft.distributed.fsdp.sharding import (
    register_fsdp_forward_method as register_fsdp_forward_method,
)

__all__ = [
    "FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", *_wrapper,
]  # fmt: skip
