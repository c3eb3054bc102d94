"""DLPack: arrays of other libraries without copying."""

from typing import Any

from weft import Tensor, from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule over the tensor's memory; one consumer may take it.

    A tensor of any shape.

    >>> weft.from_dlpack(weft.utils.dlpack.to_dlpack(weft.ones(2)))
    tensor([1., 1.])
    """
    return tensor.__dlpack__()
