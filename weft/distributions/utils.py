"""What the distributions share: broadcast parameters, probabilities and their logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import weft
from weft import Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
]  # fmt: skip


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors of one shape; numbers become tensors of the default dtype, or of the tensors'.

    Raises:
        ValueError: neither numbers nor tensors.

    >>> broadcast_all(weft.zeros(2), 1.0)[1]
    tensor([1., 1.])
    """
    if not all(isinstance(v, (Tensor, int, float, complex)) for v in values):
        raise ValueError(
            "[broadcast_all] expected numbers and tensors, got others (Input arguments must all be "
            "instances of Number, torch.Tensor or objects implementing __torch_function__.)"
        )
    tensors = [v for v in values if isinstance(v, Tensor)]
    kind = tensors[0].dtype if tensors else weft.get_default_dtype()
    made = [v if isinstance(v, Tensor) else weft.tensor(v, dtype=kind) for v in values]
    return weft.broadcast_tensors(*made)


def clamp_probs(probs: Tensor) -> Tensor:
    """Into (0, 1), by the machine's precision."""
    eps = weft.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The probabilities: sigmoid, or softmax over the last dimension."""
    return weft.sigmoid(logits) if is_binary else weft.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The logits: log odds, or logarithms; of clamped probabilities."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


class lazy_property:
    """A property that is computed once, with gradients, and then kept as an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with weft.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
