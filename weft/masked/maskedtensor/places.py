"""Masked tensors whose data and mask are sparse, of the same places: what has no place is hidden.

Rules run where no class of tensors is asked, so what is here reads the parts of a sparse tensor
(Note [Sparse tensors]); of a dense one the cells are itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import weft
from weft import _C, Tensor
from weft.base.names import layout as layout_type
from weft.base.names import sparse_coo, strided
from weft.sparse.tensor import Parts, SparseTensor, coalesce, keys, places, shell

__all__ = [
    "cells", "flat_place", "in_layout", "layout_of", "like", "on_places_of", "same_places",
    "to_strided",
]  # fmt: skip


def layout_of(x: Tensor) -> layout_type:
    """The layout, below the classes too."""
    return x._parts.layout if isinstance(x, SparseTensor) else strided


def cells(x: Tensor) -> Tensor:
    """The elements that it has: of a sparse tensor the values."""
    return x._parts.values if isinstance(x, SparseTensor) else x


def like(x: Tensor, values: Tensor) -> Tensor:
    """A tensor with these cells where those of `x` are."""
    return shell(x._parts.with_values(values), x.shape) if isinstance(x, SparseTensor) else values


def same_places(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one layout and shape have cells at the same places."""
    if not isinstance(a, SparseTensor) or not isinstance(b, SparseTensor):
        return True
    first, second = places(a._parts), places(b._parts)
    return first is second or (first.shape == second.shape and bool((first == second).all()))


def to_strided(x: Tensor) -> Tensor:
    """Dense, 0 or False where it has no cell."""
    if not isinstance(x, SparseTensor):
        return x
    out = weft.zeros(x.shape, dtype=x.dtype)
    out[tuple(places(x._parts))] = x._parts.values
    return out


def on_places_of(mask: Tensor, data: Tensor) -> tuple[Tensor, Tensor]:
    """Data and mask of one layout with each place once: where they have others in number, the data
    get those of the mask."""
    if not isinstance(mask, SparseTensor) or not isinstance(data, SparseTensor):
        return data, mask
    data, mask = coalesce(data), coalesce(mask)
    if places(data._parts).shape[1] != places(mask._parts).shape[1]:
        values = to_strided(data)[tuple(places(mask._parts))]
        data = shell(mask._parts.with_values(values), data.shape)
    return data, mask


def in_layout(
    data: Tensor, mask: Tensor, wanted: layout_type, shape: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Data and mask in another layout; sparse ones keep what the mask shows."""
    if layout_of(data) is wanted:
        return data, mask
    data, mask = to_strided(data), to_strided(mask)
    if wanted is strided:
        return data, mask
    found = mask.nonzero().t()
    if wanted is sparse_coo:
        kept = Parts(wanted, found, None, None, data[mask], True)
    else:
        if len(shape) != 2:
            raise ValueError(
                f"[to_sparse_csr] expected a matrix, got shape {tuple(shape)} (Only 2D tensors can "
                f"be converted to the SparseCsr layout but got shape: {weft.Size(shape)})"
            )
        rows = weft.zeros(shape[0] + 1, dtype=_C.int64)
        rows[1:] = mask.sum(1).cumsum(0)
        kept = Parts(wanted, None, rows, found[1], data[mask], True)
    return shell(kept, shape), shell(kept.with_values(mask[mask]), shape)


def flat_place(x: Tensor, place: Tensor) -> Tensor:
    """Of the number of a cell: where it is in the flattened tensor."""
    if not isinstance(x, SparseTensor):
        return place
    return keys(places(x._parts), tuple(x.shape)[: x._parts.sparse_dim])[place.long()]
