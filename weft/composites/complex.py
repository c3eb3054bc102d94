"""Complex numbers. PyTorch's semantics.

Conjugates and negatives are made, not marked, so what asks for the marks has one answer.
"""

from __future__ import annotations

from typing import Any

import weft
from weft._C import Tensor
from weft.base.forms import method, tensor_property

__all__ = ["conj_physical_", "is_conj", "is_neg", "resolve_conj", "resolve_neg"]


def real(self: Tensor) -> Tensor:
    """The real part, over the same memory; a real tensor itself. Assigning copies into it."""
    return weft.real(self)


def imag(self: Tensor) -> Tensor:
    """The imaginary part, over the same memory. Assigning copies into it.

    Raises: RuntimeError for real tensors.
    """
    return weft.imag(self)


def _fill(part: Tensor, value: Any) -> None:
    part[...] = value


tensor_property(real, lambda self, value: _fill(weft.real(self), value))
tensor_property(imag, lambda self, value: _fill(weft.imag(self), value))


@method
def __complex__(self: Tensor) -> complex:
    if self.numel() != 1:
        raise ValueError(
            f"[complex] expected one element, got shape {list(self.shape)} (only one element "
            "tensors can be converted to Python scalars)"
        )
    return complex(self.item())


@method
def is_conj(input: Tensor) -> bool:
    """False: conjugates are made, not marked.

    A tensor of any shape.

    >>> weft.is_conj(weft.tensor([1j]).conj())
    False
    """
    return False


@method
def resolve_conj(input: Tensor) -> Tensor:
    """`input`: conjugates are made, not marked.

    The shape stays.

    >>> weft.resolve_conj(weft.tensor([1j]).conj())
    tensor([0.-1.j])
    """
    return input


@method
def conj_physical_(input: Tensor) -> Tensor:
    """The conjugate, in place.

    The shape stays.

    >>> weft.conj_physical_(weft.tensor([1j]))
    tensor([0.-1.j])
    """
    return input.copy_(input.conj().clone())


@method
def is_neg(input: Tensor) -> bool:
    """False: negatives are made, not marked.

    A tensor of any shape.

    >>> weft.is_neg(weft.tensor([1j]).conj().imag)
    False
    """
    return False


@method
def resolve_neg(input: Tensor) -> Tensor:
    """`input`: negatives are made, not marked.

    The shape stays.

    >>> weft.resolve_neg(weft.tensor([1.0]))
    tensor([1.])
    """
    return input
