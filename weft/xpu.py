"""What programs ask before they use an Intel GPU: this build has none."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from weft._C import Tensor
from weft.base.absent import Guard, StreamScope, raises, raising_class

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device",
    "device_count", "device_of", "empty_cache", "get_arch_list", "get_device_capability",
    "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "init",
    "initial_seed", "is_available", "is_bf16_supported", "is_initialized", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "set_rng_state_all", "set_stream", "stream", "synchronize",
]  # fmt: skip

_missing = raises(AssertionError, "Torch not compiled with XPU enabled")
current_device = current_stream = get_device_capability = get_device_name = _missing
get_device_properties = get_rng_state = init = initial_seed = mem_get_info = _missing
reset_accumulated_memory_stats = reset_peak_memory_stats = _missing
set_device = set_stream = synchronize = _lazy_init = _missing

Stream = raising_class(
    "Stream", __name__, RuntimeError, "Tried to instantiate dummy base class Stream",
    "A stream of an Intel GPU. RuntimeError: there is none.",
)  # fmt: skip
Event = raising_class(
    "Event", __name__, RuntimeError, "Tried to instantiate dummy base class Event",
    "An event of an Intel GPU. RuntimeError: there is none.",
)  # fmt: skip


class StreamContext(StreamScope):
    """The scope of a stream: without a GPU it changes nothing."""


def stream(stream: Stream | None) -> StreamContext:  # type: ignore[valid-type]
    """The scope of a stream: without a GPU it changes nothing."""
    return StreamContext(stream)


class device(Guard):
    """The scope of an Intel GPU: NotImplementedError on entering."""

    kind, error = "xpu", NotImplementedError
    text = "PyTorch was compiled without XPU support"


class device_of(device):  # noqa: N801
    """The scope of a tensor's Intel GPU: it has none, and nothing changes."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1 if not obj.is_xpu else obj.get_device())


def is_available() -> bool:
    """False: the CPU is the only device."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no GPU."""
    return False


def _is_in_bad_fork() -> bool:
    return False


def device_count() -> int:
    """0."""
    return 0


def get_arch_list() -> list[str]:
    """No architectures."""
    return []


def empty_cache() -> None:
    """Nothing is cached there."""


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """No counts."""
    return OrderedDict()


def manual_seed(seed: int) -> None:
    """Nothing to seed without a GPU."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed without a GPU."""


def seed() -> None:
    """Nothing to seed without a GPU."""


def seed_all() -> None:
    """Nothing to seed without a GPU."""


def get_rng_state_all() -> list[Tensor]:
    """No states: there are no GPUs."""
    return []


def set_rng_state(new_state: Tensor, device: Any = "xpu") -> None:
    """Nothing to set without a GPU."""


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Nothing to set for no GPUs. AssertionError for the state of one."""
    for _ in new_states:
        _missing()
