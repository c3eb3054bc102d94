"""Exchanges that carry gradients: `weft.distributed.nn.functional`."""

from weft.distributed.nn import functional
from weft.distributed.nn.functional import *  # noqa: F403
from weft.distributed.nn.functional import __all__ as __all__
