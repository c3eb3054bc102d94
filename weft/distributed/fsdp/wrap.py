"""Policies: which modules of a model are to be wrapped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import weft

if TYPE_CHECKING:
    from weft.nn import Module

__all__ = [
    "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap",
    "lambda_auto_wrap_policy", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy",
    "wrap",
]  # fmt: skip


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Those for which a function says so; `recurse` asks whether to look inside."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Those of the classes."""
    return lambda_auto_wrap_policy(
        module, recurse, nonwrapped_numel, lambda m: isinstance(m, tuple(transformer_layer_cls))
    )


def _or_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable[..., bool]]
) -> bool:
    """Those that one of the policies names."""
    return any(
        policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel)
        for policy in policies
    )


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Those with so many parameters that are not wrapped yet.

    Args:
        module: the module; recurse: whether to look inside is asked; nonwrapped_numel: how many.
        min_num_params: how many it takes.
        force_leaf_modules: classes never looked into; by default MultiheadAttention.
        exclude_wrap_modules: classes never wrapped; by default ModuleList and ModuleDict.
    """
    leaves = force_leaf_modules or {weft.nn.MultiheadAttention}
    excluded = exclude_wrap_modules or {weft.nn.ModuleList, weft.nn.ModuleDict}
    is_large = nonwrapped_numel >= min_num_params
    if recurse:
        return is_large and not isinstance(module, tuple(leaves))
    return is_large and not isinstance(module, tuple(excluded))


class ModuleWrapPolicy:
    """Those of the classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({sorted(c.__name__ for c in self._module_classes)})"


#: The scope of `enable_wrap` that is entered: the class and its arguments.
_SCOPE: ContextVar[tuple[Any, dict[str, Any]] | None] = ContextVar("wrapping", default=None)


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """A scope in which `wrap` makes a `wrapper_cls` of modules."""
    token = _SCOPE.set((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _SCOPE.reset(token)


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module, wrapped as the scope of `enable_wrap` says; as it is outside of one."""
    scope = _SCOPE.get()
    if scope is None:
        return module
    cls, settings = scope
    wrapped: Module = cls(module, **{**settings, **wrap_overrides})
    return wrapped
