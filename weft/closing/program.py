"""From a function or Module to a package."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import weft
from weft.closing import known
from weft.closing.classes import (
    fields_of,
    hashes_otherwise,
    is_record,
    own_method,
    unwrapped,
)
from weft.closing.close import Again, Closer, State, Target, expect_no_hooks
from weft.closing.errors import NotExportable
from weft.closing.package import Package
from weft.closing.values import Ref, Static
from weft.compiler.function import innermost
from weft.compiler.module import OptimizedModule
from weft.frontend import Outside


def package_of(
    entries: dict[str, Callable[..., Any]],
    root: Any = None,
    keeps_training: bool = False,
    example: Any = (),
) -> Package:
    """The package of some functions or methods.

    Args:
        entries: what may be called from outside, by name.
        root: the Module whose parameters and buffers keep their names, if there is one.
        keeps_training: whether the package can be set to training and evaluation; else Modules
            are in the mode that they are in now.
        example: what the entries may be called with: its classes are the program's too.

    Raises:
        NotExportable: a line that no program without Python can run.
    """
    state = State(keeps_training)
    while True:
        package = Package()
        if isinstance(root, weft.nn.Module):
            for name, tensor in (*root.named_parameters(), *root.named_buffers()):
                package.name_tensor(tensor, name)
        closer = Closer(package, state)
        try:
            for name, function in entries.items():
                annotated(function, state)
                noted(example, state)
                closer.entry(name, *target_of(function, state))
        except Again:
            continue
        package.objects = [*state.objects(package), *package.objects]
        package.written = [*state.written.values(), *package.written]
        package.read = [*state.read.values(), *package.read]
        return package


def annotated(function: Any, state: State) -> None:
    """Notes the classes of the user's that a function's annotations name."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(getattr(function, "__func__", function)))
    except (NameError, TypeError, AttributeError):
        return
    found = list(hints.values())
    while found:
        hint = found.pop()
        found += typing.get_args(hint)
        if isinstance(hint, type) and is_record(hint) and hint.__name__ not in state.records:
            state.record(hint)
            found += typing.get_type_hints(hint).values()


def noted(example: Any, state: State) -> None:
    """Notes the classes of the user's that arguments are of, as far as programs have them."""
    found = [example]
    while found:
        value = found.pop()
        kind = type(value)
        if kind is dict:
            found += value.values()
        elif kind in (list, tuple):
            found += value
        elif is_record(kind) and kind is not object and not hashes_otherwise(kind):
            state.record(kind)
            found += [getattr(value, field, None) for field in fields_of(kind)]


def original_of(module: Any) -> Any:
    """The Module that `weft.compile` was given, which is what is closed; anything else itself.

    Raises:
        NotExportable: what compile made of it has hooks of its own.
    """
    while isinstance(module, OptimizedModule):
        expect_no_hooks(module)
        module = module._orig_mod
    return module


def call_of(module: weft.nn.Module) -> Any:
    """What a call of a Module runs: its `forward`, or what its class has in place of that."""
    own = own_method(type(module), "__call__")
    return module.forward if own is None else MethodType(own, module)


def target_of(function: Any, state: State) -> tuple[Target, list[Any], list[Ref]]:
    """A function in instructions, the arguments that it is bound to, and the modes around it."""
    function = innermost(function)
    fixed: list[Any] = []
    while isinstance(function, MethodType):
        fixed.insert(0, Static(function.__self__))
        function = innermost(function.__func__)
    modes = []
    while (mode := known.mode_around(function)) is not None:
        modes.append(mode)
        function = function.__wrapped__
    function = unwrapped(function)
    if not isinstance(function, FunctionType):
        raise TypeError(f"[export] expected a function or a Module, got {type(function).__name__}")
    try:
        return state.target(function), fixed, modes
    except Outside as reason:
        raise NotExportable(
            reason.reason, reason.hint, function.__qualname__, reason.file, reason.line
        ) from None
