"""Joining and cutting. PyTorch's semantics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any, cast

import weft
from weft import _C
from weft._C import Tensor
from weft.base.checks import also_named
from weft.base.forms import forms, method
from weft.composites.shape import atleast_2d, meshgrid

__all__ = [
    "block_diag", "cartesian_prod", "column_stack", "combinations", "dsplit", "hsplit",
    "tensor_split", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "vsplit",
]  # fmt: skip


@forms(out=True)
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined side by side; vectors count as columns.

    [n] (as [n, 1]) and [n, a] give [n, 1 + a].

    >>> weft.column_stack([weft.tensor([1, 2]), weft.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    if not tensors:
        raise RuntimeError(
            "[column_stack] expected tensors, got none (column_stack expects a non-empty "
            "TensorList)"
        )
    return weft.cat([t.reshape(-1, 1) if t.dim() <= 1 else t for t in tensors], 1)


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given ones along its diagonal; vectors count as rows.

    Raises: RuntimeError for a tensor of more than two dimensions.

    >>> weft.block_diag(weft.tensor([1, 2]), weft.tensor([[3]]))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    if not tensors:
        return weft.empty(1, 0)
    for i, t in enumerate(tensors):
        if t.dim() > 2:
            raise RuntimeError(
                f"[block_diag] expected matrices, got {t.dim()} dimensions (torch.block_diag: "
                "Input tensors must have 2 or fewer dimensions. Input "
                f"{i} has {t.dim()} dimensions)"
            )
    kind = tensors[0].dtype
    for t in tensors[1:]:
        kind = kind if t.dtype is kind else weft.promote_types(kind, t.dtype)
    blocks = [t if t.dim() == 2 else atleast_2d(t) for t in tensors]
    blocks = [b if b.dtype is kind else b.to(kind) for b in blocks]
    return _C.ops._block_diag(blocks)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of 1-D tensors, one per row.

    Vectors of n, m, ... elements give [n m ..., number of vectors].

    >>> weft.cartesian_prod(weft.tensor([1, 2]), weft.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    for t in tensors:
        if t.dim() != 1:
            raise RuntimeError(
                f"[cartesian_prod] expected vectors, got {t.dim()} dimensions (Expect a 1D vector, "
                f"but got shape {list(t.shape)})"
            )
    if len(tensors) == 1:
        return tensors[0]
    return weft.stack([g.reshape(-1) for g in meshgrid(*tensors)], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector `(n, r)`, in the order of itertools.

    >>> weft.combinations(weft.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    import itertools

    if input.dim() != 1:
        raise RuntimeError(
            f"[combinations] expected a vector, got {input.dim()} dimensions (Expect a 1D vector, "
            f"but got shape {list(input.shape)})"
        )
    if r < 0:
        raise RuntimeError(f"[combinations] expected r of at least 0, got {r}")
    if r == 0:
        return weft.empty(0, dtype=input.dtype, device=input.device)
    rows = input.shape[0]
    count = math.comb(rows + r - 1 if with_replacement and rows else rows, r)
    if count == 0:
        return input[weft.empty(0, r, dtype=_C.int64, device=input.device)]
    if count * r >= 2**32:
        raise RuntimeError(
            f"[combinations] expected a result that fits in memory, got {count} choices of {r}"
        )
    if r == 2:
        return input[weft.triu_indices(rows, rows, 0 if with_replacement else 1).t()]
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(choose(range(input.shape[0]), r))
    places = weft.tensor(chosen, dtype=_C.int64, device=input.device).reshape(len(chosen), r)
    return input[places]


# ---- cutting


def _cut(who: str, input: Tensor, where: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    if input.dim() < least:
        raise RuntimeError(
            f"[{who}] expected more dimensions, got {input.dim()} (torch.{who} requires a tensor "
            "with "
            f"at least {least} dimension, but got a tensor with {input.dim()} dimensions!)"
        )
    if not isinstance(where, (list, tuple)):
        where = index(where)
        if where < 1 or input.shape[dim] % where:
            raise RuntimeError(
                f"[{who}] expected a number of sections that divides the size {input.shape[dim]} "
                f"of dimension {dim}, got {where}"
            )
    return weft.tensor_split(input, where, dim)


_PARTS = also_named(sections="indices_or_sections", indices="indices_or_sections")


@method
@_PARTS
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """`tensor_split` along columns, for a vector along itself. Sections are of equal size.

    >>> weft.hsplit(weft.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return _cut("hsplit", input, indices_or_sections, 0 if input.dim() == 1 else 1, 1)


@method
@_PARTS
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """`tensor_split` along rows, of at least two dimensions. Sections are of equal size.

    >>> weft.vsplit(weft.tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1, 2]]), tensor([[3, 4]]))
    """
    return _cut("vsplit", input, indices_or_sections, 0, 2)


@method
@_PARTS
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """`tensor_split` along the third dimension. Sections are of equal size.

    >>> [part.shape for part in weft.dsplit(weft.ones(1, 2, 4), 2)]
    [torch.Size([1, 2, 2]), torch.Size([1, 2, 2])]
    """
    return _cut("dsplit", input, indices_or_sections, 2, 3)


@method
@also_named(
    sections="indices_or_sections", indices="indices_or_sections",
    tensor_indices_or_sections="indices_or_sections",
)  # fmt: skip
def tensor_split(
    input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0
) -> tuple[Tensor, ...]:
    """Views of parts along `dim`: that many of about equal size, or cut before the indices.

    >>> weft.tensor_split(weft.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if input.dim() == 0:
        raise RuntimeError(
            "[tensor_split] expected at least one dimension, got a 0-d tensor (tensor_split "
            "expected at least a 1-dimensional tensor, but got a tensor with 0 dims)"
        )
    size = input.shape[dim]
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.dim() > 1:
            raise RuntimeError(
                "[tensor_split] expected a tensor of at most one dimension as "
                f"tensor_indices_or_sections, got one of {indices_or_sections.dim()}"
            )
        indices_or_sections = indices_or_sections.tolist()
    if not isinstance(indices_or_sections, (list, tuple)):
        indices_or_sections = index(cast(int, indices_or_sections))
        if indices_or_sections <= 0:
            raise RuntimeError(
                "[tensor_split] expected parts, got none (number of sections must be larger than "
                "0, "
                f"got {indices_or_sections})"
            )
        small, more = divmod(size, indices_or_sections)
        if small == 0 and indices_or_sections > 2**26:  # as the core, whose tuples end there
            raise RuntimeError(
                f"[tensor_split] expected at most {2**26} parts, got {indices_or_sections}"
            )
        starts = [k * small + min(k, more) for k in range(indices_or_sections)]
        return tuple([  # each a view of its own, which may be written
            input.narrow(dim, start, small + (k < more)) for k, start in enumerate(starts)
        ])  # fmt: skip
    cuts = [0]
    parts = []
    for cut in [*map(index, indices_or_sections), size]:
        start = cuts[-1]
        stop = min(max(cut + size if cut < 0 else cut, 0), size)  # as a slice takes it
        parts.append(input.narrow(dim, start, max(stop - start, 0)))
        cuts.append(stop)
    return tuple(parts)


@method
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`. (PyTorch's lets parts be written that the graph needs; here that is an error.)

    Parts of [*, n, *] are [*, ceil(n / chunks), *], the last one may be smaller.

    >>> weft.unsafe_chunk(weft.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return input.chunk(chunks, dim)


@method
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`. See `unsafe_chunk`.

    Parts of [*, n, *] are [*, split_size, *], the last one may be smaller.

    >>> weft.unsafe_split(weft.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return input.split(split_size, dim)


@method
def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """`split` with sizes. See `unsafe_chunk`.

    >>> weft.unsafe_split_with_sizes(weft.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return input.split(list(split_sizes), dim)
