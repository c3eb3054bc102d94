"""Custom functions: a forward and a backward written in Python. PyTorch's interface."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.autograd._transposed import TRANSPOSING
from weft.base.modes import DEFER, TRACE, WATCH, at_once, no_grad

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx(_C._Context):
    """What forward leaves for backward. Any attribute may be set on it.

    `needs_input_grad`: for each argument of forward, whether it wants a gradient. `tensor.grad_fn`
    of an output has the attributes of its ctx, and a ctx has the methods of its node.

    >>> class Double(weft.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.factor = 2
    ...         return ctx.factor * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return ctx.factor * grad
    >>> x = weft.ones(1, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor([2.])
    """

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    _to_save: tuple[Any, ...] = ()
    _dirty: tuple[Tensor, ...] = ()
    _constant: tuple[Tensor, ...] = ()
    _values: tuple[Any, ...] | None = None  # in the backward of several uses at once (_merged.py)
    _for_forward: tuple[Any, ...] = ()
    _count: int | None = None  # of what is saved for backward, before what is for jvp
    _in_jvp = False
    _like: tuple[Any, ...] | None = None  # shapes and dtypes of arguments, where there is a jvp

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for backward, where `saved_tensors` gives them; None is allowed.

        Tensors of any shapes.

        >>> class Square(weft.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 2 * ctx.saved_tensors[0] * grad
        >>> x = weft.tensor([3.0], requires_grad=True)
        >>> Square.apply(x).backward()
        >>> x.grad
        tensor([6.])
        """
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"[save_for_backward] expected tensors or None, got {type(t).__name__} "
                    f"(save_for_backward can only save variables, but argument {i} is of type "
                    f"{type(t).__name__}). Hint: store other values as attributes of ctx"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for `jvp`, where `saved_tensors` gives them."""
        self._for_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept. Raises RuntimeError if one was written in place since."""
        if self._values is not None:
            return self._values
        saved = self._saved() or ()
        if self._count is None:
            return saved
        return saved[self._count :] if self._in_jvp else saved[: self._count]

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Names arguments that forward wrote in place; forward must return them.

        Tensors of any shapes.

        >>> class Doubled(weft.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.mark_dirty(x)
        ...         return x.mul_(2)
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 2 * grad
        >>> Doubled.apply(weft.ones(1))
        tensor([2.])
        """
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Names outputs that carry no gradient.

        Tensors of any shapes.

        >>> class Place(weft.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         place = x.argmax()
        ...         ctx.mark_non_differentiable(place)
        ...         return place
        >>> Place.apply(weft.tensor([1.0, 3.0], requires_grad=True)).requires_grad
        False
        """
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None instead of zeros for outputs without gradient."""
        self.materialize_grads = value


def _bound(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments of forward by position, with its defaults where setup_context will see them."""
    with_ctx = cls.setup_context is Function.setup_context
    if not kwargs and (with_ctx or getattr(cls.forward, "__defaults__", None) is None):
        return args
    import inspect

    bound = inspect.signature(cls.forward).bind(*((None,) if with_ctx else ()), *args, **kwargs)
    if not with_ctx:
        bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"[{cls.__name__}.apply] expected arguments that have a position in forward (forward() "
            f"got an unexpected keyword argument), got {next(iter(bound.kwargs))!r}"
        )
    return bound.args[1:] if with_ctx else bound.args


def _run_forward(cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
    """Runs forward in either style: with ctx first, or apart from setup_context."""
    with no_grad():
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args)
        output = cls.forward(*args)
        cls.setup_context(ctx, args, output)
    outputs = output if isinstance(output, tuple) else (output,)
    passed = {id(a) for a in args} & {id(o) for o in outputs} - {id(d) for d in ctx._dirty}
    if any(t is not None and id(t) in passed for t in ctx._to_save):
        raise RuntimeError(
            f"[{cls.__name__}] expected setup_context to save no argument that forward returned as "
            "it is (an input that has been returned as-is as output is being saved for backward), "
            "got one. "
            "Hint: return and save a view of it, x.view_as(x)"
        )
    return output


def _backward_of(cls: type[Function]) -> Callable[..., Any]:
    backward = _reverse_of(cls)
    return backward if cls.jvp is Function.jvp else functools.partial(_either_way, cls, backward)


def _reverse_of(cls: type[Function]) -> Callable[..., Any]:
    if cls.vjp is Function.vjp:
        return cls.backward
    if cls.backward is not Function.backward:
        raise RuntimeError(
            f"[{cls.__name__}] expected backward or vjp, got both (Implementing both 'backward' "
            "and 'vjp' for a custom Function is not allowed)"
        )
    return cls.vjp


class Function:
    """Base of custom functions: static methods `forward(ctx, *args)` and `backward(ctx, *grads)`.

    `apply(*args)` runs forward without recording, then ties the outputs to a node whose backward
    is `backward`: it gets a gradient per output and returns one (or None) per argument of forward.
    With `setup_context(ctx, inputs, output)`, forward takes no ctx.

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
        """The computation. Must be overridden.

        Tensors of any shapes.

        >>> class Double(weft.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 2 * grad
        >>> Double.apply(weft.ones(1))
        tensor([2.])
        """
        raise NotImplementedError(
            "[Function] expected forward to be overridden, got none. Hint: you "
            "must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Overridden where forward takes no ctx: leaves on ctx what backward needs.

        >>> class Square(weft.autograd.Function):
        ...     @staticmethod
        ...     def forward(x):
        ...         return x * x
        ...     @staticmethod
        ...     def setup_context(ctx, inputs, output):
        ...         ctx.save_for_backward(*inputs)
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 2 * ctx.saved_tensors[0] * grad
        >>> x = weft.tensor([3.0], requires_grad=True)
        >>> Square.apply(x).backward()
        >>> x.grad
        tensor([6.])
        """
        raise NotImplementedError("[Function] expected setup_context to be overridden, got none")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of forward's arguments. Must be overridden to differentiate.

        Each has the shape of its argument, or None stands for it.

        >>> class Double(weft.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 2 * grad
        >>> x = weft.ones(1, requires_grad=True)
        >>> Double.apply(x).backward()
        >>> x.grad
        tensor([2.])
        """
        raise NotImplementedError(
            "[Function] expected backward (or vjp) to be overridden, got none. "
            "Hint: you must implement either the backward or vjp method for your "
            "custom autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for backward."""
        raise NotImplementedError("[Function] expected backward or vjp to be overridden, got none")

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The derivatives of the outputs in a direction, that of each argument, which is None for
        those without. Forward mode calls it, or else `backward`, two times over.

        >>> class Double(weft.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...     @staticmethod
        ...     def jvp(ctx, tangent):
        ...         return 2 * tangent
        >>> weft.func.jvp(Double.apply, (weft.ones(1),), (weft.ones(1),))[1]
        tensor([2.])
        """
        raise NotImplementedError(
            "[Function] expected jvp to be overridden, got none (You must implement the jvp "
            "function for custom autograd.Function to use it with forward mode AD.)"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: functions are not instances."""
        raise RuntimeError(
            f"[{type(self).__name__}] expected {type(self).__name__}.apply(...), got a call of an "
            "instance (Legacy autograd function with non-static forward method is deprecated)"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs the function on `args` and records it.

        backward gives a gradient for every argument of forward that was passed, by position or by
        name; with `setup_context`, for those that took their default too.

        >>> class Double(weft.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 2 * grad
        >>> Double.apply(weft.ones(1))
        tensor([2.])
        """
        if _C._mode() & TRACE and (recording := _C._recording()) is not None:
            return recording.whole(cls.apply, args, kwargs)
        args = _bound(cls, args, kwargs)
        ctx = FunctionCtx()
        ctx.needs_input_grad = _C._needs_gradients(args)
        mode = _C._mode()
        if not mode & WATCH:
            output = _run_forward(cls, ctx, args)
        else:
            output = _C._within("function", cls.__name__, _run_forward, cls, ctx, args)
        single = not isinstance(output, tuple)
        outputs = (output,) if single else output
        if cls.jvp is not Function.jvp:
            _keep_for_jvp(ctx, args)
        backward, name = _backward_of(cls), cls.__name__ + "Backward"
        told = (ctx, backward, name, args, outputs, ctx._to_save, ctx._dirty, ctx._constant,
                ctx.materialize_grads)  # fmt: skip
        if not mode & DEFER:
            recorded = _C._record_function(*told)
        else:
            from weft.autograd import _merged

            recorded = _merged.tie(cls, ctx, backward, name, args, outputs)
            if recorded is None:
                with at_once():
                    recorded = _C._record_function(*told)
        if ctx._to_save or ctx._dirty or ctx._constant:
            # the node keeps what backward needs; that ctx kept it too would make a cycle
            ctx._to_save = ctx._dirty = ctx._constant = ()
        return recorded[0] if single else recorded


class InplaceFunction(Function):
    """A Function made as an object that says whether it works in place."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _keep_for_jvp(ctx: FunctionCtx, args: tuple[Any, ...]) -> None:
    ctx._like = tuple((a.shape, a.dtype) if isinstance(a, Tensor) else None for a in args)
    if ctx._for_forward:
        ctx._count = len(ctx._to_save)
        ctx._to_save = (*ctx._to_save, *ctx._for_forward)
        ctx._for_forward = ()


def _either_way(cls: type[Function], backward: Callable[..., Any], ctx: Any, *grads: Any) -> Any:
    """backward, of a function that has a jvp."""
    if not TRANSPOSING.get() or ctx._like is None:
        return backward(ctx, *grads)
    made = iter(_Transposed.apply(cls, ctx, *grads))
    return tuple([next(made) if wanted else None for wanted in ctx.needs_input_grad])


class _Transposed(Function):
    """u ↦ Jᵀu of a function, whose own derivative is the function's jvp: u ↦ Jᵀu is linear, so
    nothing asks for its value, which is 1 here."""

    @staticmethod
    def forward(ctx: Any, cls: type[Function], inner: Any, *grads: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.cls, ctx.inner = cls, inner
        wanted = zip(inner._like, inner.needs_input_grad, strict=True)
        return tuple([weft.ones(like[0], dtype=like[1]) for like, wants in wanted if wants])

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> Any:
        inner, given = ctx.inner, iter(tangents)
        inner._in_jvp = True
        try:
            along = [next(given) if wanted else None for wanted in inner.needs_input_grad]
            moved = ctx.cls.jvp(inner, *along)
        finally:
            inner._in_jvp = False
        return None, None, *(moved if isinstance(moved, tuple) else (moved,))


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
    """Marks a backward whose own operations are not to be differentiated.

    >>> class Square(weft.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @weft.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * grad
    """

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
