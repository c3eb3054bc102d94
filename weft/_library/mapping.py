"""Operators of programs under `vmap`: by the rule that was registered, else example by example.

One that writes its arguments runs its kernel on what is mapped, where writes have their own rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weft import _C, Tensor
from weft._library.autograd import _closed, _opened
from weft._ops import Bound
from weft.base.mapping import one_by_one

if TYPE_CHECKING:
    from weft._library.operators import Operator

__all__ = ["VmapInfo", "mapped"]


class VmapInfo(NamedTuple):
    """What a rule is told: how many examples there are, and what becomes of random numbers."""

    batch_size: int
    randomness: str


def mapped(operator: Operator, bound: Bound) -> tuple[Any] | None:
    """The result for all examples of the innermost level, in a tuple; None if none is mapped."""
    names = list(bound.kwargs)
    if operator.schema.is_mutable and operator.vmap is None:
        return None
    tensors, rest = _opened(bound.values())
    found = _C._map_wholes(tensors)
    if found is None:
        return None
    level, wholes = found
    if operator.vmap is not None:
        return (_by_rule(operator, bound, level, wholes, tensors, rest),)

    def call(*row: Any) -> Any:
        values = _closed(rest, row)
        at = len(bound.args)
        one = Bound(values[:at], dict(zip(names, values[at:], strict=True)))
        return _tensors_only(operator, operator.call(one))

    return (_restored(operator, one_by_one(call, tensors, {})),)


def _tensors_only(operator: Operator, result: Any) -> Any:
    """Results as `one_by_one` stacks them: a tensor, or a tuple of tensors."""
    if result is None:
        return _C.zeros([])
    made = result if isinstance(result, (tuple, list)) else (result,)
    flat = [v for r in made for v in (r if isinstance(r, list) else (r,))]
    if any(not isinstance(v, Tensor) for v in flat):
        raise RuntimeError(
            f"[{operator.schema.name}] expected results that are tensors under vmap, got "
            f"{[type(v).__name__ for v in flat]}. Hint: register_vmap gives it a rule"
        )
    return flat[0] if isinstance(result, Tensor) else tuple(flat)


def _restored(operator: Operator, result: Any) -> Any:
    returns = operator.schema.returns
    if not returns:
        return None
    if len(returns) == 1 and returns[0].type.word == "List":
        return list(result)
    return result


def _by_rule(
    operator: Operator, bound: Bound, level: int, wholes: Any, tensors: Any, rest: Any
) -> Any:
    """What the rule makes of all examples, which lie along the first dimension."""
    rule = operator.vmap
    assert rule is not None
    size = next(w.shape[0] for w in wholes if w is not None)
    given = [t if w is None else w for t, w in zip(tensors, wholes, strict=True)]
    values = _closed(rest, given)
    dims = _closed(rest, [None if w is None else 0 for w in wholes], lambda v: None)
    at = len(bound.args)
    words = dict(zip(bound.kwargs, values[at:], strict=True))
    answer = rule(VmapInfo(size, "error"), tuple(dims[:at]), *values[:at], **words)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise RuntimeError(
            f"[{operator.schema.name}] expected a vmap rule that returns (results, their "
            f"dimensions), got {type(answer).__name__} (expected (output, out_dims))"
        )
    return _placed(level, *answer)


def _placed(level: int, result: Any, dims: Any) -> Any:
    if isinstance(result, (tuple, list)):
        each = dims if isinstance(dims, (tuple, list)) else [dims] * len(result)
        return type(result)(_placed(level, r, d) for r, d in zip(result, each, strict=True))
    if not isinstance(result, Tensor) or dims is None:
        return result
    return _C._map_over(level, result.movedim(dims, 0) if dims else result, 0)
