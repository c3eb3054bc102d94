"""The gradient that `register_autograd` gives an operator, as a custom function over its tensors.

Tensors in lists are arguments of their own to the function; the user's `setup_context` and
`backward` see the lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft import Tensor
from weft._ops import Bound
from weft.autograd.function import Function

if TYPE_CHECKING:
    from weft._library.operators import Operator

__all__ = ["tied"]

# What stands in a structure for a tensor that is passed on its own.
_HOLE = object()


def _is_tensors(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(v, Tensor) for v in value)


def _opened(values: Any) -> tuple[list[Any], list[Any]]:
    """Tensors, in lists too, and the values with a hole where each of them was."""
    tensors: list[Any] = []
    rest: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
            rest.append(_HOLE)
        elif _is_tensors(value):
            tensors += [v for v in value if isinstance(v, Tensor)]
            rest.append([_HOLE if isinstance(v, Tensor) else v for v in value])
        else:
            rest.append(value)
    return tensors, rest


def _closed(rest: Any, tensors: Any, other: Callable[[Any], Any] = lambda v: v) -> list[Any]:
    """The way back: `tensors` in the holes, `other` of what is no tensor."""
    found = iter(tensors)

    def one(value: Any) -> Any:
        return next(found) if value is _HOLE else other(value)

    return [
        [one(v) for v in value]
        if isinstance(value, list) and any(v is _HOLE for v in value)
        else one(value)
        for value in rest
    ]


class _Call:
    """One call of an operator: what forward and backward have to know beside tensors."""

    def __init__(self, operator: Operator, bound: Bound) -> None:
        self.operator, self.kwargs = operator, bound.kwargs
        self.tensors, self.rest = _opened(bound.args)
        self.made: list[Any] = []

    def forward(self, ctx: Any, tensors: Any) -> tuple[Any, ...]:
        operator, args = self.operator, _closed(self.rest, tensors)
        result = operator.run(Bound(args, self.kwargs))
        if operator.setup_context is not None:
            told = {"keyword_only_inputs": self.kwargs} if self.kwargs else {}
            wanted = ctx.needs_input_grad
            ctx.needs_input_grad = self._wants(wanted)
            operator.setup_context(ctx=ctx, inputs=tuple(args), output=result, **told)
        outputs, self.made = _opened(result if isinstance(result, tuple) else (result,))
        return tuple(outputs)

    def _wants(self, needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """Whether each argument of the operator wants a gradient; a list for a list."""
        return tuple(_closed(self.rest, needs[1:], lambda v: False))

    def backward(self, ctx: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        name = self.operator.overload
        if self.operator.backward is None:
            raise RuntimeError(
                f"[{name}] expected a gradient, got none (Trying to backward through {name} but no "
                "autograd formula was registered. Please use register_autograd to add one.)"
            )
        given = _closed(self.made, grads, lambda v: None)
        found = self.operator.backward(ctx, *given)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(self.rest):
            raise RuntimeError(
                f"[{name}] expected a gradient, or None, for each of {len(self.rest)} arguments, "
                f"got {len(found)} (function GeneratedBackwardFor_{name} returned an incorrect "
                "number of gradients)"
            )
        return (None, *self._flat(found))

    def _flat(self, found: tuple[Any, ...]) -> list[Any]:
        flat: list[Any] = []
        for value, grad in zip(self.rest, found, strict=True):
            if value is _HOLE:
                flat.append(grad)
            elif isinstance(value, list) and any(v is _HOLE for v in value):
                parts = grad
                if not isinstance(parts, (list, tuple)) or len(parts) != len(value):
                    raise RuntimeError(
                        f"[{self.operator.overload}] expected a list of {len(value)} gradients for "
                        f"a list of tensors, got {parts!r} (Expected the return from backward to "
                        "be of the same structure as the inputs)"
                    )
                flat += [p for v, p in zip(value, parts, strict=True) if v is _HOLE]
        return flat


def _function_of(operator: Operator) -> type[Function]:
    """The custom function whose nodes bear the operator's name."""

    def forward(ctx: Any, call: _Call, *tensors: Any) -> Any:
        ctx.call_ = call
        return call.forward(ctx, tensors)

    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.call_.backward(ctx, grads)

    o = operator.overload
    name = f"GeneratedBackwardFor_{o.namespace}_{o._opname}_{o._overloadname}"
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (Function,), {**members, "__module__": __name__})


def tied(operator: Operator, bound: Bound) -> Any:
    """The results of a call, tied to the gradient of the operator."""
    function = operator.__dict__.get("function")
    if function is None:
        function = operator.__dict__["function"] = _function_of(operator)
    call = _Call(operator, bound)
    tensors, call.tensors = call.tensors, []  # the node keeps what backward reads, and no more
    outputs = function.apply(call, *tensors)
    results = _closed(call.made, outputs)
    return results[0] if len(operator.schema.returns) == 1 else tuple(results)
