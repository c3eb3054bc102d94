"""What programs ask before they use a GPU: this build has none."""

from __future__ import annotations

from typing import Any

from weft.base.absent import Guard
from weft.base.device import device as _device
from weft.base.device import expect_cpu
from weft.cuda import graphs, memory, nvtx, profiler, random, sparse, streams
from weft.cuda.memory import *  # noqa: F403
from weft.cuda.random import *  # noqa: F403
from weft.cuda.streams import *  # noqa: F403
from weft.cuda.streams import graph as graph
from weft.cuda.streams import graph_pool_handle as graph_pool_handle
from weft.cuda.streams import is_current_stream_capturing as is_current_stream_capturing
from weft.cuda.streams import make_graphed_callables as make_graphed_callables
from weft.cuda.types import *  # noqa: F403

_initialized = False
has_half, has_magma = True, False
default_generators: tuple[Any, ...] = ()


class device(Guard):
    """The scope of a GPU: RuntimeError on entering; a negative number changes nothing."""


class device_of(device):  # noqa: N801
    """The scope of a tensor's GPU: it has none, and nothing changes."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1 if not obj.is_cuda else obj.get_device())


def is_available() -> bool:
    """False: the CPU is the only device.

    >>> weft.cuda.is_available()
    False
    """
    return False


def device_count() -> int:
    """0.

    >>> weft.cuda.device_count()
    0
    """
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def _is_in_bad_fork() -> bool:
    return False


def _is_compiled() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no GPU."""
    return False


def is_tf32_supported() -> bool:
    """False: there is no GPU."""
    return False


def get_arch_list() -> list[str]:
    """No architectures."""
    return []


def get_gencode_flags() -> str:
    """No flags."""
    return ""


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number that a device's name or number says; -1 for the CPU, where it is allowed."""
    if isinstance(device, str):
        device = _device(device)
    if isinstance(device, _device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        number = device.index
    else:
        number = device
    if isinstance(number, int):
        return number
    if optional:  # there is no current one
        return None
    raise ValueError(
        f"Expected a torch.device with a specified index or an integer, but got:{device}"
    )


def set_device(device: Any) -> None:
    """AssertionError: there is none to choose; a negative number changes nothing."""
    if (_get_device_index(device) or 0) >= 0:
        expect_cpu("cuda")


def _missing(*args: Any, **kwargs: Any) -> None:
    """Raises AssertionError, as PyTorch's CPU build does."""
    expect_cpu("cuda")


current_device = synchronize = get_device_name = get_device_properties = init = _missing
get_device_capability = current_stream = default_stream = set_stream = cudart = ipc_collect = (
    _missing
)
can_device_access_peer = current_blas_handle = get_sync_debug_mode = set_sync_debug_mode = _missing
_lazy_init = utilization = _missing


def __getattr__(name: str) -> Any:
    """`weft.cuda.amp` loads with its first use; the error about memory is the package's."""
    import importlib
    import sys

    from weft.base import lazy as _lazy

    if name == "amp":
        return importlib.import_module("weft.cuda.amp")
    if name == "OutOfMemoryError":
        return importlib.import_module("weft").OutOfMemoryError
    raise _lazy.missing(sys.modules[__name__], name)
