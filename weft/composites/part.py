"""A piece of a tensor written. PyTorch's semantics.

Functions that write a piece (`select_scatter` and its like) write into a copy through a view, so
the gradient of both sides is that of the copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import weft
from weft import _C
from weft._C import Tensor
from weft.base.forms import forms, method

__all__ = [
    "as_strided_scatter", "diagflat", "diagonal_scatter", "fill_diagonal_", "select_scatter",
    "slice_scatter",
]  # fmt: skip


@method
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with the flattened input on a diagonal.

    n elements give [n + |offset|, n + |offset|].

    >>> weft.diagflat(weft.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    return weft.diag_embed(input.reshape(-1), offset)


@method
def fill_diagonal_(input: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Writes a number on the main diagonal; in a tall matrix with `wrap` again after each gap.

    Raises: RuntimeError for a vector, or for more than two dimensions of unlike sizes.

    >>> weft.zeros(2, 2).fill_diagonal_(1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if input.dim() < 2 or (input.dim() > 2 and len(set(input.shape)) != 1):
        raise RuntimeError(
            "[fill_diagonal_] expected a matrix or equal sizes in all dimensions, got "
            f"{tuple(input.shape)}"
        )
    if input.dim() > 2:
        places = weft.arange(input.shape[0], device=input.device)
        input[(places,) * input.dim()] = fill_value
        return input
    rows, columns = input.shape
    input.diagonal().fill_(fill_value)
    if wrap:
        for start in range(columns + 1, rows, columns + 1):
            input[start:].diagonal().fill_(fill_value)
    return input


def _written(who: str, out: Tensor, piece: Tensor, src: Tensor) -> Tensor:
    if piece.shape != src.shape:
        raise RuntimeError(
            f"[{who}] expected a src of the piece's shape {tuple(piece.shape)}, got "
            f"{tuple(src.shape)}"
        )
    piece.copy_(src)
    return out


@method
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of the input with `src` at `index` along `dim`.

    Of the input's shape; `src` has the input's shape without `dim`.

    >>> weft.select_scatter(weft.zeros(2, 2), weft.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    out = input.clone()
    return _written("select_scatter", out, out.select(dim, index), src)


@forms(method=True, out=True)
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of the input with `src` at `start:end:step` along `dim`.

    Of the input's shape; `src` has the shape of the slice.

    >>> weft.slice_scatter(weft.zeros(3), weft.ones(2), start=1)
    tensor([0., 1., 1.])
    """
    out = input.clone()
    piece = _C.ops.slice(out, dim, start, end, step)
    return _written("slice_scatter", out, piece, src)


@method
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of the input with `src` on a diagonal.

    Of the input's shape; `src` has the shape of `diagonal(input, offset, dim1, dim2)`.

    >>> weft.diagonal_scatter(weft.zeros(2, 2), weft.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    out = input.clone()
    return _written("diagonal_scatter", out, out.diagonal(offset, dim1, dim2), src)


@method
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy of the input with `src` written through `as_strided(size, stride, storage_offset)`.

    Of the input's shape; `src` has the shape `size`.

    >>> weft.as_strided_scatter(weft.zeros(3), weft.ones(2), (2,), (2,))
    tensor([1., 0., 1.])
    """
    out = input.clone(memory_format=weft.contiguous_format)
    return _written(
        "as_strided_scatter", out, out.as_strided(size, stride, storage_offset or 0), src
    )
