"""`torch.distributed.tensor` by its earlier path."""

from weft.distributed.tensor import *  # noqa: F403
from weft.distributed.tensor import __all__ as __all__
