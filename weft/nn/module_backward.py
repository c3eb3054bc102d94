"""How a module sees its gradients: it looks at them as they pass through two identities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.autograd import Function
from weft.base.warn import warn

Grads = tuple[Tensor | None, ...]


class BackwardHooks:
    """The full backward hooks of one call of a module.

    The inputs pass through one identity and the outputs through another. In backward the
    outputs' identity runs first: it calls the pre-hooks and keeps the gradients of the outputs.
    When the gradients of the inputs arrive at theirs, the hooks are called with both.

    Args:
        module: the module, the first argument of every hook.
        hooks: `hook(module, grad_input, grad_output)`, which may return a new `grad_input`.
        pre_hooks: `hook(module, grad_output)`, which may return a new `grad_output`.
    """

    def __init__(
        self,
        module: Any,
        hooks: Sequence[Callable[..., Any]],
        pre_hooks: Sequence[Callable[..., Any]],
    ) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: Grads | None = None
        self.input_places: list[int] | None = None
        self.output_places: list[int] = []
        self.n_inputs = 0
        self.n_outputs = 0

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments, with the tensors among them passed through an identity."""
        self.n_inputs = len(args)
        args, self.input_places = _pass_through(_Inputs, self, args)
        return args

    def watch_outputs(self, result: Any) -> Any:
        """Return the result (a tensor or a tuple), its tensors passed through an identity."""
        results = result if isinstance(result, tuple) else (result,)
        self.n_outputs = len(results)
        results, places = _pass_through(_Outputs, self, results)
        self.output_places = places or []
        return results if isinstance(result, tuple) else results[0]

    def at_outputs(self, grads: Grads) -> Grads:
        """Call the pre-hooks, and the hooks as well where no gradient will reach an input."""
        packed = _pack(self.output_places, grads, self.n_outputs)
        for hook in self.pre_hooks:
            packed = _replaced(packed, hook(self.module, packed), "pre hook", "grad_output")
        self.grad_outputs = packed
        if self.input_places is None:
            self._call_without_inputs(packed)
            self.grad_outputs = None
        return tuple(packed[place] for place in self.output_places)

    def at_inputs(self, grads: Grads) -> Grads:
        """Call the hooks with the gradients of inputs and outputs.

        A gradient that came to an input past the outputs is none of the module's.
        """
        if self.grad_outputs is None:
            return grads
        assert self.input_places is not None
        packed = _pack(self.input_places, grads, self.n_inputs)
        for hook in self.hooks:
            out = hook(self.module, packed, self.grad_outputs)
            packed = _replaced(packed, out, "hook", "grad_input")
        self.grad_outputs = None
        return tuple(packed[place] for place in self.input_places)

    def _call_without_inputs(self, grad_outputs: Grads) -> None:
        if not self.hooks:
            return
        warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients.",
        )
        nothing: Grads = (None,) * self.n_inputs
        for hook in self.hooks:
            out = hook(self.module, nothing, grad_outputs)
            if out is not None and not (isinstance(out, tuple) and all(g is None for g in out)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )


class _Inputs(Function):
    """The identity in front of a module."""

    @staticmethod
    def forward(ctx: Any, hooks: BackwardHooks, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _identity(ctx, hooks, tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        return None, *ctx.hooks.at_inputs(grads)


class _Outputs(Function):
    """The identity behind a module."""

    @staticmethod
    def forward(ctx: Any, hooks: BackwardHooks, *tensors: Tensor) -> tuple[Tensor, ...]:
        # An output that nobody used has the gradient None, which is what its hooks are to see.
        ctx.set_materialize_grads(False)
        return _identity(ctx, hooks, tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        return None, *ctx.hooks.at_outputs(grads)


def _identity(ctx: Any, hooks: BackwardHooks, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    ctx.hooks = hooks
    # An alias, not the tensor itself: the output of a function is a tensor of its own.
    aliases = tuple(tensor.detach() for tensor in tensors)
    ctx.mark_non_differentiable(
        *[alias for alias, tensor in zip(aliases, tensors) if not tensor.requires_grad]
    )
    return aliases


def _pass_through(
    identity: type[Function], hooks: BackwardHooks, values: tuple[Any, ...]
) -> tuple[tuple[Any, ...], list[int] | None]:
    """Apply the identity to the tensors among `values`; `None` if no gradient is wanted."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    if not (weft.is_grad_enabled() and any(values[i].requires_grad for i in places)):
        return values, None
    passed = list(values)
    for i, tensor in zip(places, identity.apply(hooks, *[values[i] for i in places])):
        passed[i] = tensor
    # A named tuple is built from arguments, a tuple from one iterable.
    return (tuple(passed) if type(values) is tuple else type(values)(*passed)), places


def _pack(places: list[int], grads: Grads, n: int) -> Grads:
    packed: list[Tensor | None] = [None] * n
    for place, grad in zip(places, grads):
        packed[place] = grad
    return tuple(packed)


def _replaced(grads: Grads, replaced: Any, kind: str, what: str) -> Grads:
    if replaced is None:
        return grads
    if not isinstance(replaced, tuple):
        replaced = tuple(replaced) if isinstance(replaced, list) else (replaced,)
    if len(replaced) != len(grads):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {what}, got {len(replaced)}, "
            f"but expected {len(grads)}"
        )
    return replaced
