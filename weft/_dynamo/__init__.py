"""What programs reach for in PyTorch's `torch._dynamo`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft._dynamo import config as config
from weft._dynamo import eval_frame as eval_frame
from weft._dynamo import exc as exc
from weft._dynamo import utils as utils
from weft.compiler.api import allow_in_graph as allow_in_graph
from weft.compiler.api import assume_constant_result as assume_constant_result
from weft.compiler.api import compile as _compile
from weft.compiler.api import disable as disable
from weft.compiler.api import is_compiling as is_compiling
from weft.compiler.api import list_backends as list_backends
from weft.compiler.api import reset as reset
from weft.compiler.module import OptimizedModule as OptimizedModule
from weft.compiler.report import Explanation
from weft.compiler.report import explain as _explain

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable",
    "eval_frame", "exc", "explain", "graph_break", "is_compiling", "list_backends", "mark_dynamic",
    "mark_static", "mark_static_address", "maybe_mark_dynamic", "optimize", "reset", "utils",
]  # fmt: skip


def optimize(
    backend: Any = "inductor",
    *,
    nopython: bool = False,
    disable: bool = False,
    dynamic: bool | None = None,
) -> Callable[[Any], Any]:
    """`weft.compile` as a decorator, under its old name; `nopython` is `fullgraph`."""
    decorate: Callable[[Any], Any] = _compile(
        backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic
    )
    return decorate


def explain(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """A function that calls `f`, compiled, with its arguments, and tells what became of it."""

    def inner(*args: Any, **kwargs: Any) -> Explanation:
        compiled = _compile(f)
        compiled(*args, **kwargs)
        return _explain(compiled)

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


def graph_break(msg: str = "") -> None:
    """Without effect: programs have no graphs that could break."""


def mark_dynamic(t: Any, index: Any, **kwargs: Any) -> None:
    """Without effect: sizes are values."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Without effect: sizes are values."""


def mark_static(t: Any, index: Any = None) -> None:
    """Without effect: sizes are values."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Without effect: programs read tensors where they lie."""
