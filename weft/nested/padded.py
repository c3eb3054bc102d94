"""Nested tensors as padded dense ones, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.nested.parts import rows
from weft.nested.tensor import NestedTensor

__all__ = ["TABLE", "to_padded_tensor"]


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Sequence[int] | None = None, out: Any = None
) -> Tensor:
    """All parts in one dense tensor, each followed by `padding`.

    Args:
        input: a nested tensor without holes.
        padding: what stands behind the rows of a part.
        output_size: the size of the result; of its ragged dimension as long as the longest part
            where that is known, else as all parts together (as in PyTorch: `max_seqlen=` of
            `nested_tensor_from_jagged` makes it known).
        out: where the result is written.

    Raises:
        RuntimeError: the parts have holes, or a dense dimension of `output_size` is too small.

    >>> import weft
    >>> x = weft.nested.nested_tensor([[1], [2, 3]], layout=weft.jagged)
    >>> weft.nested.to_padded_tensor(x, 0)
    tensor([[1, 0],
            [2, 3]])
    """
    return _written(out, _padded(input, padding, output_size))


def _written(out: Any, padded: Tensor) -> Tensor:
    return padded if out is None else out.resize_(padded.shape).copy_(padded)


def _padded(x: Tensor, padding: float, output_size: Sequence[int] | None) -> Tensor:
    if not isinstance(x, NestedTensor):
        x.to_padded_tensor(padding, output_size)  # which raises
    assert isinstance(x, NestedTensor)
    jagged, r = x._jagged, x._ragged_idx
    if jagged.lengths is not None:
        raise RuntimeError(
            "[to_padded_tensor] expected parts without holes, got lengths (to_padded_tensor(): not "
            "supported for nested tensors with holes). Hint: contiguous() first"
        )
    values = rows(x)
    if x._is_strided:
        jagged.longest()
    most = values.shape[0] if jagged.most is None else jagged.most
    if output_size is not None:
        most = output_size[r]
    places, within = jagged.part_of_row, jagged.place_in_part
    if most < jagged.longest():
        if x._is_strided:
            raise _too_small(output_size)
        kept = within < most
        values, places, within = values[kept], places[kept], within[kept]
    shape = (jagged.parts, most, *values.shape[1:])
    empty = weft.full(shape, padding, dtype=values.dtype)
    out = empty.index_put((places, within), values)
    out = out.movedim(1, r) if r > 1 else out
    return out if output_size is None else _widened(out, padding, output_size)


def _too_small(output_size: Any) -> RuntimeError:
    return RuntimeError(
        f"[to_padded_tensor] expected room for all parts, got output_size={output_size} (Value in "
        "output_size is less than NestedTensor padded size. Truncation is not supported.)"
    )


def _widened(out: Tensor, padding: float, output_size: Sequence[int]) -> Tensor:
    """With dense dimensions as long as wanted."""
    more = [want - have for want, have in zip(output_size, out.shape, strict=True)]
    if min(more) < 0:
        raise _too_small(output_size)
    if not any(more):
        return out
    ends = [n for size in reversed(more) for n in (0, size)]
    padded: Tensor = weft.nn.functional.pad(out, ends, value=padding)
    return padded


def _rule(
    func: Callable[..., Any], input: NestedTensor, padding: float, output_size: Any = None,
    out: Any = None,
) -> Tensor:  # fmt: skip
    return _written(out, _padded(input, padding, output_size))


TABLE: dict[str, Callable[..., Any]] = {"to_padded_tensor": _rule}
