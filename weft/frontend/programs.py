"""Which functions become programs."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import NamedTuple

from weft.base.alias import home_name
from weft.frontend import Lowered, Outside, lower

# Packages whose functions gain nothing: they compute no tensors of weft.
_LEFT = frozenset({"numpy", "scipy", "pandas", "matplotlib", "PIL", "pytest", "_pytest", "tqdm"})
# Of the package itself, what layers and models of ONNX are made of; the rest is quick, or looks at
# frames.
_OWN = ("weft.nn.", "weft.onnx.operators.")
_OWN_LEFT = (
    "weft.nn.functional",
    "weft.nn.init",
    "weft.nn.module",
    "weft.nn.utils",
    "weft.nn.lazy",
)
# Modules whose functions ask who called them, and the names by which others do.
_FRAME_MODULES = frozenset({"inspect", "logging", "pdb", "traceback", "warnings"})
_LOOKS = frozenset(
    {
        "_getframe", "currentframe", "extract_stack", "format_stack", "logger", "logging",
        "print_stack", "set_trace", "warn", "warnings",
    }
)  # fmt: skip
# Those that stay Python's for it: on CPython 3.11 they see programs (python/program_frames.h).
_FRAME_NAMES = frozenset({"set_trace"}) if sys.version_info < (3, 12) else _LOOKS


class Left(NamedTuple):
    """Why a function stays Python's.

    `by_choice`: it could be a program and would gain nothing, or is a generator expression; else
    `line` is what is outside of the subset, and `hint` says what to write instead.
    `looks_at_frames`: it may ask who called.
    """

    reason: str
    hint: str = ""
    line: int = 0
    by_choice: bool = False
    looks_at_frames: bool = False


def left_because(function: FunctionType) -> str:
    """Why a function of this module stays Python's by choice; empty if it does not."""
    if mark := getattr(function, "_torchscript_modifier", "").replace("export", ""):
        return f"marked by jit.{mark}"
    module = home_name(function.__globals__.get("__name__") or "")
    top = module.partition(".")[0]
    if top == "weft":
        if module.startswith(_OWN) and not module.startswith(_OWN_LEFT):
            return ""
        return "of weft itself"
    if top in _LEFT or top in sys.stdlib_module_names and top != "__main__":
        return f"of the package {top}"
    return ""


def lowered_for(function: FunctionType) -> Lowered | Left:
    """The instructions of a function, or why it stays Python's."""
    looks = _looks_at_frames(function)
    if reason := left_because(function):
        return Left(reason, by_choice=True, looks_at_frames=looks)
    if not _FRAME_NAMES.isdisjoint(function.__code__.co_names):
        (name, *_) = _FRAME_NAMES.intersection(function.__code__.co_names)
        return Left(f"{name} looks at frames", by_choice=True, looks_at_frames=True)
    try:
        return lower(function)
    except Outside as outside:
        # it runs as far as whoever has it asks, which a list would not
        generator = function.__code__.co_name == "<genexpr>"
        return Left(outside.reason, outside.hint, outside.line, generator, looks)
    except RecursionError:
        return Left("it was met near the limit of recursion", looks_at_frames=looks)


def _looks_at_frames(function: FunctionType) -> bool:
    """Whether it may ask which frames are around it."""
    module = home_name(function.__globals__.get("__name__") or "")
    return module in _FRAME_MODULES or not _LOOKS.isdisjoint(function.__code__.co_names)
