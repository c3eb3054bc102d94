"""`torch.distributed.fsdp` by its earlier path."""

from weft.distributed.fsdp import FSDPModule as FSDPModule
from weft.distributed.fsdp import fully_shard as fully_shard
from weft.distributed.fsdp.api import CPUOffloadPolicy as CPUOffloadPolicy
from weft.distributed.fsdp.api import MixedPrecisionPolicy as MixedPrecisionPolicy
from weft.distributed.fsdp.api import OffloadPolicy as OffloadPolicy

__all__ = ["CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "fully_shard"]
