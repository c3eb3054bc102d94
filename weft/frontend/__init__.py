"""From a Python function to instructions, by its source.

`lower(function)` reads the source of a function and gives a `Lowered`: numbered registers,
constants, and instructions with structured regions, generic in the arguments, the globals and the
free variables, as bytecode is, and made once per code object. What runs it is elsewhere.

Reading guide:

- `ir`: what is handed on (`Lowered`, `Instr`), and `Outside`, the reason why a function is not
- `source`: finds the syntax tree of a code object, and makes sure that it is the one it runs
- `scope`: which names are locals, which of them inner functions use, which are global
- `offsets`: the bytecode instruction that does what a place in the source says, for tracebacks
- `emit`: registers, constants, the instructions so far; what is bound at this point
- `expressions`, `functions`, `lower`: the lowering, in CPython's order of evaluation
- `explain`: all that is outside, where the lowering stops at the first
"""

from __future__ import annotations

import ast
import contextlib
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import CodeType, FunctionType, MethodType
from typing import Any

from weft.frontend.ir import INLINED_SHIFT, Inlined, Instr, Kept, Lowered, Outside
from weft.frontend.lower import Lowering
from weft.frontend.source import find

__all__ = [
    "INLINED_SHIFT", "Inlined", "Instr", "Kept", "Lowered", "Outside", "lower", "lower_tree",
    "outside_of",
]  # fmt: skip

# By the identity of the code object, as they compare by value and without their file. Both go with
# it, so a `Lowered` is kept without its own.
_lowered: dict[int, tuple[Lowered, weakref.ref[CodeType]]] = {}
_refused: dict[int, tuple[tuple[Any, ...], weakref.ref[CodeType]]] = {}
_lock = threading.RLock()


def lower(function: Callable[..., Any] | CodeType) -> Lowered:
    """A function in instructions, made once per code object.

    Args:
        function: a function, a method or a code object.

    Raises:
        Outside: it has no source, or one that is not what it runs, or is not in the subset.
        TypeError: it is no function of Python.
    """
    code, module = code_of(function, "lower")
    if (known := _lowered.get(id(code))) is None:
        with _lock:
            if (known := _lowered.get(id(code))) is None:
                return _lower(code, module)
    return replace(known[0], code=code)


def code_of(
    function: Callable[..., Any] | CodeType, who: str
) -> tuple[CodeType, dict[str, Any] | None]:
    """The code object of a function, and its globals."""
    if isinstance(function, MethodType):
        function = function.__func__
    if isinstance(function, FunctionType):
        return function.__code__, function.__globals__
    if isinstance(function, CodeType):
        return function, None
    raise TypeError(f"[{who}] expected a function of Python, got {type(function).__name__}")


def outside_of(function: Callable[..., Any] | CodeType) -> list[Outside]:
    """All that keeps a function, or functions that it makes, outside of the subset, by lines.

    The source is read anew. Of a part that is outside, such as a class definition, what stands in
    it is not looked at; two reasons in one line of the same kind are one. Functions that it calls
    are not looked at either. A function that is inside and makes none that is outside has no
    reasons.

    Args:
        function: a function, a method or a code object.

    Returns:
        The reasons; `function` says which function each keeps outside: the one that is asked
        about, by its own qualified name, or one that it makes, which then is Python's while the
        function around it is not, generator expressions among them.

    Raises:
        TypeError: it is no function of Python.
    """
    code, module = code_of(function, "outside_of")
    try:
        found = find(code, module)
    except Outside as reason:
        return [reason.of(code.co_qualname)]
    from weft.frontend.explain import Explaining

    lowering = Explaining(found.node, code, found.twin, found.owner, file=code.co_filename)
    lowering.found = []
    with contextlib.suppress(Outside):
        lowering.run()
    distinct = {reason.args: reason for reason in lowering.found}
    return sorted(distinct.values(), key=lambda reason: reason.line)


def _lower(code: CodeType, module: dict[str, Any] | None) -> Lowered:
    refused = _refused.get(id(code))
    if refused is None:
        try:
            found = find(code, module)
            file = code.co_filename
            lowered = Lowering(found.node, code, found.twin, found.owner, file=file).run()
            _remember(lowered)
            return lowered
        except Outside as reason:
            refused = _refuse(code, reason)
    raise Outside(*refused[0])


def _refuse(code: CodeType, reason: Outside) -> tuple[tuple[Any, ...], weakref.ref[CodeType]]:
    key = id(code)
    forget = weakref.ref(code, lambda _: _refused.pop(key, None) and None)
    _refused[key] = reason.args, forget
    return _refused[key]


def _remember(lowered: Lowered) -> None:
    """Keeps it and the functions that it makes, or why these are none."""
    if lowered.code is not None:
        key = id(lowered.code)
        forget = weakref.ref(lowered.code, lambda _: _lowered.pop(key, None) and None)
        _lowered[key] = replace(lowered, code=None), forget
    for inner in lowered.inner:
        if isinstance(inner, Lowered):
            _remember(inner)
        elif inner.code is not None:
            _refuse(inner.code, inner.reason)


def lower_tree(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, owner: str | None = None
) -> Lowered:
    """The same from a syntax tree alone, of a function around which there are no others.

    Without a code object no offset is known, and inner functions have none of theirs: to read, not
    to run.

    Args:
        node: the function.
        owner: the class that it is a method of.

    Raises:
        Outside: it is not in the subset.
    """
    around = frozenset({"__class__"} if owner else ())
    return Lowering(node, None, None, owner, around).run()
