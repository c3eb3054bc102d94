"""Losses of margins, pairs, triplets and classes; `weft.nn.functional` offers them.

All take `reduction="none" | "mean" | "sum"`. `size_average` and `reduce` are PyTorch's older way to
say the same. A reduction that is not known raises ValueError.
"""

from __future__ import annotations

from collections.abc import Callable

import weft
from weft import _C, Tensor
from weft.nn.functional_distance import pairwise_distance
from weft.nn.functional_loss import chosen_reduction, in_dtype_of, legacy_reduction, reduced

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

    >>> a, b = weft.tensor([1.0]), weft.tensor([3.0])
    >>> weft.nn.functional.margin_ranking_loss(a, b, weft.tensor([1.0]))
    tensor(2.)
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the input where the target is 1, `max(0, margin - input)` where it is -1.

    They broadcast; 0-d, or their shape with reduction 'none'.

    >>> weft.nn.functional.hinge_embedding_loss(weft.tensor([0.5, 0.5]), weft.tensor([1, -1]))
    tensor(0.5000)
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    far = weft.where(target != 1, (margin - input).clamp_min(0), 0)
    near = weft.where(target != -1, input, 0)
    return reduced(far + near, reduction)


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

    >>> a, b = weft.tensor([[1.0, 0.0]]), weft.tensor([[0.0, 1.0]])
    >>> weft.nn.functional.cosine_embedding_loss(a, b, weft.tensor([1]))
    tensor(1.)
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    if target.dim() > 1 or not input1.dim() == input2.dim() == target.dim() + 1:
        several = " (0D or 1D target tensor expected, multi-target not supported)"
        told = several if target.dim() > 1 else ""
        raise RuntimeError(
            "[cosine_embedding_loss] expected inputs with one more dimension than the target, got "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}{told}"
        )
    eps = 1e-12
    dim = target.dim()
    product = (input1 * input2).sum(dim)
    squares1 = (input1 * input1).sum(dim) + eps
    squares2 = (input2 * input2).sum(dim) + eps
    cos = product / (squares1 * squares2).sqrt()
    near = weft.where(target == 1, 1 - cos, 0)
    far = weft.where(target == -1, (cos - margin).clamp_min(0), 0)
    return reduced(near + far, reduction)


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

    Tensors (N, D) or (D); 0-d, or (N) with reduction 'none'.

    >>> a, b = weft.tensor([[0.0, 0.0]]), weft.tensor([[3.0, 4.0]])
    >>> weft.nn.functional.triplet_margin_loss(a, b, a)
    tensor(6.0000)
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
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
    """`triplet_margin_loss` with a distance of one's own (default: `pairwise_distance`).

    Tensors [n, d], or of any shape that the distance takes; 0-d, or the distance's shape with
    reduction 'none'.

    >>> a, b = weft.tensor([[0.0, 0.0]]), weft.tensor([[3.0, 4.0]])
    >>> weft.nn.functional.triplet_margin_with_distance_loss(a, b, a)
    tensor(6.0000)
    """
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
    return reduced((margin + near - far).clamp_min(0), reduction)


# ---- classes


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `log(1 + exp(-target input))`; the target is 1 or -1.

    They broadcast; 0-d, or their shape with reduction 'none'.

    >>> weft.nn.functional.soft_margin_loss(weft.zeros(2), weft.ones(2))
    tensor(0.6931)
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    loss = in_dtype_of("soft_margin_loss", _C.softplus(-(target * input)), input)
    loss = reduced(loss, reduction)
    return _C._rename_node(loss, "SoftMarginLossBackward0")


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes (the last dimension) of the logistic loss against 0 or 1.

    >>> weft.nn.functional.multilabel_soft_margin_loss(weft.zeros(1, 2), weft.ones(1, 2))
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    loss = -(target * _C.logsigmoid(input) + (1 - target) * _C.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(input.dim() - 1) / input.shape[-1], reduction)


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

    >>> weft.nn.functional.multi_margin_loss(weft.tensor([[0.5, 1.0]]), weft.tensor([0]))
    tensor(0.7500)
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    rows, labels = _rows("multi_margin_loss", input, target, False)
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    loss = _C.ops._multi_margin_loss(rows, labels, p, margin)
    if weight is not None:
        loss = loss * weight[labels]
    loss = reduced(loss if target.dim() else loss.reshape(()), reduction)
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

    >>> weft.nn.functional.multilabel_margin_loss(weft.tensor([0.5, 1.0]), weft.tensor([0, -1]))
    tensor(0.7500)
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    rows, labels = _rows("multilabel_margin_loss", input, target, True)
    classes = rows.shape[1]
    if bool(((labels < -1) | (labels >= classes)).any()):
        raise RuntimeError("[multilabel_margin_loss] expected class numbers, got one out of range")
    given = (labels < 0).long().cumsum(1) == 0
    places = labels.clamp_min(0)
    named = (
        weft.zeros(rows.shape, dtype=_C.int64, device=rows.device).scatter_add(
            1, places, given.long()
        )
        > 0
    )
    # (n, label, class)
    loss = (1 - rows.gather(1, places).unsqueeze(2) + rows.unsqueeze(1)).clamp_min(0)
    counts = given.unsqueeze(2) & ~named.unsqueeze(1)
    loss = weft.where(counts, loss, 0).sum((1, 2)) / classes
    loss = reduced(loss if input.dim() == 2 else loss.reshape(()), reduction)
    return _C._rename_node(loss, "MultilabelMarginLossBackward0")
