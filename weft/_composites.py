"""Functions made of the table's operators, and so differentiable to any order, by family.

A family names its functions in `__all__`, those that are methods too in `METHODS`, those that have
an in-place form `name_` in `INPLACE`, and those that take `out=` in `OUT`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import weft
from weft import (
    _composites_calculus,
    _composites_histogram,
    _composites_products,
    _composites_sets,
    _composites_shape,
    _composites_spectral,
    _composites_statistics,
)
from weft._C import Tensor
from weft._composites_calculus import *  # noqa: F403
from weft._composites_histogram import *  # noqa: F403
from weft._composites_products import *  # noqa: F403
from weft._composites_sets import *  # noqa: F403
from weft._composites_shape import *  # noqa: F403
from weft._composites_spectral import *  # noqa: F403
from weft._composites_statistics import *  # noqa: F403

_FAMILIES = [
    _composites_calculus,
    _composites_histogram,
    _composites_products,
    _composites_sets,
    _composites_shape,
    _composites_spectral,
    _composites_statistics,
]
__all__: list[str] = []
for _family in _FAMILIES:
    __all__ += _family.__all__


def write_out(name: str, out: Any, result: Any) -> Any:
    """`result` written over `out`: a tensor, or as many as there are results."""
    if not isinstance(result, Tensor):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"[{name}] expected {len(result)} tensors as out, got {out!r}")
        for o, r in zip(out, result, strict=True):
            write_out(name, o, r)
        return type(result)(*out) if hasattr(result, "_fields") else type(result)(out)
    if not isinstance(out, Tensor):
        raise TypeError(f"[{name}] expected a tensor as out, got {type(out).__name__}")
    if result.requires_grad or out.requires_grad:
        raise RuntimeError(
            f"[{name}] expected operands outside the graph, got one that requires grad (functions "
            "with out=... arguments don't support automatic differentiation)"
        )
    if out.shape != result.shape:
        raise RuntimeError(
            f"[{name}] expected an out of the result's shape {tuple(result.shape)}, got "
            f"{tuple(out.shape)}"
        )
    if not weft.can_cast(result.dtype, out.dtype):
        raise RuntimeError(
            f"[{name}] expected an out that holds {result.dtype}, got {out.dtype} (result type "
            "can't be cast to the desired output type)"
        )
    return out.copy_(result)


def _with_out(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result if out is None else write_out(name, out, result)

    run.__doc__ = f"{function.__doc__ or name}\n\n    `out`: where the result is written."
    return run


for _family in _FAMILIES:
    for _name in getattr(_family, "OUT", ()):
        globals()[_name] = _with_out(_name, getattr(_family, _name))


def _in_place(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # The graph may save what is about to be written.
        given = (*args, *kwargs.values())
        tracked = any(isinstance(t, Tensor) and t.requires_grad for t in (self, *given))
        was = self.clone() if tracked and weft.is_grad_enabled() else self
        out = function(was, *args, **kwargs)
        if out.shape != self.shape:
            raise RuntimeError(
                f"[{name}_] expected a result of the written tensor's shape {tuple(self.shape)}, "
                f"got {tuple(out.shape)}"
            )
        return self.copy_(out)

    run.__name__ = run.__qualname__ = name + "_"
    run.__doc__ = f"`{name}`, written over self."
    return run


def methods() -> dict[str, Callable[..., Any]]:
    """What these families add to Tensor, by name."""
    out: dict[str, Callable[..., Any]] = {}
    for family in _FAMILIES:
        for name in family.METHODS:
            out[name] = getattr(family, name)
        for name in getattr(family, "INPLACE", ()):
            out[name + "_"] = _in_place(name, getattr(family, name))
    return out
