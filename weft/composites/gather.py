"""Reducing into places. PyTorch's semantics."""

from __future__ import annotations

from weft import _C
from weft._C import Tensor
from weft.base.forms import forms

__all__ = ["index_reduce", "scatter_reduce"]


@forms(method=True, inplace=True, out=True)
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """The input with `src` reduced into the places that `scatter` would write.

    `reduce`: "sum", "prod", "mean", "amax" or "amin"; without `include_self` what stood in those
    places does not count.

    Raises: RuntimeError for another reduction or an index out of range.

    Of the input's shape; `index` and `src` have as many dimensions.

    >>> x = weft.zeros(2)
    >>> x.scatter_reduce(0, weft.tensor([0, 0, 1]), weft.tensor([1.0, 3.0, 2.0]), "amax")
    tensor([3., 2.])
    """
    return _C.ops._scatter_reduce(input, dim, index, src, reduce, include_self)


@forms(method=True, inplace=True, out=True)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """The input with slices of `source` reduced into the places along `dim` that a vector names.

    `reduce`: "prod", "mean", "amax" or "amin".

    Of the input's shape; `index` is [k], `source` has size k at `dim` and else the input's sizes.

    >>> i = weft.tensor([0, 0])
    >>> weft.index_reduce(weft.ones(2), 0, i, weft.tensor([2.0, 3.0]), "prod")
    tensor([6., 1.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"[index_reduce] expected reduce to be prod, mean, amax or amin, got {reduce}"
        )
    if index.dim() > 1:
        raise IndexError(
            f"[index_reduce] expected a vector of indices, got {index.dim()} dims (Index "
            "is supposed to be a vector)"
        )
    count = source.shape[dim] if source.dim() else 1
    if index.numel() != count:
        raise RuntimeError(
            f"[index_reduce] expected as many indices as source.size(dim), {count}, got "
            f"{index.numel()} (Number of indices should be equal to source.size(dim))"
        )
    shapes = [[*t.shape] for t in (input, source)]
    for sizes in shapes:
        del sizes[dim : dim + 1 or None]
    if shapes[0] != shapes[1] or input.dim() != source.dim():
        raise RuntimeError(
            f"[index_reduce] expected a source of the input's shape {tuple(input.shape)} but for "
            f"dim {dim}, got {tuple(source.shape)}"
        )
    shape = [1] * max(source.dim(), 1)
    shape[dim] = -1
    places = index.reshape(shape).expand(source.shape) if source.dim() else index.reshape(())
    return _C.ops._scatter_reduce(input, dim, places, source, reduce, include_self)
