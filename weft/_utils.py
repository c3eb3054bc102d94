"""Helpers that packages ask `torch._utils` for."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import weft
from weft._C import Tensor
from weft.base.device import device as _device

__all__ = ["ExceptionWrapper", "KeyErrorMessage"]


class KeyErrorMessage(str):
    """A text that KeyError shows as it is."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception on its way to another thread or process, by type and text.

    Args:
        exc_info: of `sys.exc_info()`.
        where: where it happened, such as "in thread 1".
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self) -> None:
        """Raises an exception of the same type."""
        name = "Exception" if self.exc_type is None else self.exc_type.__name__
        make: Any = self.exc_type
        text = f"Caught {name} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            raise KeyError(KeyErrorMessage(text))
        try:
            error = make(message=text) if hasattr(make, "message") else make(text)
        except Exception:
            raise RuntimeError(text) from None
        raise error


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """The elements of all, one behind the other."""
    return weft.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Parts of `flat` in the shapes of `tensors`."""
    shapes = [t.shape for t in tensors]
    parts = flat.split([shape.numel() for shape in shapes])
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type, of at most `size_limit` bytes each where it is possible."""
    waiting: defaultdict[Any, tuple[list[Tensor], int]] = defaultdict(lambda: ([], 0))
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        kept, held = waiting[tensor.dtype]
        if kept and held + size > size_limit:
            yield kept
            kept, held = [], 0
        waiting[tensor.dtype] = ([*kept, tensor], held + size)
    for kept, _ in waiting.values():
        if kept:
            yield kept


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The tensors in the order in which those of their dtype stand in `ordered`."""
    by_kind: defaultdict[Any, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        by_kind[tensor.dtype].append(tensor)
    columns = {kind: iter(column) for kind, column in by_kind.items()}
    return tuple(next(columns[like.dtype]) for like in ordered)


def _element_size(dtype: Any) -> int:
    """Bytes of an element. RuntimeError for what is no dtype."""
    if not isinstance(dtype, weft.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _get_available_device_type() -> None:
    """None: there is no accelerator."""
    return None


def _get_all_device_indices() -> None:
    """None: there is no accelerator."""
    return None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number that a device's name or number says; -1 for the CPU, where it is allowed."""
    if isinstance(device, str):
        device = _device(device)
    if isinstance(device, _device):
        if device.type == "cpu":
            if allow_cpu:
                return -1
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        device = device.index
    if isinstance(device, int) or optional:
        return device if isinstance(device, int) else None
    raise ValueError(
        f"Expected a torch.device with a specified index or an integer, but got:{device}"
    )


def _import_dotted_name(name: str) -> Any:
    """What a dotted name stands for: the first part is a module."""
    first, *rest = name.split(".")
    found: Any = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A view of a storage."""
    whole: Tensor = storage._all()
    return whole.as_strided(tuple(size), tuple(stride), storage_offset)


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """A view of a storage, as pickles name it."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Any:
    """A sparse tensor of its parts, as pickles name it."""
    if layout in (weft.sparse_csr, weft.sparse_csc):
        return weft.sparse_compressed_tensor(*data, layout=layout, check_invariants=False)
    indices, values, size, *coalesced = data
    marked = bool(coalesced and coalesced[0])
    return weft.sparse_coo_tensor(
        indices, values, size, is_coalesced=marked, check_invariants=False
    )


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Any:
    """A Parameter, as pickles name it."""
    return weft.nn.Parameter(data, requires_grad)
