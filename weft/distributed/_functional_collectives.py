"""Exchanges as functions that give new tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft._C import Tensor
from weft.distributed.nn.functional import all_to_all_single

__all__ = ["all_to_all_single_autograd", "wait_tensor"]


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: exchanges are complete when they return."""
    return tensor


def all_to_all_single_autograd(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any = None,
    tag: str = "",
) -> Tensor:
    """Rows given to every process of a group, through which gradients flow.

    Raises: RuntimeError for sizes that are not those of the rows.
    """
    rows = sum(output_split_sizes) if output_split_sizes else self.shape[0]
    output = self.new_empty((rows, *self.shape[1:]))
    return all_to_all_single(output, self, output_split_sizes, input_split_sizes, group)
