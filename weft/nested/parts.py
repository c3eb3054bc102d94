"""What is done to each part of a nested tensor: as one call, whose rows are those of all parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import weft
from weft import _C, Tensor
from weft.nested.tensor import Jagged, NestedTensor, alias, like, nested, raw

__all__ = [
    "from_rows", "joined", "loop", "mapped", "over_parts", "part", "parts", "rows", "sizes",
    "whole",
]  # fmt: skip


def whole(x: NestedTensor) -> NestedTensor:
    """`x` if its parts follow each other without holes, else a copy of which that holds."""
    jagged, d = x._jagged, x._ragged_idx - 1
    if jagged.is_whole(raw(lambda: x.shape[d])):
        return x
    packed = raw(lambda: x.index_select(d, jagged.rows))
    return nested(packed, jagged.without_holes, x._ragged_idx, x._is_strided)


def rows(x: NestedTensor) -> Tensor:
    """The values of `x`, which has no holes, with the rows of parts first: `[rows, ...]`."""
    d = x._ragged_idx - 1
    return raw(lambda: x.movedim(d, 0)) if d else alias(x)


def from_rows(x: NestedTensor, values: Tensor, ragged: int | None = None) -> NestedTensor:
    """Rows as `rows(x)` gives them, as a nested tensor whose dim `ragged` they are."""
    at = x._ragged_idx if ragged is None else ragged
    return like(x, raw(lambda: values.movedim(0, at - 1)) if at > 1 else values, at)


def sizes(jagged: Jagged, one: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shape of each part, whose rows are of shape `one`."""
    return [(n, *one) for n in jagged.counts]


def over_parts(op: str, shapes: list[Any], *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """The outputs of the op over all parts, 1-d: each part's elements after the other's.

    Args:
        op: the name of its record.
        shapes: for each of its inputs the shapes of all parts, or None if it is the same for all.
    """
    if weft.is_autocast_enabled("cpu"):
        args = _cast(op, args)
    return raw(lambda: _C._each(shapes, op, *args, **kwargs))


@functools.cache
def _casts() -> dict[str, str]:
    return {record["name"]: record["autocast"] for record in _C._records()}


def _cast(op: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments in the dtype that autocast runs the op in: a call by parts has been cast."""
    wanted = {"narrow": weft.get_autocast_dtype("cpu"), "float": _C.float32}.get(_casts()[op])
    some = (_C.float32, _C.float16, _C.bfloat16)

    def cast(a: Any) -> Any:
        return a.to(wanted) if isinstance(a, Tensor) and wanted and a.dtype in some else a

    return raw(lambda: tuple(cast(a) for a in args))


def mapped(result: Any, f: Callable[[Tensor], Any]) -> Any:
    """`f` of a result, or of each of several, in a tuple of the same class."""
    if isinstance(result, Tensor):
        return f(result)
    made, kind = [f(t) for t in result], type(result)
    return kind._make(made) if hasattr(kind, "_make") else kind(made)


def part(x: NestedTensor, i: int) -> Tensor:
    """Part `i`, a view."""
    start, count = x._jagged.starts[i], x._jagged.counts[i]
    return raw(lambda: x.narrow(x._ragged_idx - 1, start, count))


def parts(x: NestedTensor) -> tuple[Tensor, ...]:
    """All parts: views."""
    jagged, d = x._jagged, x._ragged_idx - 1
    if jagged.is_whole(raw(lambda: x.shape[d])):
        return raw(lambda: x.split(jagged.counts, d))
    if max((s + n for s, n in zip(jagged.starts, jagged.counts, strict=True)), default=0) > (
        size := raw(lambda: x.shape[d])
    ):
        raise RuntimeError(
            f"[unbind] expected offsets up to {size}, got greater ones (unbind(): nested tensor "
            "offsets and lengths do not match ragged_idx dimension)"
        )
    return tuple(part(x, i) for i in range(jagged.parts))


def loop(f: Callable[..., Tensor], *xs: Any) -> list[Tensor]:
    """`f` of each part of nested tensors and of each example of dense ones: one call for each."""
    cut = [parts(x) if isinstance(x, NestedTensor) else x.unbind() for x in xs]
    return [f(*one) for one in zip(*cut, strict=True)]


def joined(results: list[Tensor], ragged: int, is_strided: bool = False) -> NestedTensor:
    """Tensors that differ in dim `ragged - 1` alone, as a nested tensor."""
    counts = [r.shape[ragged - 1] for r in results]
    offsets = weft.tensor([0, *counts], dtype=_C.int64).cumsum(0)
    jagged = Jagged(offsets, None, min(counts), max(counts))
    return nested(weft.cat(results, ragged - 1), jagged, ragged, is_strided)
