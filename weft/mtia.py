"""What programs ask before they use an MTIA: this build has none."""

from __future__ import annotations

from typing import Any

from weft._C import Tensor
from weft.base.absent import Guard, raises

__all__ = [
    "current_device", "current_stream", "default_stream", "device", "device_count", "empty_cache",
    "get_device_capability", "get_device_properties", "get_rng_state", "get_rng_state_all", "init",
    "is_available", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "memory_allocated", "memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "synchronize",
]  # fmt: skip


def _cannot(what: str) -> Any:
    return raises(RuntimeError, f"Cannot execute {what}() without MTIA backend.")


current_device = synchronize = current_stream = default_stream = _cannot("getCurrentDevice")
get_device_capability = get_device_properties = set_rng_state = current_device
empty_cache, set_device = _cannot("emptyCache"), _cannot("setCurrentDevice")
init = get_rng_state = raises(AssertionError, "Torch not compiled with MTIA enabled.")


class device(Guard):
    """The scope of an MTIA: RuntimeError on entering."""

    kind, text = "mtia", "Cannot execute maybeExchangeDevice() without MTIA backend."


def is_available() -> bool:
    """False: the CPU is the only device."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def _is_in_bad_fork() -> bool:
    return False


def device_count() -> int:
    """0."""
    return 0


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_allocated


def memory_stats(device: Any = None) -> dict[str, Any]:
    """No counts."""
    return {}


def manual_seed(seed: int) -> None:
    """Nothing to seed without an MTIA."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed without an MTIA."""


def seed() -> None:
    """Nothing to seed without an MTIA."""


def seed_all() -> None:
    """Nothing to seed without an MTIA."""


def get_rng_state_all() -> list[Tensor]:
    """No states."""
    return []
