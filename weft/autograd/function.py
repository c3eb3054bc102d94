"""Custom functions: a forward and a backward written in Python. PyTorch's interface."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft import _C
from weft._C import Tensor
from weft._modes import no_grad

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx(_C._Context):
    """What forward leaves for backward. Any attribute may be set on it."""

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    _to_save: tuple[Any, ...] = ()
    _dirty: tuple[Tensor, ...] = ()
    _constant: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for backward, where `saved_tensors` gives them; None is allowed."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    "[save_for_backward] expected tensors or None, got "
                    f"{type(t).__name__}. Hint: store other values as attributes of ctx"
                )
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept. Raises RuntimeError if one was written in place since."""
        saved = self._saved()
        return self._to_save if saved is None else saved

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Names arguments that forward wrote in place; forward must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Names outputs that carry no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None instead of zeros for outputs without gradient."""
        self.materialize_grads = value


def _forward_with_context(cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
    """Runs forward in either style: with ctx first, or apart from setup_context."""
    with no_grad():
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args)
        output = cls.forward(*args)
        cls.setup_context(ctx, args, output)
        return output


class Function:
    """Base of custom functions: static methods `forward(ctx, *args)` and `backward(ctx, *grads)`.

    `apply(*args)` runs forward without recording, then ties the outputs to a node whose backward is
    `backward`: it gets a gradient per output and returns one (or None) per argument of forward.

    >>> class Double(weft.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> Double.apply(weft.ones(2, requires_grad=True))
    tensor([2., 2.], grad_fn=<DoubleBackward>)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The computation. Must be overridden."""
        raise NotImplementedError(
            "[Function] expected forward to be overridden, got none. Hint: you "
            "must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Overridden where forward takes no ctx: leaves on ctx what backward needs."""
        raise NotImplementedError("[Function] expected setup_context to be overridden, got none")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of forward's arguments. Must be overridden to differentiate."""
        raise NotImplementedError(
            "[Function] expected backward (or vjp) to be overridden, got none. "
            "Hint: you must implement either the backward or vjp method for your "
            "custom autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for backward."""
        raise NotImplementedError("[Function] expected backward or vjp to be overridden, got none")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Runs the function on `args` and records it."""
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        output = _forward_with_context(cls, ctx, args)
        single = not isinstance(output, tuple)
        outputs = (output,) if single else output
        backward = cls.vjp if cls.vjp is not Function.vjp else cls.backward
        recorded = _C._record_function(
            ctx,
            backward,
            cls.__name__ + "Backward",
            args,
            outputs,
            ctx._to_save,
            ctx._dirty,
            ctx._constant,
            ctx.materialize_grads,
        )
        if recorded is not outputs:  # the node keeps what backward needs; ctx would make a cycle
            ctx._to_save = ctx._dirty = ctx._constant = ()
        return recorded[0] if single else recorded


class _Once(Function):
    """Outputs of a backward that must not be differentiated."""

    @staticmethod
    def forward(ctx: Any, *grads: Any) -> Any:
        return tuple(g.detach() if isinstance(g, Tensor) else g for g in grads)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "[backward] expected a twice differentiable function, got one marked with "
            "@once_differentiable (trying to differentiate twice a function that was "
            "marked with @once_differentiable)"
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backward whose own operations are not to be differentiated."""

    @functools.wraps(backward)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = backward(ctx, *args)
        wanted = any(isinstance(a, Tensor) and a.requires_grad for a in args)
        if not _C.is_grad_enabled() or not wanted:
            return outputs
        single = not isinstance(outputs, tuple)
        grads = (outputs,) if single else outputs
        grads = tuple(g.detach().requires_grad_() if isinstance(g, Tensor) else g for g in grads)
        grads = _Once.apply(*grads)
        return grads[0] if single else grads

    return wrapper
