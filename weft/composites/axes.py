"""What functions ask of the dimensions that they are given."""

from __future__ import annotations


def wrap(who: str, dim: int, rank: int) -> int:
    size = max(rank, 1)
    if not -size <= dim < size:
        raise IndexError(f"[{who}] expected a dim in [{-size}, {size - 1}], got {dim}")
    return dim % size
