"""Marks for NVIDIA's profiler: it is not there, and every mark raises, as in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.base.absent import raises

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_missing = raises(RuntimeError, "NVTX functions not installed. Are you sure you have a CUDA build?")
mark = range_push = range_pop = range_start = range_end = _missing


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:  # noqa: A001
    """A scope that is marked. RuntimeError on entering."""
    range_push(msg.format(*args, **kwargs))
    yield
