"""Parameters cut over processes: the settings and policies; the wrapper itself is not here."""

from weft.base.absent import raises, raising_class
from weft.distributed.fsdp.fully_sharded_data_parallel import *  # noqa: F403
from weft.distributed.fsdp.fully_sharded_data_parallel import __all__ as _wrapper

__all__ = ["FSDPModule", "fully_shard", *_wrapper]

_TEXT = (
    "[{}] expected a model whose parameters one process holds, got one to be sharded. Hint: "
    "nn.parallel.DistributedDataParallel takes it as it is"
)
#: The class of what `fully_shard` gives.
FSDPModule = raising_class(
    "FSDPModule", __name__, NotImplementedError, _TEXT.format("FSDPModule"),
    "A module whose parameters are cut over processes. Making one raises NotImplementedError.",
)  # fmt: skip
fully_shard = raises(NotImplementedError, _TEXT.format("fully_shard"))
