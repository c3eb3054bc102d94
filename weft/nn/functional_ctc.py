"""Connectionist temporal classification; `weft.nn.functional` offers it."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import weft
from weft import _C, Tensor
from weft.nn.functional_loss import reduced

__all__ = ["ctc_loss"]

_NEVER = -1e30  # the logarithm of an impossible probability: finite, so that sums have gradients


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
    time, batch, classes = probs.shape
    inputs = _lengths("input_lengths", input_lengths)
    counts = _lengths("target_lengths", target_lengths)
    if len(inputs) != batch or len(counts) != batch:
        raise RuntimeError(
            f"[ctc_loss] expected {batch} input_lengths and target_lengths, got {len(inputs)} and "
            f"{len(counts)}"
        )
    if any(not 0 <= n <= time for n in inputs):
        raise RuntimeError(f"[ctc_loss] expected input_lengths in [0, {time}], got {inputs}")
    if not 0 <= blank < classes:
        raise RuntimeError(f"[ctc_loss] expected a blank in [0, {classes}), got {blank}")
    longest = max(counts, default=0)
    padded = _padded_targets(targets, counts, longest, blank, batch)
    if padded.numel() and bool(((padded < 0) | (padded >= classes)).any()):
        raise RuntimeError("[ctc_loss] expected class numbers, got a target out of range")
    loss = _ctc(probs, padded, weft.tensor(inputs), weft.tensor(counts), blank)
    # PyTorch's gradient is that by the inputs of the log_softmax which made log_probs: it has
    # exp(log_probs) in it. This adds 0 with that derivative.
    used = weft.arange(time).unsqueeze(1) < weft.tensor(inputs)
    mass = weft.where(used.unsqueeze(2), probs.exp(), 0).sum((0, 2))
    loss = loss + (mass - mass.detach())
    impossible = loss > -_NEVER / 2
    loss = weft.where(impossible, 0.0 if zero_infinity else math.inf, loss)
    loss = _C._rename_node(loss, "CtcLossBackward0")
    if single:
        loss = loss.squeeze(0)
    if reduction == "mean":
        lengths = weft.tensor(counts).clamp_min(1).to(loss.dtype)
        return (loss / (lengths.squeeze(0) if single else lengths)).mean()
    return reduced(loss, reduction)


def _padded_targets(
    targets: Tensor, counts: list[int], longest: int, blank: int, batch: int
) -> Tensor:
    """Targets (batch, longest), blanks behind each."""
    if targets.dim() == 1:
        if targets.shape[0] < sum(counts):
            raise RuntimeError(f"[ctc_loss] expected {sum(counts)} targets, got {targets.shape[0]}")
        rows, start = weft.full((batch, longest), blank, dtype=_C.int64), 0
        for row, n in enumerate(counts):
            rows[row, :n] = targets[start : start + n].long()
            start += n
        return rows
    if targets.shape[0] != batch or targets.shape[1] < longest:
        raise RuntimeError(
            f"[ctc_loss] expected targets ({batch}, at least {longest}), got {tuple(targets.shape)}"
        )
    inside = weft.arange(longest) < weft.tensor(counts).unsqueeze(1)
    return weft.where(inside, targets[:, :longest].long(), blank)


def _ctc(probs: Tensor, padded: Tensor, inputs: Tensor, counts: Tensor, blank: int) -> Tensor:
    """The forward recursion over states blank, y1, blank, y2, ..., blank."""
    time, batch, _ = probs.shape
    states = 2 * padded.shape[1] + 1
    symbols = weft.full((batch, states), blank, dtype=_C.int64)
    symbols[:, 1::2] = padded
    # a symbol may follow another one directly, unless it is the same
    skips = weft.zeros(batch, states, dtype=_C.bool)
    if states > 3:
        skips[:, 3::2] = padded[:, 1:] != padded[:, :-1]
    emitted = probs.gather(2, symbols.unsqueeze(0).expand(time, batch, states)).clamp_min(_NEVER)
    never = weft.full((batch, 2), _NEVER, dtype=probs.dtype)
    start = weft.arange(states) < 2
    alpha = weft.where(start, 0.0, weft.full((batch, states), _NEVER, dtype=probs.dtype))
    # before the first frame only the state "nothing yet" is certain
    for t in range(time):
        if t == 0:
            after = alpha + emitted[0]
        else:
            left = weft.cat([never[:, :1], alpha[:, :-1]], 1)
            after = weft.logaddexp(alpha, left)
            if states > 2:
                skipped = weft.cat([never, alpha[:, :-2]], 1)
                after = weft.logaddexp(after, weft.where(skips, skipped, _NEVER))
            after = (after + emitted[t]).clamp_min(_NEVER)
        alpha = weft.where((inputs > t).unsqueeze(1), after, alpha)
    last = (2 * counts).unsqueeze(1)
    end = alpha.gather(1, last).squeeze(1)
    before = alpha.gather(1, (last - 1).clamp_min(0)).squeeze(1)
    loss = -weft.where(counts > 0, weft.logaddexp(end, before), end)
    # no frame at all: certain for an empty target, impossible for others
    return weft.where(inputs > 0, loss, weft.where(counts > 0, -_NEVER, 0.0))
