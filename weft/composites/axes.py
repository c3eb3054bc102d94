"""What functions ask of the dimensions that they are given."""

from __future__ import annotations

from operator import index
from typing import Any


def wrap(who: str, dim: int, rank: int) -> int:
    size = max(rank, 1)
    if not -size <= dim < size:
        raise IndexError(
            f"[{who}] expected a dim that the tensor has, got {dim} (Dimension out of range "
            f"(expected to be in range of [{-size}, {size - 1}], but got {dim}))"
        )
    return dim % size


def given_sizes(who: str, sizes: tuple[Any, ...], size: Any) -> list[int]:
    """Sizes that are passed by place, one after another or in one list, or as `size=`.

    Raises: TypeError for what is none of these, or holds something else than ints.
    """
    if bool(sizes) == (size is not None):
        told = "multiple values for" if sizes else "missing"
        raise TypeError(f"[{who}] expected one size, got {told} argument 'size'")
    listed = sizes[0] if sizes and isinstance(sizes[0], (list, tuple)) else size or sizes
    if (len(sizes) > 1 and listed is not sizes) or not isinstance(listed, (list, tuple)):
        raise TypeError(f"[{who}] expected one list of sizes or several ints, got {sizes or size}")
    for n in listed:
        if isinstance(n, bool) or not hasattr(type(n), "__index__"):
            raise TypeError(f"[{who}] expected ints as sizes, got {type(n).__name__}")
    return [index(n) for n in listed]
