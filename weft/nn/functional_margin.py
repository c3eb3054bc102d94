"""Losses of margins, pairs and triplets, and of distributions; `weft.nn.functional` offers them.

All take `reduction="none" | "mean" | "sum"`. `size_average` and `reduce` are PyTorch's older way to
say the same. A reduction that is not known raises ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft
from weft import _C, Tensor
from weft.nn.functional_loss import legacy_reduction


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction != "none":
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return loss


def _chosen(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    if size_average is not None or reduce is not None:
        return legacy_reduction(size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


# ---- distances


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return the p-norm of `x1 - x2 + eps` along the last dimension."""
    return _C.ops.linalg_vector_norm(x1 - x2 + eps, p, -1, keepdim)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return `x1 · x2 / (|x1| |x2|)` along `dim`; no length counts as less than `eps`.

    >>> import weft
    >>> x = weft.tensor([[3.0, 4.0]])
    >>> weft.nn.functional.cosine_similarity(x, 2 * x)
    tensor([1.])
    """
    kind = weft.promote_types(x1.dtype, x2.dtype)
    if not kind.is_floating_point:
        raise RuntimeError(
            f"[cosine_similarity] expected floating inputs, got {kind} (expected common dtype to "
            "be floating point)"
        )
    x1, x2 = weft.broadcast_tensors(x1.to(kind), x2.to(kind))
    lengths = []
    for x in (x1, x2):
        norm = _C.ops.linalg_vector_norm(x, 2, dim, True)
        floor = weft.where(norm.detach() < eps, eps - norm.detach(), 0)
        lengths.append(norm + floor)  # the gradient is that of the norm also below eps
    return ((x1 / lengths[0]) * (x2 / lengths[1])).sum(dim)


def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Return the input divided by its p-norm along `dim`, no norm counting as less than `eps`.

    >>> import weft
    >>> weft.nn.functional.normalize(weft.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / norm if out is None else weft.div(input, norm, out=out)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the p-norm of the difference of each pair of rows, `(n, m)` to `(n (n - 1) / 2)`."""
    if input.dim() != 2:
        raise RuntimeError(f"[pdist] expected a matrix, got {input.dim()} dimensions")
    if p < 0:
        raise RuntimeError(f"[pdist] expected p of at least 0, got {p}")
    rows, columns = weft.triu_indices(input.shape[0], input.shape[0], 1)
    return _C.ops.linalg_vector_norm(input[rows] - input[columns], p, -1)


