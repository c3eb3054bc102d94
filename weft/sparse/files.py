"""Sparse tensors in pickles, in the form that PyTorch's have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.sparse.tensor import COMPRESSED, SparseTensor

__all__ = ["reduced"]


def reduced(x: SparseTensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What rebuilds it: a function, and the layout with indices, values and shape."""
    from weft._utils import _rebuild_sparse_tensor

    parts = x._parts
    if parts.layout in COMPRESSED:
        whole: tuple[Any, ...] = (parts.compressed, parts.plain, parts.values, x.shape)
    else:
        whole = (parts.indices, parts.values, x.shape, parts.coalesced)
    return _rebuild_sparse_tensor, (parts.layout, whole)
