"""What programs ask of the one accelerator of the machine: this build has none."""

from __future__ import annotations

from typing import Any

__all__ = ["current_accelerator", "device_count", "is_available", "set_device_index"]


def is_available() -> bool:
    """False: the CPU is the only device.

    >>> weft.accelerator.is_available()
    False
    """
    return False


def device_count() -> int:
    """0.

    >>> weft.accelerator.device_count()
    0
    """
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None.

    >>> weft.accelerator.current_accelerator() is None
    True
    """
    return None


def set_device_index(device: Any, /) -> None:
    """RuntimeError: there is none to choose."""
    raise RuntimeError(
        "[set_device_index] expected an accelerator, got a build for the CPU (Cannot access "
        "accelerator device when none is available.)"
    )
