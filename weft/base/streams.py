"""`weft.Stream` and `weft.Event`: the CPU has one stream, in which everything is done at once."""

from __future__ import annotations

from typing import Any

from weft.base.device import device as _device

__all__ = ["Event", "Stream"]


def _place(given: Any, kind: str) -> _device:
    place = _device("cpu" if given is None else given)
    if place.type not in ("cpu", "meta"):
        raise RuntimeError(
            f"[{kind}] expected device 'cpu', got '{place}' (PyTorch is not linked with support "
            f"for {place.type} devices)"
        )
    return place


class Stream:
    """The order in which a device works. The CPU's is that of the calls.

    Raises: RuntimeError for another device, and for events, which the CPU has not.

    >>> weft.Stream().query()
    True
    """

    stream_id = 0
    device_index = -1

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device = _place(device, "Stream")

    def query(self) -> bool:
        """True: all is done."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Event | None = None) -> Event:
        """RuntimeError: the CPU has no events."""
        raise RuntimeError(f"{self.device.type} backend doesn't support events.")

    def wait_event(self, event: Event) -> None:
        """Nothing to wait for."""

    def wait_stream(self, stream: Stream) -> None:
        """RuntimeError: the CPU has no events."""
        self.record_event()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device))

    def __repr__(self) -> str:
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, "
            f"stream_id={self.stream_id}"
        )


class Event:
    """A place in the work of a device. On the CPU it is always reached, and cannot be recorded.

    Raises: RuntimeError for another device, and for `record`.

    >>> weft.Event("cpu").query()
    True
    """

    event_id = 0

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _place(device, "Event")
        self.enable_timing = enable_timing

    def record(self, stream: Stream | None = None) -> None:
        """RuntimeError: the CPU has no events."""
        raise RuntimeError(f"{self.device.type} backend doesn't support events.")

    def query(self) -> bool:
        """True."""
        return True

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: Event) -> float:
        """ValueError: no time was recorded."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise ValueError("Both events must be recorded before calculating elapsed time.")

    def __repr__(self) -> str:
        return (
            f"torch.Event device_type={self.device.type}, device_index=-1, event_flag=0, event_id=0"
        )
