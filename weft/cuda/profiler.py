"""NVIDIA's profiler, which is not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.base.absent import raises

__all__ = ["profile", "start", "stop"]

start = stop = raises(AssertionError, "Torch not compiled with CUDA enabled")


@contextmanager
def profile() -> Iterator[None]:
    """A scope that is profiled. AssertionError on entering."""
    start()
    yield
