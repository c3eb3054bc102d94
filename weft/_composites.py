"""Functions made of the table's operators, and so differentiable to any order, by family.

A family names its functions in `__all__`, those that are methods too in `METHODS` and those that
have an in-place form `name_` in `INPLACE`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import (
    _composites_calculus,
    _composites_histogram,
    _composites_products,
    _composites_sets,
    _composites_shape,
    _composites_statistics,
)
from weft._C import Tensor
from weft._composites_calculus import *  # noqa: F403
from weft._composites_histogram import *  # noqa: F403
from weft._composites_products import *  # noqa: F403
from weft._composites_sets import *  # noqa: F403
from weft._composites_shape import *  # noqa: F403
from weft._composites_statistics import *  # noqa: F403

_FAMILIES = [
    _composites_calculus,
    _composites_histogram,
    _composites_products,
    _composites_sets,
    _composites_shape,
    _composites_statistics,
]
__all__: list[str] = []
for _family in _FAMILIES:
    __all__ += _family.__all__


def _in_place(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        out = function(self, *args, **kwargs)
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
