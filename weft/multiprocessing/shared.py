"""Storages in memory that processes share: anonymous files, mapped.

A file has no name, so nothing is left behind by a process that is killed. A child of `fork` has the
mapping; others get the descriptor through multiprocessing's own way of handing one on.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import time
import weakref
from collections.abc import Callable
from multiprocessing import reduction, resource_sharer, util
from multiprocessing.reduction import ForkingPickler
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.nn.parameter import Buffer, Parameter
from weft.utils.data.channel import _memory_file

__all__ = ["init_reductions", "is_shared", "share_memory_", "wait_until_fetched"]


class _Memory(mmap.mmap):
    """A mapping that knows its descriptor, and closes it at its end."""

    descriptor: int

    def __init__(self, *_: Any, **__: Any) -> None:
        self._close = os.close  # at exit modules are emptied before the last tensors go

    def __del__(self) -> None:
        self._close(self.descriptor)


#: The mappings under living tensors, by address.
_mappings: weakref.WeakValueDictionary[int, _Memory] = weakref.WeakValueDictionary()


def _map(descriptor: int, size: int) -> _Memory:
    """Takes the descriptor over."""
    try:
        memory = _Memory(descriptor, size, flags=mmap.MAP_SHARED)
    except BaseException:
        os.close(descriptor)
        raise
    memory.descriptor = descriptor
    _mappings[_C._over(memory, _C.uint8, 0, (size,), (1,)).data_ptr()] = memory
    return memory


def is_shared(t: Tensor) -> bool:
    """Whether other processes see what is written into the tensor."""
    return t._storage_info()[0] in _mappings


def share_memory_(self: Tensor) -> Tensor:
    """Moves the tensor's storage to shared memory, in place; returns self.

    Processes made by `fork` from now on, and those that get the tensor by a queue or as an argument
    of `weft.multiprocessing`, read and write the same memory. Tensors that were views of the same
    storage before keep the old one.

    >>> weft.zeros(2).share_memory_().is_shared()
    True
    """
    if self.is_meta:
        raise RuntimeError(
            "[share_memory_] expected a tensor with memory, got one of the meta device "
            "(_share_fd_: only available on CPU)"
        )
    if is_shared(self):
        return self
    address, size, offset = self._storage_info()
    descriptor = _memory_file()
    try:
        os.ftruncate(descriptor, max(size, 1))
    except BaseException:
        os.close(descriptor)
        raise
    memory = _map(descriptor, max(size, 1))
    if size:
        memory[:size] = memoryview(_C._over(self, _C.uint8, 0, (size,), (1,)))
    with weft.no_grad():
        self.data = _C._over(
            memory, self.dtype, offset * self.itemsize, tuple(self.shape), self.stride()
        )
    return self


def _rebuild(
    handle: Any, size: int, kind: _C.dtype, offset: int, shape: Any, stride: Any, cls: Any,
    requires_grad: bool, attributes: dict[str, Any],
) -> Tensor:  # fmt: skip
    """The tensor of another process, over the same memory."""
    memory = _map(handle.detach(), size)
    out = _C._over(memory, kind, offset * kind.itemsize, shape, stride)
    if cls is Parameter:
        out = Parameter(out, requires_grad)
    else:
        out = out if cls is None else Tensor._make_subclass(cls, out)
        out.requires_grad_(requires_grad)
    if attributes:
        out.__dict__.update(attributes)
    return out


#: How long a process that ends waits for its tensors to be fetched, in seconds.
_GRACE = 5.0


def wait_until_fetched(is_receiver_alive: Callable[[], bool]) -> None:
    """A descriptor is fetched from the process that sent it, which must not have ended by then."""
    cache = resource_sharer._resource_sharer._cache  # type: ignore[attr-defined]
    end = time.monotonic() + _GRACE
    while cache and is_receiver_alive() and time.monotonic() < end:
        time.sleep(0.002)


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_until_fetched(parent.is_alive)


def _wait_at_exit(_: Any = None) -> None:
    # After the feeders of queues, whose priority is -5.
    util.Finalize(None, _wait_for_parent, exitpriority=-10)


def _reduce(t: Tensor) -> Any:
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError(
            "[multiprocessing] expected tensors outside the graph, got one that requires grad "
            "(Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue).)"
        )
    share_memory_(t)
    address, _, offset = t._storage_info()
    memory = _mappings[address]
    handle = reduction.DupFd(memory.descriptor)
    return _rebuild, (
        handle, len(memory), t.dtype, offset, tuple(t.shape), t.stride(),
        None if type(t) is Tensor else type(t), t.requires_grad, dict(t.__dict__),
    )  # fmt: skip


def init_reductions() -> None:
    """From now on multiprocessing hands tensors on as shared memory."""
    for kind in (Tensor, Parameter, Buffer):
        ForkingPickler.register(kind, _reduce)
    _wait_at_exit()
    util.register_after_fork(_mappings, _wait_at_exit)  # a child of fork starts without finalizers
