"""`torch.classes`: classes of libraries that a program may have loaded. None is here."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


class _Library:
    """The classes of one library: asking for one raises RuntimeError."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            f"Tried to instantiate class '{self._name}.{name}', but it does not exist! Ensure that "
            "it is registered via torch::class_"
        )


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _Library(name)
