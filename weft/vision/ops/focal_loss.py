"""The loss that counts what is hard (Lin et al. 2017)."""

from __future__ import annotations

from weft import Tensor
from weft.nn import functional as nnf

__all__ = ["sigmoid_focal_loss"]


def sigmoid_focal_loss(
    inputs: Tensor,
    targets: Tensor,
    alpha: float = 0.25,
    gamma: float = 2,
    reduction: str = "none",
) -> Tensor:
    """Binary cross entropy times (1 - p)^gamma, p the probability of what is so.

    Args:
        inputs: logits, floats of any shape.
        targets: 0 or 1, floats of the same shape.
        alpha: the weight of what is 1; 1 - alpha is that of what is 0; -1 for no weights.
        reduction: "none", "mean" or "sum".

    Raises: ValueError for another alpha or reduction.

    >>> from weft.vision import ops
    >>> ops.sigmoid_focal_loss(weft.zeros(2), weft.tensor([0., 1.]))
    tensor([0.1300, 0.0433])
    """
    if not 0 <= alpha <= 1 and alpha != -1:
        raise ValueError(
            f"[sigmoid_focal_loss] expected alpha of 0 to 1, or -1, got {alpha}: Invalid alpha "
            f"value: {alpha}. alpha must be in the range [0,1] or -1 for ignore."
        )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"[sigmoid_focal_loss] expected none, mean or sum, got {reduction!r}: "
            f"Invalid Value for arg 'reduction': '{reduction}'"
        )
    p = inputs.sigmoid()
    entropy = nnf.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    loss = entropy * (1 - (p * targets + (1 - p) * (1 - targets))) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return loss if reduction == "none" else getattr(loss, reduction)()
