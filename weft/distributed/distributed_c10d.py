"""PyTorch's path of the process group and of its exchanges."""

from weft.distributed import exchanges, world
from weft.distributed.exchanges import *  # noqa: F403
from weft.distributed.world import *  # noqa: F403
from weft.distributed.world import _get_default_group as _get_default_group

__all__ = [*world.__all__, *exchanges.__all__]