# ---- pairs and triplets


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `max(0, -target (input1 - input2) + margin)`; the target is 1 or -1.

    Raises:
        RuntimeError: the numbers of dimensions differ.
    """
    reduction = _chosen(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the input where the target is 1, `max(0, margin - input)` where it is -1."""
    reduction = _chosen(size_average, reduce, reduction)
    far = weft.where(target != 1, (margin - input).clamp_min(0), 0)
    near = weft.where(target != -1, input, 0)
    return _reduced(far + near, reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1.

    Args:
        input1, input2: `(n, d)` with a target `(n)`, or `(d)` with a 0-d target.

    Raises:
        RuntimeError: the shapes do not fit.
    """
    reduction = _chosen(size_average, reduce, reduction)
    if target.dim() > 1 or not input1.dim() == input2.dim() == target.dim() + 1:
        raise RuntimeError(
            "[cosine_embedding_loss] expected inputs with one more dimension than the target (0D "
            f"or 1D), got {tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    eps = 1e-12
    dim = target.dim()
    product = (input1 * input2).sum(dim)
    squares1 = (input1 * input1).sum(dim) + eps
    squares2 = (input2 * input2).sum(dim) + eps
    cos = product / (squares1 * squares2).sqrt()
    near = weft.where(target == 1, 1 - cos, 0)
    far = weft.where(target == -1, (cos - margin).clamp_min(0), 0)
    return _reduced(near + far, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `max(0, |anchor - positive| - |anchor - negative| + margin)`, p-norms of last dims.

    `swap` takes the smaller of the distances of the anchor and of the positive to the negative
    (Balntas et al., 2016). Raises ValueError for a margin that is not positive.
    """
    reduction = _chosen(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _triplet(distance, anchor, positive, negative, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of one's own (default: `pairwise_distance`)."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(distance, anchor, positive, negative, margin, swap, reduction)


def _triplet(
    distance: Callable[[Tensor, Tensor], Tensor],
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    ranks = anchor.dim(), positive.dim(), negative.dim()
    if len(set(ranks)) != 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative "
            f"{ranks[2]}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = weft.minimum(far, distance(positive, negative))
    return _reduced((margin + near - far).clamp_min(0), reduction)


# ---- classes


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `log(1 + exp(-target input))`; the target is 1 or -1."""
    reduction = _chosen(size_average, reduce, reduction)
    loss = _reduced(_C.softplus(-target * input), reduction)
    return _C._rename_node(loss, "SoftMarginLossBackward0")


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes (the last dimension) of the logistic loss against 0 or 1."""
    reduction = _chosen(size_average, reduce, reduction)
    loss = -(target * _C.logsigmoid(input) + (1 - target) * _C.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(-1) / input.shape[-1], reduction)


def _rows(who: str, input: Tensor, target: Tensor, same: bool) -> tuple[Tensor, Tensor]:
    """Input (n, classes) and target (n, classes) or (n), also for a single example."""
    fits = input.dim() <= 2 and (input.dim() == 0 or input.shape[-1] > 0)
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    if same:
        labels = target.reshape(1, -1) if input.dim() < 2 else target
        fits = fits and labels.shape == rows.shape
    else:
        labels = target.reshape(-1)
        fits = fits and target.dim() <= 1 and labels.shape[0] == rows.shape[0]
    if not fits:
        raise RuntimeError(
            f"[{who}] expected an input (n, classes) or (classes) and a target that fits, got "
            f"{tuple(input.shape)} and {tuple(target.shape)} (inconsistent size)"
        )
    return rows, labels


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `sum over i != y of max(0, margin - x[y] + x[i])^p / classes`.

    Args:
        input: `(n, classes)` or `(classes)`.
        target: class numbers `(n)`, or one.
        p: 1 or 2.
        weight: `(classes)`, a factor of the examples of each class.

    Raises:
        ValueError: another p.
        RuntimeError: shapes that do not fit, or a target that is no class.
    """
    reduction = _chosen(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    rows, labels = _rows("multi_margin_loss", input, target, False)
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    if bool(((labels < 0) | (labels >= rows.shape[1])).any()):
        raise RuntimeError("[multi_margin_loss] expected class numbers, got a target out of range")
    own = rows.gather(1, labels.unsqueeze(1))
    loss = (margin - own + rows).clamp_min(0)
    if p == 2:
        loss = loss * loss
    if weight is not None:
        loss = loss * weight[labels].unsqueeze(1)
    other = weft.arange(rows.shape[1]) != labels.unsqueeze(1)
    loss = weft.where(other, loss, 0).sum(1) / rows.shape[1]
    loss = _reduced(loss if target.dim() else loss.reshape(()), reduction)
    return _C._rename_node(loss, "MultiMarginLossBackward0")


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `sum over labels y and others i of max(0, 1 - x[y] + x[i]) / classes`.

    Args:
        input: `(n, classes)` or `(classes)`.
        target: the same shape; class numbers up to the first -1.

    Raises:
        RuntimeError: shapes that do not fit, or a target that is no class.
    """
    reduction = _chosen(size_average, reduce, reduction)
    rows, labels = _rows("multilabel_margin_loss", input, target, True)
    classes = rows.shape[1]
    if bool(((labels < -1) | (labels >= classes)).any()):
        raise RuntimeError("[multilabel_margin_loss] expected class numbers, got one out of range")
    given = (labels < 0).long().cumsum(1) == 0
    places = labels.clamp_min(0)
    named = weft.zeros(rows.shape, dtype=_C.int64).scatter_add(1, places, given.long()) > 0
    # (n, label, class)
    loss = (1 - rows.gather(1, places).unsqueeze(2) + rows.unsqueeze(1)).clamp_min(0)
    counts = given.unsqueeze(2) & ~named.unsqueeze(1)
    loss = weft.where(counts, loss, 0).sum((1, 2)) / classes
    loss = _reduced(loss if input.dim() == 2 else loss.reshape(()), reduction)
    return _C._rename_node(loss, "MultilabelMarginLossBackward0")


# ---- distributions


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `-log` of a Poisson density of rate exp(input) (or input), up to a constant.

    `full` adds Stirling's approximation of `log(target!)` where the target is above 1.
    """
    reduction = _chosen(size_average, reduce, reduction)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + weft.where(target > 1, stirling, 0)
    return _reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return `-log` of a normal density of mean `input` and variance `var`, up to a constant.

    Args:
        var: a number, or the input's shape without the last dimension or with size 1 there.
        full: whether the constant `log(2 pi) / 2` is added.
        eps: no variance counts as less; its gradient is not cut off.

    Raises:
        ValueError: a negative variance, or one of a shape that does not fit.
    """
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * weft.ones_like(input)
    elif bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        else:
            # each size is that of the input, or 1 for all
            pairs = list(zip(input.shape[::-1], var.shape[::-1], strict=False))
            if var.dim() != input.dim() or any(m != n and n != 1 for m, n in pairs):
                raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    floor = var + (var.detach().clamp_min(eps) - var.detach())
    loss = 0.5 * (floor.log() + (input - target) ** 2 / floor)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


# ---- sequences

_NEVER = -1e30  # the logarithm of an impossible probability: finite, so that sums have gradients


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
    """
    single = log_probs.dim() == 2
    probs = log_probs.unsqueeze(1) if single else log_probs
    time, batch, classes = probs.shape
    inputs = [int(n) for n in weft.as_tensor(input_lengths).reshape(-1).tolist()]
    counts = [int(n) for n in weft.as_tensor(target_lengths).reshape(-1).tolist()]
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
    return _reduced(loss, reduction)


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
