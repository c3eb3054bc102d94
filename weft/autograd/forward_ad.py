"""What a tensor of forward mode holds, for programs that ask; `func.jvp` goes in reverse mode."""

from __future__ import annotations

from typing import NamedTuple

from weft._C import Tensor

__all__ = ["UnpackedDualTensor", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A value and its derivative in the direction that forward mode goes in."""

    primal: Tensor
    tangent: Tensor | None


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor and None: there are no tensors that carry tangents.

    >>> weft.autograd.forward_ad.unpack_dual(weft.ones(1)).tangent
    """
    return UnpackedDualTensor(tensor, None)
