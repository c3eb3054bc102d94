"""Modules as functions of their parameters, under PyTorch's older path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft import Tensor
from weft.nn.module import Module

__all__ = ["functional_call"]


def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    *,
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Any:
    """A scope in which a module has other tensors for some of its parameters and buffers."""
    from weft.func.modules import _exchanged

    if stack_weights:
        raise NotImplementedError("[_reparametrize_module] expected stack_weights=False, got True")
    return _exchanged(module, dict(parameters_and_buffers), tie_weights, strict)


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """See `weft.func.functional_call`.

    Tensors have the shapes of those that they stand for.

    >>> layer = weft.nn.Linear(1, 1)
    >>> new = {"weight": weft.tensor([[2.0]]), "bias": weft.tensor([1.0])}
    >>> weft.nn.utils.stateless.functional_call(layer, new, weft.tensor([3.0]))
    tensor([7.])
    """
    from weft.func import functional_call as call

    return call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
