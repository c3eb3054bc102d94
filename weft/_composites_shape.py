"""Shapes, pieces and views, made of the table's operators. PyTorch's semantics.

Functions that write a piece (`select_scatter` and its like) write into a copy through a view, so
the gradient of both sides is that of the copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor

__all__ = [
    "as_strided_scatter", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "column_stack",
    "combinations", "diagflat", "diagonal_scatter", "dsplit", "fill_diagonal_", "hsplit",
    "narrow_copy", "rot90", "scalar_tensor", "select_scatter", "slice_scatter",
    "tensor_split", "tril_indices", "triu_indices", "unravel_index", "unsafe_chunk",
    "unsafe_split", "unsafe_split_with_sizes", "vander", "vsplit",
]  # fmt: skip
METHODS = [
    "as_strided_scatter", "diagflat", "diagonal_scatter", "dsplit", "fill_diagonal_", "hsplit",
    "narrow_copy", "rot90", "select_scatter", "slice_scatter", "tensor_split", "unsafe_chunk",
    "unsafe_split", "unsafe_split_with_sizes", "vsplit",
]  # fmt: skip
OUT = [
    "column_stack", "narrow_copy", "slice_scatter",
]  # fmt: skip


# ---- at least so many dimensions


def _each(run: Callable[[Tensor], Tensor], tensors: tuple[Any, ...]) -> Any:
    """One tensor, or a tuple for several or for a sequence."""
    if len(tensors) == 1:
        if isinstance(tensors[0], Tensor):
            return run(tensors[0])
        tensors = tensors[0]
    return tuple(run(t) for t in tensors)


def atleast_1d(*tensors: Any) -> Any:
    """Tensors, 0-d ones as vectors of one element.

    >>> weft.atleast_1d(weft.tensor(2))
    tensor([2])
    """
    return _each(lambda t: t.reshape(1) if t.dim() == 0 else t, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors of at least two dimensions; a vector becomes a row.

    >>> weft.atleast_2d(weft.tensor([1, 2]))
    tensor([[1, 2]])
    """

    def widen(t: Tensor) -> Tensor:
        return t.reshape(1, 1) if t.dim() == 0 else t.unsqueeze(0) if t.dim() == 1 else t

    return _each(widen, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors of at least three dimensions; a vector becomes `(1, n, 1)`, a matrix `(m, n, 1)`.

    >>> weft.atleast_3d(weft.ones(2)).shape
    torch.Size([1, 2, 1])
    """

    def widen(t: Tensor) -> Tensor:
        if t.dim() == 0:
            return t.reshape(1, 1, 1)
        if t.dim() == 1:
            return t.unsqueeze(0).unsqueeze(-1)
        return t.unsqueeze(-1) if t.dim() == 2 else t

    return _each(widen, tensors)


# ---- joining and cutting


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined side by side; vectors count as columns.

    >>> weft.column_stack([weft.tensor([1, 2]), weft.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
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
    for t in tensors:
        if t.dim() > 2:
            raise RuntimeError(f"[block_diag] expected 2 or fewer dimensions, got {t.dim()}")
    kind = tensors[0].dtype
    for t in tensors[1:]:
        kind = weft.promote_types(kind, t.dtype)
    blocks = [atleast_2d(t).to(kind) for t in tensors]
    width = sum(b.shape[1] for b in blocks)
    rows, start = [], 0
    for b in blocks:
        height, size = b.shape
        left = weft.zeros(height, start, dtype=kind)
        right = weft.zeros(height, width - start - size, dtype=kind)
        rows.append(weft.cat([left, b, right], 1))
        start += size
    return weft.cat(rows, 0)


def _cut(who: str, input: Tensor, where: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    if input.dim() < least:
        raise RuntimeError(
            f"[{who}] expected a tensor with at least {least} dimension(s), got {input.dim()}"
        )
    if not isinstance(where, (int, list, tuple, Tensor)):
        raise TypeError(f"[{who}] expected a number or indices, got {type(where).__name__}")
    if isinstance(where, int):
        if where < 1 or input.shape[dim] % where:
            raise RuntimeError(
                f"[{who}] expected a number of sections that divides the size {input.shape[dim]} "
                f"of dimension {dim}, got {where}"
            )
    return weft.tensor_split(input, where, dim)


def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along columns, for a vector along itself. Sections are of equal size.

    >>> weft.hsplit(weft.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return _cut("hsplit", input, indices_or_sections, 0 if input.dim() == 1 else 1, 1)


def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along rows, of at least two dimensions. Sections are of equal size."""
    return _cut("vsplit", input, indices_or_sections, 0, 2)


def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the third dimension. Sections are of equal size."""
    return _cut("dsplit", input, indices_or_sections, 2, 3)


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`. (PyTorch's lets parts be written that the graph needs; here that is an error.)"""
    return input.chunk(chunks, dim)


def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`. See `unsafe_chunk`."""
    return input.split(split_size, dim)


def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """`split` with sizes. See `unsafe_chunk`."""
    return input.split(list(split_sizes), dim)


def fill_diagonal_(input: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Writes a number on the main diagonal; in a tall matrix with `wrap` again after each gap.

    Raises: RuntimeError for a vector, or for more than two dimensions of unlike sizes.
    """
    if input.dim() < 2 or (input.dim() > 2 and len(set(input.shape)) != 1):
        raise RuntimeError(
            "[fill_diagonal_] expected a matrix or equal sizes in all dimensions, got "
            f"{tuple(input.shape)}"
        )
    if input.dim() > 2:
        places = weft.arange(input.shape[0])
        input[(places,) * input.dim()] = fill_value
        return input
    rows, columns = input.shape
    input.diagonal().fill_(fill_value)
    if wrap:
        for start in range(columns + 1, rows, columns + 1):
            input[start:].diagonal().fill_(fill_value)
    return input


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts along `dim`: that many of about equal size, or cut before the indices."""
    size = input.shape[dim]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(
                f"[tensor_split] expected a positive number of sections, got {indices_or_sections}"
            )
        small, more = divmod(size, indices_or_sections)
        if small == 0 and indices_or_sections > 2**26:  # as the core, whose tuples end there
            raise RuntimeError(
                f"[tensor_split] expected at most {2**26} parts, got {indices_or_sections}"
            )
        sizes = [small + (k < more) for k in range(indices_or_sections)]
        return tuple(input.split(sizes, dim))
    cuts = [0]
    parts = []
    for cut in [*map(int, indices_or_sections), size]:
        start, _, _ = slice(cuts[-1], None).indices(size)
        _, stop, _ = slice(None, cut).indices(size)
        parts.append(input.narrow(dim, start, max(stop - start, 0)))
        cuts.append(cut)
    return tuple(parts)


# ---- order


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by k quarters in the plane of two dims, from the first towards the second.

    Raises: RuntimeError unless `dims` are two different ones.

    >>> weft.rot90(weft.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2 or dims[0] % max(input.dim(), 1) == dims[1] % max(input.dim(), 1):
        raise RuntimeError(f"[rot90] expected two different dims, got {dims}")
    first, second = dims
    if k % 4 == 1:
        return input.flip(second).transpose(first, second).clone()
    if k % 4 == 2:
        return input.flip((first, second))
    if k % 4 == 3:
        return input.flip(first).transpose(first, second).clone()
    return input.clone()


# ---- triangles, diagonals, powers


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with the flattened input on a diagonal."""
    return weft.diag_embed(input.reshape(-1), offset)


def _triangle(row: int, col: int, offset: int, lower: bool, dtype: Any) -> Tensor:
    if row < 0 or col < 0:
        raise RuntimeError(f"[tril_indices] expected sizes of at least 0, got {row} and {col}")
    distance = weft.arange(col) - weft.arange(row).unsqueeze(1)
    inside = distance <= offset if lower else distance >= offset
    return inside.nonzero().t().contiguous().to(_C.int64 if dtype is None else dtype)


def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """Row and column numbers `(2, n)` of a lower triangle, row by row.

    >>> weft.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle(row, col, offset, True, dtype)


def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """Row and column numbers `(2, n)` of an upper triangle, row by row."""
    return _triangle(row, col, offset, False, dtype)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of a vector's elements as columns, falling unless `increasing`.

    >>> weft.vander(weft.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    if x.dim() != 1:
        raise RuntimeError(f"[vander] expected a vector, got {x.dim()} dimensions")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"[vander] expected N of at least 0, got {count}")
    powers = weft.arange(count)
    return x.unsqueeze(-1) ** (powers if increasing else powers.flip(0))


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector `(n, r)`, in the order of itertools.

    >>> weft.combinations(weft.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    import itertools

    if input.dim() != 1:
        raise RuntimeError(f"[combinations] expected a vector, got {input.dim()} dimensions")
    if r < 0:
        raise RuntimeError(f"[combinations] expected r of at least 0, got {r}")
    if r == 0:
        return weft.empty(0, dtype=input.dtype)
    rows = input.shape[0]
    count = math.comb(rows + r - 1 if with_replacement and rows else rows, r)
    if count == 0:
        return input[weft.empty(0, r, dtype=_C.int64)]
    if count * r >= 2**32:
        raise RuntimeError(
            f"[combinations] expected a result that fits in memory, got {count} choices of {r}"
        )
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(choose(range(input.shape[0]), r))
    places = weft.tensor(chosen, dtype=_C.int64).reshape(len(chosen), r)
    return input[places]


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Coordinates of places in a flattened tensor of `shape`, one tensor per dimension.

    Raises: ValueError for an index out of range or a negative size, TypeError for floats.

    >>> weft.unravel_index(weft.tensor([4, 5]), (2, 3))
    (tensor([1, 1]), tensor([1, 2]))
    """
    if indices.dtype.is_floating_point or indices.dtype is _C.bool:
        raise ValueError(f"[unravel_index] expected integer indices, got {indices.dtype}")
    sizes = [shape] if isinstance(shape, int) else [int(n) for n in shape]
    if any(n < 0 for n in sizes):
        raise ValueError(f"[unravel_index] expected sizes of at least 0, got {tuple(sizes)}")
    total = math.prod(sizes)
    if indices.numel() and bool(((indices < -total) | (indices >= total)).any()):
        raise ValueError(f"[unravel_index] expected indices in [-{total}, {total}), got others")
    rest = indices % max(total, 1)
    out = []
    for n in reversed(sizes):
        out.append(rest % max(n, 1))
        rest = rest // max(n, 1)
    return tuple(reversed(out))


def scalar_tensor(
    s: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A 0-d tensor, of the default dtype if none is given."""
    kind = weft.get_default_dtype() if dtype is None else dtype
    return weft.full((), s, dtype=kind, requires_grad=requires_grad)


# ---- a copy with a piece written


def _written(who: str, out: Tensor, piece: Tensor, src: Tensor) -> Tensor:
    if piece.shape != src.shape:
        raise RuntimeError(
            f"[{who}] expected a src of the piece's shape {tuple(piece.shape)}, got "
            f"{tuple(src.shape)}"
        )
    piece.copy_(src)
    return out


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of the input with `src` at `index` along `dim`.

    >>> weft.select_scatter(weft.zeros(2, 2), weft.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    out = input.clone()
    return _written("select_scatter", out, out.select(dim, index), src)


def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of the input with `src` at `start:end:step` along `dim`."""
    out = input.clone()
    piece = _C.ops.slice(out, dim, start, end, step)
    return _written("slice_scatter", out, piece, src)


def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of the input with `src` on a diagonal."""
    out = input.clone()
    return _written("diagonal_scatter", out, out.diagonal(offset, dim1, dim2), src)


def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy of the input with `src` written through `as_strided(size, stride, storage_offset)`."""
    out = input.clone(memory_format=weft.contiguous_format)
    return _written(
        "as_strided_scatter", out, out.as_strided(size, stride, storage_offset or 0), src
    )


def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `narrow`."""
    return input.narrow(dim, start, length).clone()


# ---- copies of views


def _copying(name: str) -> Callable[..., Any]:
    def copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        out = getattr(_C.ops, name)(input, *args, **kwargs)
        if isinstance(out, Tensor):
            return out.clone(memory_format=weft.contiguous_format)
        return tuple(t.clone(memory_format=weft.contiguous_format) for t in out)

    copy.__name__ = copy.__qualname__ = name + "_copy"
    copy.__doc__ = f"A copy of `{name}`, which is a view."
    return copy


for _name in (
    "as_strided", "detach", "diagonal", "expand", "permute", "select", "slice", "split",
    "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view",
):  # fmt: skip
    if hasattr(_C.ops, _name):
        globals()[_name + "_copy"] = _copying(_name)
        __all__.append(_name + "_copy")
        OUT.append(_name + "_copy")


def alias_copy(input: Tensor) -> Tensor:
    """A copy."""
    return input.clone(memory_format=weft.contiguous_format)


__all__.append("alias_copy")
OUT.append("alias_copy")
