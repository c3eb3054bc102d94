"""Gradients exchanged as they are, or in fewer bits.

Each hook takes the group (None: all processes) as its state, and the bucket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.modes import no_grad
from weft.distributed.exchanges import all_reduce
from weft.distributed.reducer import GradBucket
from weft.distributed.world import get_world_size
from weft.futures import Future

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
    "fp16_compress_wrapper",
]  # fmt: skip


def _allreduce_fut(group: Any, buffer: Tensor) -> Future[Any]:
    with no_grad():
        buffer.div_(get_world_size(group))
    work = all_reduce(buffer, group=group, async_op=True)
    assert work is not None  # it is of the group
    return work.get_future().then(lambda done: done.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The average, in the gradients' own dtype."""
    return _allreduce_fut(process_group, bucket.buffer())


def _narrowed(kind: _C.dtype, group: Any, bucket: GradBucket) -> Future[Any]:
    with no_grad():
        narrow = bucket.buffer().to(kind)
    wide = bucket.buffer().dtype
    return _allreduce_fut(group, narrow).then(lambda done: done.value().to(wide))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The average, sent as float16: half of float32's bytes."""
    return _narrowed(weft.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The average, sent as bfloat16: half of float32's bytes, and its range."""
    return _narrowed(weft.bfloat16, process_group, bucket)


_Hook = Callable[[Any, GradBucket], Future[Any]]


def _wrapped(kind: _C.dtype, hook: _Hook) -> _Hook:
    def wrapper(state: Any, bucket: GradBucket) -> Future[Any]:
        wide = bucket.buffer().dtype
        with no_grad():
            narrow = bucket.with_buffer(bucket.buffer().to(kind))
        return hook(state, narrow).then(lambda done: done.value().to(wide))

    return wrapper


def fp16_compress_wrapper(hook: _Hook) -> _Hook:
    """A hook that gives another one the gradients as float16."""
    return _wrapped(weft.float16, hook)


def bf16_compress_wrapper(hook: _Hook) -> _Hook:
    """A hook that gives another one the gradients as bfloat16."""
    return _wrapped(weft.bfloat16, hook)
