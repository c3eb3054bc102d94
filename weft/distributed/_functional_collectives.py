"""Exchanges as functions that give new tensors, as far as one process needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft._C import Tensor
from weft.distributed.distributed_c10d import get_world_size

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
    """Rows given to every process of a group, through which gradients flow: those of one process.

    Raises: NotImplementedError for a group of several; RuntimeError for other numbers of rows.
    """
    if get_world_size(group) != 1:
        raise NotImplementedError(
            "[all_to_all_single_autograd] expected a group of one process, got one of "
            f"{get_world_size(group)}. Hint: distributed.all_to_all_single has no gradients"
        )
    for sizes in (output_split_sizes, input_split_sizes):
        if sizes is not None and list(sizes) != [self.shape[0]]:
            raise RuntimeError(
                f"[all_to_all_single_autograd] expected all {self.shape[0]} rows, got {sizes} "
                "(Split sizes doesn't match total dim 0 size)"
            )
    return self.clone()
