"""Checkpointing: backward recomputes activations that the forward did not keep.

PyTorch's interface and semantics (torch.utils.checkpoint). Reading guide: `checkpoint` picks one of
two ways. `CheckpointFunction` is a Function whose backward runs the call again and differentiates
it with a nested backward. `_Frame` is the other: while the call runs, saved tensors are packed into
empty `_Slot`s; the first one that backward wants runs the call again, which fills them in order.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.autograd.function import Function
from weft.autograd.graph import saved_tensors_hooks

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn",
           "set_checkpoint_early_stop"]  # fmt: skip


class CheckpointError(RuntimeError):
    """The recomputation did not do what the forward did."""


class _Stop(BaseException):
    """Ends a recomputation that has made what is wanted; no `except Exception` catches it."""


def noop_context_fn() -> tuple[Any, Any]:
    """The contexts in which forward and recomputation run by default: none.

    >>> forward, recomputation = weft.utils.checkpoint.noop_context_fn()
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


_early_stop: ContextVar[bool | None] = ContextVar("_early_stop", default=None)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether checkpoints made in this scope stop recomputing once they have what they need.

    >>> with weft.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     weft.utils.checkpoint.checkpoint(weft.exp, weft.zeros(1), use_reentrant=False)
    tensor([1.])
    """
    outside = _early_stop.set(enable)
    try:
        yield
    finally:
        _early_stop.reset(outside)


class _Surroundings:
    """What a forward ran in, to be had again: autocast and, with `preserve`, the generator."""

    __slots__ = ("_autocast", "_generator")

    def __init__(self, preserve: bool) -> None:
        self._generator = _C.default_generator._get_bytes() if preserve else None
        self._autocast: dict[str, Any] = {
            "enabled": weft.is_autocast_enabled("cpu"),
            "dtype": weft.get_autocast_dtype("cpu"),
            "cache_enabled": weft.is_autocast_cache_enabled(),
        }

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Draws inside start where the forward's did; those outside do not notice."""
        with weft.autocast("cpu", **self._autocast):
            if self._generator is None:
                yield
                return
            outside = _C.default_generator._get_bytes()
            _C.default_generator._set_bytes(self._generator)
            try:
                yield
            finally:
                _C.default_generator._set_bytes(outside)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The devices of the arguments beside the CPU, and the states of their generators: none."""
    return [], []


def set_device_states(devices: list[int], states: list[Tensor], *, device_type: Any = None) -> None:
    """Sets the states of generators of devices, as `get_device_states` gave them.

    Raises:
        AssertionError: there are any: there is no such device.
    """
    if devices or states:
        raise AssertionError(
            f"[set_device_states] expected no devices beside the CPU, got {devices} (Torch not "
            "compiled with CUDA enabled)"
        )


def check_backward_validity(inputs: Any) -> None:
    """Warns where no tensor of the inputs requires a gradient."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs outside of the graph; tensors require gradients as they did.

    Raises: RuntimeError if they are no tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


# ---- without re-entrancy


class _Slot:
    """The place of one saved tensor: what was recomputed for it, by backward pass."""

    __slots__ = ("__weakref__", "index", "shape", "values")

    def __init__(self, index: int, saved: Tensor) -> None:
        self.index = index
        self.shape = (tuple(saved.shape), saved.dtype)
        self.values: dict[int, tuple[Tensor, int]] = {}  # with the version at which it was saved


class _KeepInputs(Function):
    """Keeps a checkpoint's tensor arguments as a node keeps them, so that the hooks of an enclosing
    checkpoint apply to them, and writes in place are noticed."""

    @staticmethod
    def forward(ctx: Any, frame: _Frame, anchor: Tensor, *tensors: Tensor) -> Tensor:
        frame.context = ctx
        ctx.save_for_backward(*tensors)
        return weft.empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("[checkpoint] expected no gradient for the kept inputs")


