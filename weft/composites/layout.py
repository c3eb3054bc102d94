"""In-place forms that change a tensor's layout, not its values: t_, unsqueeze_, resize_ ..."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.forms import attach, doc_after, function_of, method
from weft.composites.axes import given_sizes
from weft.storage import TypedStorage, UntypedStorage

__all__ = ["as_strided_", "resize_as_"]


def _in_place(name: str, summary: str) -> Callable[..., Tensor]:
    view = name.removesuffix("_")

    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return _C._become_view(self, name, lambda: getattr(self, view)(*args, **kwargs))

    run.__name__ = name
    run.__module__, run.__qualname__ = "weft", "Tensor." + name
    run.__doc__ = doc_after(
        f"{summary} In place: `{view}` of itself, in the same memory; returns self.",
        getattr(_C.ops, view, None),
    )
    return run


@method
def resize_(self: Tensor, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Gives self those sizes, row-major. Elements in memory stay; new ones are uninitialised.

    Where its storage is too small self moves to new memory, and views of the old one keep that.

    Raises: RuntimeError for a tensor that requires grad, or sizes that are negative or overflow.

    >>> weft.arange(6).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    if memory_format not in (None, weft.contiguous_format, weft.preserve_format):
        raise RuntimeError(f"[resize_] expected the contiguous format, got {memory_format}")
    return _C._resize(self, given_sizes("resize_", sizes, size))


@method
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the template's sizes.

    >>> weft.arange(4).resize_as_(weft.ones(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return resize_(input, the_template.shape, memory_format=memory_format)


def _laid_over(source: Any, dtype: Any, offset: int, size: Any, stride: Any) -> Any:
    if isinstance(source, Tensor):
        if source.dtype is not dtype:
            return source  # refused by its dtype
        source = source.untyped_storage()
    if not isinstance(source, (UntypedStorage, TypedStorage)):
        return source
    if isinstance(source, TypedStorage) and source.dtype is not dtype:
        raise RuntimeError(
            f"[set_] expected a storage of {dtype} or an UntypedStorage, got one of {source.dtype}"
        )
    if size is None:
        size = (source.nbytes() // dtype.itemsize - offset,)
    if stride is None:
        stride = [math.prod(max(n, 1) for n in size[d + 1 :]) for d in range(len(size))]
    try:
        return source._elements(dtype, offset * dtype.itemsize, size, stride)
    except ValueError as error:
        raise RuntimeError(str(error).replace("_over", "set_")) from None


@method
def set_(
    self: Tensor,
    source: Tensor | UntypedStorage | TypedStorage | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Makes self show the memory of a tensor or storage; without a source, none.

    `size` elements from `storage_offset` on, `stride` apart, in row-major order if that is None;
    without a size a tensor's own layout, all of a storage.

    Raises: RuntimeError if self requires grad, the dtypes differ or the memory is too small.

    >>> x = weft.arange(4.)
    >>> weft.empty(0).set_(x.untyped_storage(), 1, (2,))
    tensor([1., 2.])
    """
    if source is None:
        source = weft.empty(0, dtype=self.dtype, device=self.device)
    if isinstance(source, (UntypedStorage, TypedStorage)) or size is not None:
        source = _laid_over(source, self.dtype, storage_offset, size, stride)
    if not isinstance(source, Tensor):
        raise TypeError(f"[set_] expected a tensor, got {type(source).__name__}")
    if self.requires_grad:
        raise RuntimeError(
            "[set_] expected a tensor outside the graph, got one that requires grad. Hint: "
            "detach() it, or assign to .data"
        )
    if source.dtype is not self.dtype:
        raise RuntimeError(f"[set_] expected a source of {self.dtype}, got {source.dtype}")
    return _C._set(self, source)


for _name, _summary in (
    ("t_", "The transpose of a matrix."),
    ("transpose_", "Two dimensions exchanged."),
    ("swapaxes_", "Two dimensions exchanged."),
    ("swapdims_", "Two dimensions exchanged."),
    ("unsqueeze_", "With a new dimension of size 1."),
    ("squeeze_", "Without dimensions of size 1."),
    ("as_strided_", "Any layout over the storage."),
):
    attach(_name, _in_place(_name, _summary))

as_strided_ = function_of("as_strided_")
