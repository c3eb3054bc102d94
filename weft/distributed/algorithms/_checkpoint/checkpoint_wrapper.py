"""Modules wrapped for `utils.checkpoint`: each call of them is a checkpoint.

>>> import weft
>>> net = weft.nn.Sequential(weft.nn.Linear(2, 2), weft.nn.ReLU())
>>> apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, weft.nn.Linear))
>>> net[0]
CheckpointWrapper(
  (_checkpoint_wrapped_module): Linear(in_features=2, out_features=2, bias=True)
)
>>> list(net.state_dict())
['0.weight', '0.bias']
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

from weft.autograd.graph import save_on_cpu
from weft.nn.module import Module
from weft.nn.parameter import Parameter
from weft.utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper",
    "apply_activation_checkpointing", "checkpoint_wrapper", "offload_wrapper",
]  # fmt: skip

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """How `utils.checkpoint` works: its `use_reentrant`."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


def _renamed(state: dict[str, Any], old: str, new: str) -> None:
    """Names that begin with `old` begin with `new`, in place."""
    if old != new:
        for name in [name for name in state if name.startswith(old)]:
            state[new + name[len(old) :]] = state.pop(name)


def _without_prefix(module: Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    _renamed(state, prefix + _CHECKPOINT_PREFIX, prefix)


def _with_prefix(module: Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    _renamed(state, prefix, prefix + _CHECKPOINT_PREFIX)


class ActivationWrapper(Module):
    """A Module round another, whose names of parameters and attributes are those of the other.

    Args:
        mod: the Module that is wrapped.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        inner: Any = self._checkpoint_wrapped_module
        return inner[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """Parameters under the names that they have in the Module that is wrapped."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


class CheckpointWrapper(ActivationWrapper):
    """A Module whose calls are checkpoints; `checkpoint_wrapper` makes one.

    Args:
        mod: the Module.
        checkpoint_impl: how, without a `checkpoint_fn`.
        checkpoint_fn: what is called with the Module and its arguments; None:
            `utils.checkpoint.checkpoint`.
        checkpoint_fn_kwargs: further arguments of that function.
    """

    def __init__(
        self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        self._is_reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
        if checkpoint_fn is None:
            checkpoint_fn = functools.partial(checkpoint, use_reentrant=self._is_reentrant)
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the Module, whose activations backward computes again."""
        inner = self._checkpoint_wrapped_module
        if not (self._is_reentrant and kwargs):
            return self.checkpoint_fn(inner, *args, **kwargs)
        count, names = len(args), tuple(kwargs)  # it takes arguments by position alone

        def call(*values: Any) -> Any:
            return inner(*values[:count], **dict(zip(names, values[count:], strict=True)))

        return self.checkpoint_fn(call, *args, *kwargs.values())


class OffloadWrapper(ActivationWrapper):
    """A Module whose activations are saved by `autograd.graph.save_on_cpu`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the Module."""
        with save_on_cpu():
            return self._checkpoint_wrapped_module(*args, **kwargs)


def checkpoint_wrapper(
    module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:  # fmt: skip
    """The Module with checkpoints; see `CheckpointWrapper`."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> OffloadWrapper:
    """The Module with activations that are put away; see `OffloadWrapper`."""
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Wraps modules inside of a model, in place; inner ones first, the model itself not.

    Args:
        model: the model.
        checkpoint_wrapper_fn: what wraps a Module.
        check_fn: whether a Module is wrapped.
        auto_wrap_policy: says so instead: one of `distributed.fsdp.wrap`.
    """

    def is_wanted(module: Module) -> bool:
        if auto_wrap_policy is None:
            return check_fn(module)
        numel = sum(p.numel() for p in module.parameters())
        return bool(auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=numel))

    def visit(module: Module) -> None:
        for name, inner in list(module.named_children()):
            visit(inner)
            if is_wanted(inner):
                setattr(module, name, checkpoint_wrapper_fn(inner))

    visit(model)
