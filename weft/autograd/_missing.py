"""Results of what has no derivative: part of the graph, with a node whose backward raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import _C
from weft._C import Tensor
from weft.autograd.function import FunctionCtx
from weft.base.modes import at_once


def without_derivative(
    op: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], node: str | None = None
) -> tuple[Tensor, ...]:
    """The outputs, floating ones tied to the inputs if one of these requires grad.

    As in PyTorch, a loss that silently left them out would train something else.

    Args:
        op: PyTorch's name, for the error.
        inputs: which the outputs were made of outside of the graph.
        outputs: the results.
        node: PyTorch's name of the node, where it has one; the type of its error depends on it.
    """
    if not _C.is_grad_enabled() or not any(t.requires_grad for t in inputs):
        return tuple(outputs)

    def backward(ctx: Any, *grads: Any) -> Any:
        if node is not None:
            raise NotImplementedError(f"the derivative for '{op}' is not implemented.")
        raise RuntimeError(f"derivative for aten::{op} is not implemented")

    whole = tuple(t for t in outputs if not (t.is_floating_point() or t.is_complex()))
    with at_once():
        recorded: tuple[Tensor, ...] = _C._record_function(
            FunctionCtx(), backward, node or "NotImplemented", tuple(inputs), tuple(outputs), (),
            (), whole, False,
        )  # fmt: skip
    return recorded
