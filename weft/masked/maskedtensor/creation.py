"""Functions that make masked tensors: of copies, or in the graph of their data."""

from __future__ import annotations

from weft import Tensor
from weft.masked.maskedtensor.core import MaskedTensor, masked_of

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor of copies: a leaf, whose gradient is a masked tensor too.

    Args:
        data: dense, of any shape, which is the result's too; float16, float32, float64, bool or
            signed integers.
        mask: bools of the same shape, True for what counts.
        requires_grad: whether the tensor wants a gradient.

    Raises: as `masked.MaskedTensor`.

    >>> x = weft.tensor([1.0, 2.0, 3.0])
    >>> m = weft.masked.masked_tensor(x, weft.tensor([True, False, True]), requires_grad=True)
    >>> (m * m).mean().backward()
    >>> m.grad
    MaskedTensor(
      [  1.0000,       --,   3.0000]
    )
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A masked tensor of `data`, to which its gradient goes, as a masked tensor.

    Args:
        data, mask: as `masked.masked_tensor` has them, of the same shape.

    Raises: as `masked.MaskedTensor`.

    >>> x = weft.tensor([1.0, 1.0], requires_grad=True)
    >>> y = x / weft.tensor([0.0, 1.0])
    >>> weft.masked.as_masked_tensor(y, weft.tensor([False, True])).sum().backward()
    >>> x.grad
    MaskedTensor(
      [      --,   1.0000]
    )
    """
    MaskedTensor(data.detach() if isinstance(data, Tensor) else data, mask)  # raises
    return masked_of(data, mask, dense=False)
