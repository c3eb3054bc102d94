"""What programs ask before they use Apple's GPU: this build has none."""

from __future__ import annotations

from typing import Any

from weft.base.absent import raises, raising_class

__all__ = [
    "Event", "compile_shader", "current_allocated_memory", "device_count",
    "driver_allocated_memory", "empty_cache", "get_rng_state", "is_available", "manual_seed",
    "recommended_max_memory", "seed", "set_per_process_memory_fraction", "set_rng_state",
    "synchronize",
]  # fmt: skip


def _cannot(what: str) -> Any:
    return raises(RuntimeError, f"Cannot execute {what}() without MPS backend.")


get_rng_state = seed = set_rng_state = _cannot("getDefaultGenerator")
synchronize = _cannot("deviceSynchronize")
empty_cache = _cannot("emptyCache")
current_allocated_memory = _cannot("getCurrentAllocatedMemory")
driver_allocated_memory = _cannot("getDriverAllocatedMemory")
recommended_max_memory = _cannot("getRecommendedMaxMemory")
set_per_process_memory_fraction = _cannot("setMemoryFraction")
compile_shader = raises(RuntimeError, "MPS is not available")
Event = raising_class(
    "Event", __name__, RuntimeError, "Cannot execute acquireEvent() without MPS backend.",
    "An event of Apple's GPU. RuntimeError: there is none.",
)  # fmt: skip


def is_available() -> bool:
    """False: the CPU is the only device."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed without a GPU."""


def _is_in_bad_fork() -> bool:
    return False
