"""What derivatives of functions are made of: own inputs, gradients, Jv by reverse mode.

u ↦ Jᵀu is linear, and its gradient in the direction v is Jv: so derivatives go forward by two
passes that go back. While the first is made, `TRANSPOSING` is set, for functions that say
themselves what they do in a direction (`Function.jvp`).
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.autograd._backward import grad
from weft.base.modes import inference_mode

TRANSPOSING: ContextVar[bool] = ContextVar("transposing", default=False)


def own(t: Any, who: str) -> Tensor:
    """A fresh input: part of the graph around, if `t` is, and differentiable in any case."""
    if not isinstance(t, Tensor):
        raise ValueError(f"[{who}] expected tensors as inputs, got {type(t).__name__}")
    if not (t.is_floating_point() or t.is_complex()):
        raise RuntimeError(
            f"[{who}] expected inputs of a floating dtype, got {t.dtype} (only Tensors of floating "
            "point dtype can require gradients)"
        )
    mapped: Tensor | None = _C._map_fresh(t)
    if mapped is not None:
        return mapped
    if not t.requires_grad and not t.is_inference():
        return t.detach().requires_grad_()
    return t.clone().requires_grad_()  # not a view of `t`: the function may write into it


def depends(outputs: list[Tensor], own: list[Tensor]) -> bool:
    """Whether the graph of `outputs` reaches past `own`: then results are part of it."""
    past: bool = _C._reaches_past(outputs, own)
    return past


def found_gradients(
    outputs: list[Tensor], inputs: list[Tensor], seeds: list[Tensor] | None, track: bool
) -> tuple[Tensor | None, ...]:
    """Gradients, None for what outputs do not depend on; the graph is kept."""
    with inference_mode(False):
        wanted = [k for k, t in enumerate(outputs) if t.requires_grad]
        if not wanted:
            return (None,) * len(inputs)
        found: tuple[Tensor | None, ...] = grad(
            [outputs[k] for k in wanted],
            inputs,
            None if seeds is None else [seeds[k] for k in wanted],
            retain_graph=True,
            create_graph=track,
            allow_unused=True,
        )
        return found


def gradients(
    outputs: list[Tensor], inputs: list[Tensor], seeds: list[Tensor] | None, track: bool
) -> list[Tensor]:
    """The same, zeros for what outputs do not depend on."""
    found = found_gradients(outputs, inputs, seeds, track)
    with inference_mode(False):
        return [weft.zeros_like(t) if g is None else g for g, t in zip(found, inputs, strict=True)]


def transposed(
    outputs: list[Tensor], inputs: list[Tensor]
) -> tuple[list[Tensor], tuple[Tensor | None, ...]]:
    """u and Jᵀu as a function of u, None for what outputs do not depend on.

    It is linear in u, but at 0 what it is made of may have no derivative, such as log|u|: u is 1.
    """
    token = TRANSPOSING.set(True)
    try:
        with inference_mode(False):
            seeds = [own(weft.ones_like(t), "jvp") for t in outputs]
            return seeds, found_gradients(outputs, inputs, seeds, True)
    finally:
        TRANSPOSING.reset(token)
