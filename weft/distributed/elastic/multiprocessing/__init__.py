"""The processes of a launch."""

from weft.distributed.elastic.multiprocessing import errors

__all__ = ["errors"]
