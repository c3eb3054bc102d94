"""Which functions become programs."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import NamedTuple

from weft.frontend import Lowered, Outside, lower

# Packages whose functions gain nothing: they compute no tensors of weft.
_LEFT = frozenset({"numpy", "scipy", "pandas", "matplotlib", "PIL", "pytest", "_pytest", "tqdm"})
# Of the package itself, what layers are made of; the rest is quick, or looks at frames.
_OWN = ("weft.nn.",)
_OWN_LEFT = (
    "weft.nn.functional",
    "weft.nn.init",
    "weft.nn.module",
    "weft.nn.utils",
    "weft.nn.lazy",
)


class Left(NamedTuple):
    """Why a function stays Python's.

    `by_choice`: it could be a program and would gain nothing; else `line` is what is outside of the
    subset, and `hint` says what to write instead.
    """

    reason: str
    hint: str = ""
    line: int = 0
    by_choice: bool = False


def left_because(function: FunctionType) -> str:
    """Why a function of this module stays Python's by choice; empty if it does not."""
    module = function.__globals__.get("__name__") or ""
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
    if reason := left_because(function):
        return Left(reason, by_choice=True)
    try:
        return lower(function)
    except Outside as outside:
        return Left(outside.reason, outside.hint, outside.line)
