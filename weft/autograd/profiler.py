"""The older profiler, `autograd.profiler.profile`, by `weft.profiler`; and `record_function`."""

from __future__ import annotations

from typing import Any

_NAMES = (
    "EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "profile",
    "record_function",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        import importlib

        return getattr(importlib.import_module("weft.profiler.older"), name)
    import sys

    from weft.base import lazy as _lazy

    raise _lazy.missing(sys.modules[__name__], name)


def __dir__() -> list[str]:
    return sorted(_NAMES)
