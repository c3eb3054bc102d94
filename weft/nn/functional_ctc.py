"""Connectionist temporal classification; `weft.nn.functional` offers it."""

from __future__ import annotations

from operator import index
from typing import Any

import weft
from weft import _C, Tensor
from weft.nn.functional_loss import chosen_reduction, reduced

__all__ = ["ctc_loss"]


def _lengths(what: str, given: Any) -> list[int]:
    """Whole numbers, of a tensor or a sequence."""
    values = given.reshape(-1).tolist() if isinstance(given, Tensor) else given
    if isinstance(given, Tensor) and (given.is_floating_point() or given.is_complex()):
        raise RuntimeError(f"[ctc_loss] expected {what} that are integral, got {given.dtype}")
    if isinstance(values, (list, tuple)):
        values = [n.item() if isinstance(n, Tensor) and n.numel() == 1 else n for n in values]
        if all(hasattr(n, "__index__") and not isinstance(n, Tensor) for n in values):
            return [index(n) for n in values]
    raise TypeError(f"[ctc_loss] expected {what} to be ints, got {given!r:.80}")


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return `-log` of the probability of target sequences over all alignments.

    Graves et al., "Connectionist temporal classification", 2006.

    Args:
        log_probs: `(time, batch, classes)`, or `(time, classes)` for one example.
        targets: class numbers `(batch, longest)`, or all after each other `(sum of lengths)`.
        input_lengths, target_lengths: of each example.
        blank: the class that stands for no symbol.
        reduction: `"mean"` divides each loss by its target length, then takes the mean.
        zero_infinity: whether a target longer than its input counts as 0, not as infinite.

    Raises:
        RuntimeError: lengths or shapes that do not fit.

    >>> log_probs = weft.full((2, 1, 2), 0.5).log()
    >>> weft.nn.functional.ctc_loss(log_probs, weft.tensor([[1]]), [2], [1])
    tensor(0.2877)
    """
    if log_probs.dim() == 0:
        raise IndexError(
            "[ctc_loss] expected log_probs of 2 or 3 dims, got 0 (Dimension out of range)"
        )
    if log_probs.dim() not in (2, 3) or targets.dim() not in (1, 2):
        raise RuntimeError(
            "[ctc_loss] expected log_probs of 2 or 3 dims and targets of 1 or 2, got "
            f"{tuple(log_probs.shape)} and {tuple(targets.shape)}"
        )
    if isinstance(input_lengths, Tensor) != isinstance(target_lengths, Tensor):
        raise TypeError(
            "[ctc_loss] expected two tensors or two sequences of ints as input_lengths and "
            f"target_lengths, got {type(input_lengths).__name__} and "
            f"{type(target_lengths).__name__}"
        )
    single = log_probs.dim() == 2
    probs = log_probs.unsqueeze(1) if single else log_probs
    inputs = _lengths("input_lengths", input_lengths)
    counts = _lengths("target_lengths", target_lengths)
    classes = targets if targets.dtype == _C.int64 else targets.long()
    loss = _C.ops._ctc_loss(probs, classes, inputs, counts, blank, zero_infinity)[0]
    if zero_infinity:
        loss = weft.where(loss == weft.inf, 0.0, loss)
    if single:
        loss = loss.squeeze(0)
    reduction = chosen_reduction(None, None, reduction)
    if reduction == "mean":
        lengths = weft.tensor(counts, device=loss.device).clamp_min(1)
        return (loss / (lengths.squeeze(0) if single else lengths)).mean()
    return reduced(loss, reduction)
