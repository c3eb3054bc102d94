"""Shapes, and views of a tensor under another one. PyTorch's semantics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from weft import _C
from weft._C import Size, Tensor
from weft.base.forms import attach, expect, method, tensor_property
from weft.composites.axes import given_sizes

__all__ = [
    "adjoint", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors",
    "meshgrid", "numel", "unravel_index",
]  # fmt: skip


def numel(input: Tensor) -> int:
    """The number of elements.

    >>> weft.numel(weft.ones(2, 3))
    6
    """
    expect("numel", input, Tensor, "a Tensor")
    return input.numel()


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to.

    RuntimeError for shapes that do not broadcast.

    >>> weft.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    out: list[int] = []
    for shape in shapes:
        if not isinstance(shape, (int, tuple, list)):
            raise RuntimeError(
                "[broadcast_shapes] expected ints, tuples or lists (Input shapes should be of type "
                f"ints, a tuple of ints, or a list of ints, got {shape})"
            )
        sizes = [shape] if isinstance(shape, int) else list(shape)
        if not all(isinstance(n, int) for n in sizes):
            raise TypeError(f"[broadcast_shapes] expected ints as sizes, got {sizes}")
        width = max(len(out), len(sizes))
        out = [1] * (width - len(out)) + out
        sizes = [1] * (width - len(sizes)) + sizes
        for i in reversed(range(width)):
            a, b = out[i], sizes[i]
            if a != b and 1 not in (a, b):
                raise RuntimeError(
                    f"[broadcast_shapes] expected shapes that broadcast, got others (The size of "
                    f"tensor a ({a}) must match the size of tensor b ({b}) at non-singleton "
                    f"dimension {i})"
                )
            if b < 0:
                raise ValueError(f"[broadcast_shapes] expected sizes of at least 0, got {sizes}")
            out[i] = b if a == 1 else a
    return Size(out)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, expanded to their common shape.

    >>> a, b = weft.broadcast_tensors(weft.ones(2, 1), weft.ones(3))
    >>> a.shape, b.shape
    (torch.Size([2, 3]), torch.Size([2, 3]))
    """
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t if t.shape == shape else t.expand(shape) for t in tensors)


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str = "ij") -> tuple[Tensor, ...]:
    """Grids of coordinates from 1-D tensors, in matrix ('ij') or Cartesian ('xy') order.

    Vectors of n, m, ... elements give as many tensors [n, m, ...], or [m, n, ...] with 'xy'.

    >>> weft.meshgrid(weft.arange(3), weft.arange(2), indexing="xy")[0].shape
    torch.Size([2, 3])
    """
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"[meshgrid] expected indexing 'ij' or 'xy', got {indexing!r}")
    axes: list[Any] = list(tensors)
    if not axes:
        raise RuntimeError(
            "[meshgrid] expected tensors, got none (meshgrid expects a non-empty TensorList)"
        )
    for t in axes:
        expect("meshgrid", t, Tensor, "tensors")
        if t.dim() > 1:
            raise RuntimeError(
                f"[meshgrid] expected vectors or numbers, got {t.dim()} dimensions "
                "(torch.meshgrid: "
                "Expected 0D or 1D tensor in the tensor list)"
            )
        if t.dtype is not axes[0].dtype:
            raise RuntimeError(
                f"[meshgrid] expected tensors of one dtype, got {axes[0].dtype} and {t.dtype} "
                "(meshgrid expects all tensors to have the same dtype)"
            )
    swap = indexing == "xy" and len(axes) >= 2
    if swap:
        axes[:2] = axes[1], axes[0]
    shape = tuple(t.numel() for t in axes)
    grids = []
    for i, t in enumerate(axes):
        view = [1] * len(axes)
        view[i] = -1
        grids.append(t.reshape(view).expand(shape))
    return (grids[1], grids[0], *grids[2:]) if swap else tuple(grids)


