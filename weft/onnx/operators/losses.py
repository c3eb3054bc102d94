"""Losses."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import operator


def _nll(
    shares: Tensor, target: Tensor, weight: Tensor | None, ignored: int | None, reduction: str
) -> Tensor:
    """Of logarithms of probabilities [batch, classes, …]."""
    places = target.to(weft.int64)
    kept = weft.ones_like(places, dtype=weft.bool) if ignored is None else places != ignored
    places = weft.where(kept, places, weft.zeros_like(places))
    each = -weft.gather(shares, 1, places.unsqueeze(1)).squeeze(1)
    if weight is None:
        counts = kept.to(shares.dtype)
    else:
        counts = weft.index_select(weight, 0, places.reshape([-1])).reshape(places.shape)
        counts = weft.where(kept, counts, weft.zeros_like(counts))
    each = each * counts
    if reduction == "none":
        return each
    return each.sum() if reduction == "sum" else each.sum() / counts.sum()


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """What logarithms of probabilities lose at the classes that are right."""
    return _nll(input, target, weight, ignore_index, reduction)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    scores: Tensor, labels: Tensor, weights: Tensor | None = None, *,
    ignore_index: int | None = None, reduction: str = "mean", outputs: int,
) -> Any:  # fmt: skip
    """What scores lose at the classes that are right."""
    shares = weft.log_softmax(scores, 1)
    loss = _nll(shares, labels, weights, ignore_index, reduction)
    return (loss, shares) if outputs > 1 else loss
