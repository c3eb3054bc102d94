"""Modules as functions of their parameters, under PyTorch's older path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft import Tensor
from weft.nn.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """See `weft.func.functional_call`."""
    from weft.func import functional_call as call

    return call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
