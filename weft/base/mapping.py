"""Calls of all examples of `vmap`, and of all rows of a Jacobian, as one (src/mapped/level.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import _C
from weft.base.modes import DEFER

DRAWS = ("error", "different", "same")  # what a level allows, as _C._map_begin counts it

enabled = True  # False: the plain loop, one example or row after the other


def maps_now() -> bool:
    """Whether one call may stand for all examples. Within autobatch it is not so: that batches the
    calls of the loop."""
    return enabled and not _C._mode() & DEFER


def one_by_one(call: Callable[..., Any], tensors: Any, options: dict[str, Any]) -> Any:
    """`call(*tensors, **options)` for each example of the innermost level that a tensor is mapped
    on; None if none is."""
    found = _C._map_wholes(tensors)
    if found is None:
        return None
    level, wholes = found
    count = next(w.shape[0] for w in wholes if w is not None)
    columns = [
        [t] * count if w is None else w.unbind(0) for t, w in zip(tensors, wholes, strict=True)
    ]
    results = [call(*row, **options) for row in zip(*columns, strict=True)]
    if isinstance(results[0], _C.Tensor):
        return _C._map_over(level, _C.stack(results), 0)
    parts = [_C._map_over(level, _C.stack(list(part)), 0) for part in zip(*results, strict=True)]
    kind = type(results[0])
    return kind(parts) if kind is tuple else kind(*parts)