class _Frame:
    """One checkpointed call."""

    context: Any

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        preserve: bool,
        early_stop: bool,
        check: bool,
        recompute_context: Any,
    ) -> None:
        self.function = function
        self.kwargs = kwargs
        self.early_stop = early_stop
        self.check = check
        self.recompute_context = recompute_context
        self.surroundings = _Surroundings(preserve)
        self.slots: list[weakref.ref[_Slot]] = []
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.others = [None if isinstance(a, Tensor) else a for a in args]
        anchor = weft.empty(0, requires_grad=True)
        self.kept = _KeepInputs.apply(self, anchor, *(args[i] for i in self.places)).grad_fn

    def args(self) -> list[Any]:
        args = list(self.others)
        for i, tensor in zip(self.places, self.context.saved_tensors):
            args[i] = tensor
        return args

    def pack(self, tensor: Tensor) -> _Slot:
        slot = _Slot(len(self.slots), tensor)
        self.slots.append(weakref.ref(slot))
        return slot

    def unpack(self, slot: _Slot) -> Tensor:
        number = _C._current_pass()
        if number not in slot.values:
            self.recompute(number)
        if number not in slot.values:
            raise CheckpointError(
                f"[checkpoint] expected saved tensor {slot.index} of {len(self.slots)} again from "
                "the recomputation, got none (A different number of tensors was saved during the "
                "original forward and recomputation). Hint: the function must do the same each time"
            )
        value, version = slot.values[number]
        if value._version != version:
            raise RuntimeError(
                f"[checkpoint] expected saved tensor {slot.index} unchanged (one of the variables "
                "needed for gradient computation has been modified by an inplace operation), got "
                f"version {value._version}; expected version {version}. Hint: write out of place "
                "in the checkpointed function"
            )
        if number == 0:  # asked for outside a backward pass: nothing will forget it later
            self.forget(0)
        return value

    def forget(self, number: int) -> None:
        for reference in self.slots:
            if (slot := reference()) is not None:
                slot.values.pop(number, None)

    def recompute(self, number: int) -> None:
        """Runs the function again, filling the slots for the pass `number`."""
        with weft.enable_grad():
            args = self.args()  # may recompute an enclosing checkpoint first
        made = 0

        def pack(tensor: Tensor) -> Tensor:
            nonlocal made
            tensor = tensor.detach()  # the second graph is not wanted
            index, made = made, made + 1
            if index >= len(self.slots):
                raise CheckpointError(
                    f"[checkpoint] expected {len(self.slots)} saved tensors, as in the forward, "
                    "got more (trying to save more tensors during recomputation than during the "
                    "original forward pass)"
                )
            slot = self.slots[index]()
            if slot is not None:
                self.verify(slot, tensor)
                slot.values[number] = tensor, tensor._version
            if self.early_stop and made == len(self.slots):
                raise _Stop
            return tensor

        if number:
            _C._queue_callback(lambda: self.forget(number))
        hooks = saved_tensors_hooks(pack, lambda tensor: tensor)
        with (
            contextlib.suppress(_Stop),
            self.recompute_context,
            self.surroundings.again(),
            hooks,
            weft.enable_grad(),
        ):
            self.function(*args, **self.kwargs)

    def verify(self, slot: _Slot, tensor: Tensor) -> None:
        shape = (tuple(tensor.shape), tensor.dtype)
        if self.check and shape != slot.shape:
            raise CheckpointError(
                f"[checkpoint] expected saved tensor {slot.index} to have shape {slot.shape[0]} "
                f"and dtype {slot.shape[1]}, got {shape[0]} and {shape[1]} (Recomputed values for "
                "the following tensors have different metadata than during the forward pass)"
            )


# ---- re-entrant


