"""`torch.jit`: functions and Modules compiled whole, and runs of them written down."""

from __future__ import annotations

import builtins
from typing import Any
from typing import Final as Final

from weft.jit.saved import load as load
from weft.jit.saved import save as save
from weft.jit.scripted import Attribute as Attribute
from weft.jit.scripted import Error as Error
from weft.jit.scripted import Future as Future
from weft.jit.scripted import RecursiveScriptModule as RecursiveScriptModule
from weft.jit.scripted import ScriptFunction as ScriptFunction
from weft.jit.scripted import ScriptModule as ScriptModule
from weft.jit.scripted import annotate as annotate
from weft.jit.scripted import export as export
from weft.jit.scripted import fork as fork
from weft.jit.scripted import freeze as freeze
from weft.jit.scripted import fuser as fuser
from weft.jit.scripted import ignore as ignore
from weft.jit.scripted import is_scripting as is_scripting
from weft.jit.scripted import isinstance as isinstance  # noqa: A004
from weft.jit.scripted import optimize_for_inference as optimize_for_inference
from weft.jit.scripted import script as script
from weft.jit.scripted import script_method as script_method
from weft.jit.scripted import unused as unused
from weft.jit.scripted import wait as wait
from weft.jit.traced import TopLevelTracedModule as TopLevelTracedModule
from weft.jit.traced import TracerWarning as TracerWarning
from weft.jit.traced import TracingCheckError as TracingCheckError
from weft.jit.traced import is_tracing as is_tracing
from weft.jit.traced import script_if_tracing as script_if_tracing
from weft.jit.traced import trace as trace
from weft.jit.traced import trace_module as trace_module

__all__ = [
    "Attribute", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction",
    "ScriptModule", "TopLevelTracedModule", "TracerWarning", "TracingCheckError", "annotate",
    "export", "fork",
    "freeze", "fuser", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "optimize_for_inference", "save", "script", "script_if_tracing", "script_method", "trace",
    "trace_module", "unused", "wait",
]  # fmt: skip


def _overload(func: Any) -> Any:
    """The function itself: a program is compiled for the types it is called with."""
    return func


def _overload_method(func: Any) -> Any:
    """The method itself."""
    return func


def interface(obj: Any) -> Any:
    """The class itself: a method is found when it is called, so a program needs no interface.

    Raises:
        RuntimeError: it is no class.

    >>> @weft.jit.interface
    ... class Scored:
    ...     def score(self, x: weft.Tensor) -> weft.Tensor: ...
    >>> Scored.__name__
    'Scored'
    """
    if not builtins.isinstance(obj, type):
        raise RuntimeError(
            f"[interface] expected a class, got {obj!r} (interface must be applied to a class)"
        )
    return obj
