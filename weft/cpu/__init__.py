"""The CPU by the names that devices have: one, always there, with one stream.

>>> weft.cpu.is_available(), weft.cpu.device_count()
(True, 1)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from weft.base.absent import StreamScope
from weft.base.lazy import missing as _lacks

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream:
    """The one stream of the CPU."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to record."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event:
    """A place in the CPU's work, always reached."""

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


class StreamContext(StreamScope):
    """The scope of a stream: there is one, and nothing changes."""


_STREAM = Stream()


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def synchronize(device: Any = None) -> None:
    """Nothing to wait for: calls return when they are done."""


def current_device() -> str:
    """'cpu'."""
    return "cpu"


def current_stream(device: Any = None) -> Stream:
    """The one stream."""
    return _STREAM


def stream(stream: Stream) -> AbstractContextManager[None]:
    """The scope of a stream: there is one, and nothing changes."""
    return StreamContext(stream)


def device_count() -> int:
    """1."""
    return 1


def set_device(device: Any) -> None:
    """Nothing to choose."""


def __getattr__(name: str) -> Any:
    """`weft.cpu.amp` loads with its first use."""
    import importlib
    import sys

    if name == "amp":
        return importlib.import_module("weft.cpu.amp")
    raise _lacks(sys.modules[__name__], name)
