"""Memory of a GPU: none is there, none is used."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from weft.base.absent import raises
from weft.cuda.streams import MemPool as MemPool

__all__ = [
    "MemPool", "caching_allocator_alloc", "empty_cache", "get_per_process_memory_fraction",
    "host_memory_stats", "max_memory_allocated", "max_memory_cached", "max_memory_reserved",
    "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved", "memory_snapshot",
    "memory_stats", "memory_stats_as_nested_dict", "memory_summary",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_memory_stats", "set_per_process_memory_fraction",
]  # fmt: skip

_missing = raises(AssertionError, "Torch not compiled with CUDA enabled")


def empty_cache() -> None:
    """Nothing is cached there."""


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
memory_cached = max_memory_cached = memory_allocated


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """No counts."""
    return OrderedDict()


def host_memory_stats() -> OrderedDict[str, Any]:
    """No counts."""
    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """No counts."""
    return {}


mem_get_info = caching_allocator_alloc = memory_snapshot = memory_summary = _missing
reset_peak_memory_stats = reset_accumulated_memory_stats = _missing
reset_max_memory_allocated = reset_max_memory_cached = _missing
get_per_process_memory_fraction = set_per_process_memory_fraction = _missing
