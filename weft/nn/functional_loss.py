"""Losses; `weft.nn.functional` offers them.

All of them take `reduction="none" | "mean" | "sum"`: the loss of each element in the shape of the
input, or one number. `size_average` and `reduce` are PyTorch's older way to say the same.
"""

from __future__ import annotations

from weft import _C, Tensor
from weft.nn.warn import warn


def legacy_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """Return what `size_average` and `reduce` mean as `reduction`, with a warning."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    meaning = "none" if not reduce else "mean" if size_average else "sum"
    warn(
        "size_average and reduce args will be deprecated, please use "
        f"reduction='{meaning}' instead."
    )
    return meaning


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return `-log(softmax(input))` at the target class.

    Args:
        input: `(classes)`, `(batch, classes)` or `(batch, classes, ...)` of any numbers.
        target: class numbers, the input's shape without classes; or probabilities of all
            classes, the input's shape.
        weight: `(classes)`, a factor for each class; `mean` is then the weighted mean.
        ignore_index: targets of this class do not count.
        reduction: see above.
        label_smoothing: the share of the target that is spread over all classes.

    Raises:
        IndexError: a target that is no class.
        ValueError: an unknown reduction, or shapes that do not agree.

    >>> import weft
    >>> logits = weft.tensor([[0.0, 0.0]])
    >>> round(weft.nn.functional.cross_entropy(logits, weft.tensor([1])).item(), 4)
    0.6931
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    return _C.cross_entropy(
        input,
        target,
        weight,
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `-input` at the target class.

    Args:
        input: logarithms of probabilities, shaped as for `cross_entropy`.
        target: class numbers, the input's shape without classes.
        weight: `(classes)`, a factor for each class; `mean` is then the weighted mean.
        ignore_index: targets of this class do not count.
        reduction: see above.

    Raises:
        IndexError: a target that is no class.
        ValueError: an unknown reduction, or shapes that do not agree.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    return _C.nll_loss(input, target, weight, reduction=reduction, ignore_index=ignore_index)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return `(input - target)²`.

    Args:
        input: any shape.
        target: the same shape; another one is broadcast, with a warning.
        reduction: see above.
        weight: the shape of the input; `mean` is then the weighted mean.

    Raises:
        ValueError: an unknown reduction, or a weight of another shape.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    _warn_unless_same_shape(input, target)
    if weight is None:
        return _C.mse_loss(input, target, reduction=reduction)
    return _C.mse_loss(input, target, reduction=reduction, weight=weight)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return `|input - target|`; arguments and errors are those of `mse_loss`.

    >>> import weft
    >>> weft.nn.functional.l1_loss(weft.zeros(2), weft.tensor([1.0, 3.0])).item()
    2.0
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    _warn_unless_same_shape(input, target)
    return _C.l1_loss(input, target, reduction=reduction, weight=weight)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return `d² / (2 beta)` where `d = |input - target| < beta`, and `d - beta / 2` elsewhere.

    Girshick, "Fast R-CNN", 2015.

    Args:
        input: any shape.
        target: the same shape; another one is broadcast, with a warning.
        reduction: see above.
        beta: where the square ends; at 0 this is `l1_loss`.

    Raises:
        RuntimeError: `beta` is negative.
        ValueError: an unknown reduction.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    _warn_unless_same_shape(input, target)
    return _C.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Return `d² / 2` where `d = |input - target| <= delta`, and `delta (d - delta / 2)` elsewhere.

    Huber, "Robust estimation of a location parameter", 1964.

    Args:
        input: any shape.
        target: the same shape; another one is broadcast, with a warning.
        reduction: see above.
        delta: where the square ends.
        weight: the shape of the input, a factor of each element's loss.

    Raises:
        RuntimeError: `delta` is not positive.
        ValueError: an unknown reduction, or a weight of another shape.
    """
    _warn_unless_same_shape(input, target)
    if weight is None:
        return _C.huber_loss(input, target, reduction=reduction, delta=delta)
    return _C.huber_loss(input, target, reduction=reduction, delta=delta, weight=weight)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `-(target log(input) + (1 - target) log(1 - input))`; no logarithm is below -100.

    Args:
        input: probabilities, any shape.
        target: the same shape and dtype.
        weight: broadcast to the loss of each element.
        reduction: see above.

    Raises:
        ValueError: the shapes differ, or an unknown reduction.
        RuntimeError: a value of the input outside of 0 to 1.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    return _C.binary_cross_entropy(input, target, weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return `binary_cross_entropy(sigmoid(input), target)`, without overflow.

    Args:
        input: logits, any shape.
        target: the same shape.
        weight: broadcast to the loss of each element.
        reduction: see above.
        pos_weight: the weight of positive examples, broadcast to the input.

    Raises:
        ValueError: the shapes differ, or an unknown reduction.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    return _C.binary_cross_entropy_with_logits(
        input, target, weight, reduction=reduction, pos_weight=pos_weight
    )


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the Kullback-Leibler divergence `target (log(target) - input)` of each element.

    Args:
        input: logarithms of probabilities, any shape.
        target: probabilities, or their logarithms with `log_target`; broadcast to the input.
        reduction: also `"batchmean"`, the sum divided by the first size, which is the
            divergence as mathematics defines it.
        log_target: see `target`.

    Raises:
        ValueError: an unknown reduction.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    elif reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size.'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition."
        )
    return _C.kl_div(input, target, reduction=reduction, log_target=log_target)


def _warn_unless_same_shape(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warn(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )
