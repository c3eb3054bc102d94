"""Helpers around training: checkpointing of activations, loading of data, DLPack."""

from __future__ import annotations

from types import ModuleType

from weft.utils import checkpoint, dlpack

__all__ = ["checkpoint", "data", "dlpack"]


def __getattr__(name: str) -> ModuleType:
    """`data` is loaded when it is first named: not every program reads data with it."""
    if name == "data":
        import importlib

        return importlib.import_module("weft.utils.data")
    import sys

    from weft.base import lazy as _lazy

    raise _lazy.missing(sys.modules[__name__], name)
