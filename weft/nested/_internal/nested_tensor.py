"""The class and the functions that packages take from PyTorch's path."""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.base.names import jagged
from weft.nested.create import as_nested_tensor, nested_tensor_from_jagged
from weft.nested.files import _rebuild_njt
from weft.nested.tensor import NestedTensor, alias

__all__ = [
    "NestedTensor", "_rebuild_njt", "buffer_from_jagged", "jagged_from_list",
    "nested_view_from_values_offsets", "nested_view_from_values_offsets_lengths",
]  # fmt: skip


def jagged_from_list(
    tensors: list[Tensor], offsets: Tensor | None, dtype: Any = None, device: Any = None
) -> tuple[Tensor, Tensor]:
    """`as_nested_tensor` of a list, or with offsets that are there, and its offsets."""
    made = as_nested_tensor(tensors, dtype, device, jagged)
    if offsets is not None:
        made = nested_tensor_from_jagged(alias(made), offsets)
    return made, made.offsets()  # type: ignore[attr-defined]


def nested_view_from_values_offsets(
    values: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """`nested_tensor_from_jagged`."""
    return nested_tensor_from_jagged(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets_lengths(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor | None,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """`nested_tensor_from_jagged`."""
    return nested_tensor_from_jagged(values, offsets, lengths, ragged_idx, min_seqlen, max_seqlen)


def buffer_from_jagged(jagged: Tensor) -> Tensor:  # noqa: F811
    """`values()`."""
    return alias(jagged)
