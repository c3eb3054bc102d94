"""`FullyShardedDataParallel`, which is not here, and the names that stand beside it."""

from __future__ import annotations

from typing import Any

from weft.base.absent import raising_class
from weft.distributed.fsdp.api import *  # noqa: F403
from weft.distributed.fsdp.api import __all__ as _settings

__all__ = ["FullyShardedDataParallel", *_settings]

#: A class to ask `isinstance` of: making one raises NotImplementedError.
FullyShardedDataParallel: Any = raising_class(
    "FullyShardedDataParallel", __name__, NotImplementedError,
    "[FullyShardedDataParallel] expected a model whose parameters one process holds, got one to be "
    "sharded. Hint: distributed.fsdp.fully_shard shards it in place",
    """A module whose parameters are cut over processes: to ask `isinstance` of.

    Raises: NotImplementedError where one is made; `fully_shard` is what cuts a module's parameters.

    >>> isinstance(weft.nn.Linear(2, 1), weft.distributed.fsdp.FullyShardedDataParallel)
    False
    """,
)  # fmt: skip
