"""What programs ask before they use a GPU: this build has none."""

from typing import Any

from weft.base.device import expect_cpu


def is_available() -> bool:
    """False: the CPU is the only device."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed without a GPU; `weft.manual_seed` seeds the CPU's generator."""


manual_seed_all = manual_seed


def is_initialized() -> bool:
    """False."""
    return False


def empty_cache() -> None:
    """Nothing is cached there."""


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no GPU."""
    return False


def seed() -> None:
    """Nothing to seed without a GPU."""


seed_all = seed


def _missing(*args: Any, **kwargs: Any) -> None:
    """Raises AssertionError, as PyTorch's CPU build does."""
    expect_cpu("cuda")


current_device = synchronize = set_device = get_device_name = get_device_properties = _missing
get_device_capability = current_stream = default_stream = _missing
Event = Stream = stream = get_rng_state = set_rng_state = mem_get_info = _missing
reset_peak_memory_stats = memory_stats = memory_summary = _missing


def __getattr__(name: str) -> Any:
    """`weft.cuda.amp` loads with its first use."""
    from weft.base import lazy as _lazy

    if name != "amp":
        import sys

        raise _lazy.missing(sys.modules[__name__], name)
    import importlib

    return importlib.import_module("weft.cuda.amp")
