"""Helpers around training: checkpoints of activations, data, DLPack, counts, logs."""

from __future__ import annotations

from types import ModuleType

from weft.utils import checkpoint, dlpack

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "flop_counter"]

#: Modules that load when they are first named: not every program has a use for them.
_LAZY = ("benchmark", "data", "flop_counter", "hooks", "tensorboard")


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        import importlib

        return importlib.import_module(f"weft.utils.{name}")
    import sys

    from weft.base import lazy as _lazy

    raise _lazy.missing(sys.modules[__name__], name)
