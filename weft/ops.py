"""Operators by name: `weft.ops.aten.add.Tensor`, `weft.ops.my.scale` (Note [Operators by name]).

>>> weft.ops.aten.relu(weft.tensor([-1.0, 2.0]))
tensor([0., 2.])
"""

from __future__ import annotations

from typing import Any

from weft._ops import load_library, loaded_libraries, namespace_of

__all__ = ["load_library", "loaded_libraries"]


def __getattr__(name: str) -> Any:
    """A namespace of operators: there is one of every name, until an operator is asked of it."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return namespace_of(name)