@method
def sum_to_size(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """self summed down to a size that broadcasts to its own: the inverse of `expand`.

    Raises: RuntimeError for another size.

    >>> weft.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    given = given_sizes("sum_to_size", sizes, size)
    lead = self.dim() - len(given)
    dims = [*range(lead)]
    for d, n in enumerate(given):
        if lead < 0 or n not in (1, self.shape[lead + d]):
            raise RuntimeError(
                f"[sum_to_size] expected a size that expands to {tuple(self.shape)}, got {given}"
            )
        if n == 1 and self.shape[lead + d] != 1:
            dims.append(lead + d)
    if not given:
        return self.sum()
    if not dims:
        return self
    out = self.sum(dims, keepdim=True)
    return out if lead == 0 else out.reshape(given)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Coordinates of places in a flattened tensor of `shape`, one tensor per dimension.

    Raises: ValueError for an index out of range or a negative size, TypeError for floats.

    >>> weft.unravel_index(weft.tensor([4, 5]), (2, 3))
    (tensor([1, 1]), tensor([1, 2]))
    """
    kind = indices.dtype
    if kind.is_floating_point or kind.is_complex or kind is _C.bool:
        raise TypeError(f"[unravel_index] expected integer indices, got {indices.dtype}")
    given: Any = shape if isinstance(shape, (list, tuple)) else [shape]
    if any(isinstance(n, Tensor) and n.dim() for n in given):
        raise TypeError("[unravel_index] expected an int or ints as shape, got a tensor")
    sizes = [int(n) for n in given]
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


# ---- at least so many dimensions


def _each(run: Callable[[Tensor], Tensor], tensors: tuple[Any, ...]) -> Any:
    """One tensor, or a tuple for several or for a sequence."""
    if len(tensors) == 1:
        if isinstance(tensors[0], Tensor):
            return run(tensors[0])
        tensors = tensors[0]
    return tuple(run(t) for t in tensors)


def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Tensors, 0-d ones as vectors of one element.

    >>> weft.atleast_1d(weft.tensor(2))
    tensor([2])
    """
    return _each(lambda t: t.reshape(1) if t.dim() == 0 else t, tensors)


def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Tensors of at least two dimensions; a vector becomes a row.

    >>> weft.atleast_2d(weft.tensor([1, 2]))
    tensor([[1, 2]])
    """

    def widen(t: Tensor) -> Tensor:
        return t.reshape(1, 1) if t.dim() == 0 else t.unsqueeze(0) if t.dim() == 1 else t

    return _each(widen, tensors)


def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:
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


# ---- transposes


@tensor_property
def T(self: Tensor) -> Tensor:
    """The dimensions in reverse order; for matrices, the transpose."""
    return self.permute(tuple(range(self.dim() - 1, -1, -1)))


@tensor_property
def H(self: Tensor) -> Tensor:
    """The transpose of a matrix (its conjugate, for complex numbers)."""
    if self.dim() not in (0, 2):
        raise RuntimeError(
            "[H] expected a matrix (tensor.H is only supported on matrices (2-D tensors)), got "
            f"{self.dim()} dimensions. Hint: mH is for batches of matrices"
        )
    return self.transpose(0, 1).conj() if self.dim() else self.conj()


def _matrix_transpose(self: Tensor) -> Tensor:
    """The last two dimensions swapped."""
    if self.dim() == 0:
        return self
    if self.dim() < 2:
        raise RuntimeError(
            f"[mT] expected a matrix or a batch of them, got {self.dim()} dimensions"
        )
    return self.transpose(-2, -1)


def _conjugate_transpose(self: Tensor) -> Tensor:
    """The conjugate transpose of matrices."""
    return _matrix_transpose(self).conj()


attach("mT", property(_matrix_transpose))
attach("mH", property(_conjugate_transpose))


@method
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of matrices, `mH`.

    [*, n, m] gives [*, m, n].

    >>> weft.adjoint(weft.tensor([[1j, 2]])).shape
    torch.Size([2, 1])
    """
    if input.dim() == 1:
        raise RuntimeError(
            f"[adjoint] expected a matrix or a batch of them, got {input.dim()} dimensions "
            "(tensor.adjoint() is only supported on matrices or batches of matrices.)"
        )
    return _conjugate_transpose(input)