class CheckpointFunction(Function):
    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        ctx.function = function
        ctx.surroundings = _Surroundings(preserve)
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with weft.no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return CheckpointFunction.backward_together([ctx], [grads])[0]

    @staticmethod
    def backward_together(ctxs: list[Any], all_grads: list[Any]) -> list[Any]:
        """The gradients of several checkpoints by one pass, within which their calls may merge."""
        if not _C._pass_is_full():
            raise RuntimeError(
                "[checkpoint] expected a backward pass for all leaves, got one for chosen inputs "
                "(When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward()). Hint: use_reentrant=False "
                "has no such limit"
            )
        leaves, pairs = [], []
        for ctx, grads in zip(ctxs, all_grads):
            args = list(ctx.others)
            for i, tensor in zip(ctx.places, ctx.saved_tensors):
                args[i] = tensor.detach().requires_grad_(tensor.requires_grad)
            leaves.append(list(args))
            with ctx.surroundings.again(), weft.enable_grad():
                if len(ctxs) > 1:  # calls merge over values, not over leaves
                    args = [a.clone() if isinstance(a, Tensor) else a for a in args]
                outputs = ctx.function(*args)
            outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
            mine = [
                (out, grad)
                for out, grad in zip(outputs, grads)
                if isinstance(out, Tensor) and out.requires_grad
            ]
            if not mine:
                raise RuntimeError(
                    "[checkpoint] expected an output that requires grad, got none (none of "
                    "output has requires_grad=True, this checkpoint() is not necessary)"
                )
            pairs += mine
        weft.autograd.backward([out for out, _ in pairs], [grad for _, grad in pairs])
        return [
            (None, None, *(a.grad if isinstance(a, Tensor) else None for a in args))
            for args in leaves
        ]


# ---- the interface


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, keeping only the arguments; backward runs it a second time.

    `use_reentrant=False` (recommended) works with every kind of pass, keyword arguments, nesting
    and second derivatives; True needs a tensor argument that requires grad, and a plain
    `.backward()`.
    `preserve_rng_state`: the second run draws the same random numbers. `context_fn`: a pair of
    context managers, for the run and for the second one. `determinism_check`: "default" raises
    CheckpointError if the second run saves tensors of other shapes or dtypes, "none" does not look.
    `early_stop`: the second run ends when it has what is needed. `debug` is accepted and has no
    effect: the errors here always name the tensor.

    >>> x = weft.ones(2, requires_grad=True)
    >>> y = weft.utils.checkpoint.checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
    >>> y.sum().backward()
    """
    if use_reentrant is None:
        warnings.warn(
            "weft.utils.checkpoint: the use_reentrant parameter should be passed explicitly; "
            "without it the default is True. use_reentrant=False is recommended",
            stacklevel=2,
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError(
                f"[checkpoint] expected no keyword arguments for the function with "
                f"use_reentrant=True (Unexpected keyword arguments), got {list(kwargs)}"
            )
        if context_fn is not noop_context_fn:
            raise ValueError(
                "[checkpoint] expected context_fn only with use_reentrant=False, got one"
            )
        if weft.is_grad_enabled() and not any(
            isinstance(a, Tensor) and a.requires_grad for a in args
        ):
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
            )
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            "[checkpoint] expected determinism_check 'default' or 'none', got "
            f"{determinism_check!r}"
        )
    forward_context, recompute_context = context_fn()
    if not weft.is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    frame = _Frame(
        function,
        args,
        kwargs,
        preserve=preserve_rng_state,
        early_stop=early_stop if (chosen := _early_stop.get()) is None else chosen,
        check=determinism_check == "default",
        recompute_context=recompute_context,
    )
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Runs `functions` (or a Sequential) one after the other, in `segments` parts of which all but
    the last are checkpointed.

    >>> x = weft.ones(2, requires_grad=True)
    >>> parts = [weft.sin, weft.exp, weft.sin, weft.exp]
    >>> y = weft.utils.checkpoint.checkpoint_sequential(parts, 2, x, use_reentrant=False)
    >>> y.sum().backward()
    """
    if use_reentrant is None:
        warnings.warn(
            "weft.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should "
            "be passed explicitly; without it the default is True. use_reentrant=False is "
            "recommended",
            stacklevel=2,
        )
        use_reentrant = True
    if segments < 1:
        raise ValueError(f"[checkpoint_sequential] expected at least one segment, got {segments}")
    steps = list(functions.children()) if isinstance(functions, weft.nn.Module) else list(functions)
    if segments > len(steps):
        raise ValueError(
            f"[checkpoint_sequential] expected at most {len(steps)} segments, one per "
            f"function, got {segments}"
        )

    def run(part: list[Any]) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for step in part:
                value = step(value)
            return value

        return forward

    size = len(steps) // segments
    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(
            run(steps[start : start + size]), input, use_reentrant=use_reentrant, **kwargs
        )
    return run(steps[last:])(input)
