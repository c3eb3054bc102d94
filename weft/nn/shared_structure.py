"""Modules that change what they are made of inside an example of a batch.

A module, parameter, buffer or hook that an example adds to a module, puts in place of another or
takes away is seen by the examples after it, as in the plain loop: such a change waits for the
example's turn, and counts as one of what examples share (Note [Shared state] in
src/deferred/turn.h). Modules that an example makes are its own: they change freely.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from weft import _C

_makers: dict[int, tuple[ref[Any], int]] = {}  # by address: the module, the example that made it


def made(module: Any) -> None:
    """To be called when a module is made."""
    example = _C._example()
    if example:
        key = id(module)
        _makers[key] = ref(module, lambda _: _makers.pop(key, None)), example


def changes(module: Any) -> None:
    """To be called before a module's tables change; None: something that all modules share."""
    if _C._example():
        known = _makers.get(id(module))
        _C._change_object(known[1] if known is not None and known[0]() is module else 0)
