"""Operators on sequences, which are lists, and rows of loops."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import helper, operator, single


@helper
def stacked(
    rows: list[Tensor], sizes: list[int], dtype: weft.dtype, axis: int = 0, backwards: bool = False
) -> Tensor:
    """The rows of a loop as one tensor; of no turns, an empty one with the sizes that are known."""
    if not rows:
        at = axis % (len(sizes) + 1)
        return weft.zeros([*sizes[:at], 0, *sizes[at:]], dtype=dtype)
    return weft.stack(rows[::-1] if backwards else rows, axis)


@operator("SequenceAt", numbers=["position"])
def sequence_at(input_sequence: list[Tensor], position: Any) -> Tensor:
    """The tensor at a place."""
    return input_sequence[single(position)]


@operator("SequenceInsert", numbers=["position"])
def sequence_insert(input_sequence: list[Tensor], tensor: Tensor, position: Any = None) -> Any:
    """With a tensor more, before a place or at the end."""
    if position is None:
        return [*input_sequence, tensor]
    at = single(position)
    return [*input_sequence[:at], tensor, *input_sequence[at:]]


@operator("SequenceErase", numbers=["position"])
def sequence_erase(input_sequence: list[Tensor], position: Any = None) -> Any:
    """Without the tensor at a place, or the last."""
    at = (len(input_sequence) - 1 if position is None else single(position)) % len(input_sequence)
    return [*input_sequence[:at], *input_sequence[at + 1 :]]


@operator("SequenceLength")
def sequence_length(input_sequence: list[Tensor]) -> Tensor:
    """How many tensors there are."""
    return weft.tensor(len(input_sequence))


@operator("ConcatFromSequence")
def concat_from_sequence(input_sequence: list[Tensor], *, axis: int, new_axis: int = 0) -> Tensor:
    """One tensor of all."""
    if new_axis:
        return weft.stack(input_sequence, axis)
    return weft.cat(input_sequence, axis)


@operator("SplitToSequence", numbers=["split"])
def split_to_sequence(input: Tensor, split: Any = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    """Parts: of one, of a size, or of given sizes."""
    if split is None:
        parts = weft.split(input, 1, axis)
        return [*parts] if keepdims else [weft.squeeze(p, axis) for p in parts]
    return [*weft.split(input, split, axis)]
