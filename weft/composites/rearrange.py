"""Elements in another order. PyTorch's semantics."""

from __future__ import annotations

from collections.abc import Sequence

from weft._C import Tensor
from weft.base.forms import method

__all__ = ["rot90"]


@method
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by k quarters in the plane of two dims, from the first towards the second.

    Raises: RuntimeError unless `dims` are two different ones.

    The two sizes are exchanged if k is odd.

    >>> weft.rot90(weft.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2 or dims[0] % max(input.dim(), 1) == dims[1] % max(input.dim(), 1):
        told = (
            f" (expected total dims >= 2, but got total dims = {input.dim()})"
            if input.dim() < 2
            else ""
        )
        raise RuntimeError(f"[rot90] expected two different dims, got {dims}{told}")
    first, second = dims
    if k % 4 == 1:
        return input.transpose(first, second).flip(first)
    if k % 4 == 2:
        return input.flip((first, second))
    if k % 4 == 3:
        return input.transpose(first, second).flip(second)
    return input.clone()


@method
def __reversed__(self: Tensor) -> Tensor:
    """The tensor flipped along its first dimension."""
    return self.flip(0) if self.dim() else self
