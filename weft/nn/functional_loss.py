"""Losses; `weft.nn.functional` offers them.

All of them take `reduction="none" | "mean" | "sum"`: the loss of each element in the shape of the
input, or one number. `size_average` and `reduce` are PyTorch's older way to say the same.
"""

from __future__ import annotations

import math

import weft
from weft import _C, Tensor
from weft.base.forms import category
from weft.base.warn import warn


def legacy_reduction(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """Return what `size_average` and `reduce` mean as `reduction`, with a warning."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    meaning = "none" if not reduce else "mean" if size_average else "sum"
    if emit_warning:
        warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{meaning}' instead."
        )
    return meaning


def chosen_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction that is asked for in the new way or an older one."""
    if size_average is not None or reduce is not None:
        return legacy_reduction(size_average, reduce)
    if reduction == "elementwise_mean":
        warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        return "mean"
    if reduction not in ("none", "mean", "sum"):
        if not isinstance(reduction, str):
            raise TypeError(f"[loss] expected a str as reduction, got {type(reduction).__name__}")
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """Return the loss of each element, their mean or their sum."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction != "none":
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return loss


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
    if size_average is not None or reduce is not None or reduction == "elementwise_mean":
        reduction = chosen_reduction(size_average, reduce, reduction)
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

    >>> logs = weft.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    >>> weft.nn.functional.nll_loss(logs, weft.tensor([1, 0]))
    tensor(0.4904)
    """
    if size_average is not None or reduce is not None or reduction == "elementwise_mean":
        reduction = chosen_reduction(size_average, reduce, reduction)
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

    >>> weft.nn.functional.mse_loss(weft.tensor([1., 2.]), weft.tensor([1., 4.]))
    tensor(2.)
    """
    if size_average is not None or reduce is not None or reduction == "elementwise_mean":
        reduction = chosen_reduction(size_average, reduce, reduction)
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

    They broadcast; 0-d, or their shape with reduction 'none'.

    >>> import weft
    >>> weft.nn.functional.l1_loss(weft.zeros(2), weft.tensor([1.0, 3.0])).item()
    2.0
    """
    if size_average is not None or reduce is not None or reduction == "elementwise_mean":
        reduction = chosen_reduction(size_average, reduce, reduction)
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

    >>> weft.nn.functional.smooth_l1_loss(weft.tensor([0.5, 3.]), weft.zeros(2), reduction='none')
    tensor([0.1250, 2.5000])
    """
    if size_average is not None or reduce is not None or reduction == "elementwise_mean":
        reduction = chosen_reduction(size_average, reduce, reduction)
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

    >>> weft.nn.functional.huber_loss(weft.tensor([0.5, 3.0]), weft.zeros(2))
    tensor(1.3125)
    """
    if reduction == "elementwise_mean":
        reduction = chosen_reduction(None, None, reduction)
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

    >>> weft.nn.functional.binary_cross_entropy(weft.tensor([0.5]), weft.ones(1))
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None or reduction == "elementwise_mean":
        reduction = chosen_reduction(size_average, reduce, reduction)
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

    >>> weft.nn.functional.binary_cross_entropy_with_logits(weft.zeros(2), weft.ones(2))
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None or reduction == "elementwise_mean":
        reduction = chosen_reduction(size_average, reduce, reduction)
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

    >>> p = weft.tensor([0.5, 0.5])
    >>> weft.nn.functional.kl_div(p.log(), p, reduction="sum")
    tensor(0.)
    """
    if size_average is not None or reduce is not None or reduction == "elementwise_mean":
        reduction = chosen_reduction(size_average, reduce, reduction)
    elif reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size.'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition."
        )
    return _C.kl_div(input, target, reduction=reduction, log_target=log_target)


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

    >>> weft.nn.functional.poisson_nll_loss(weft.zeros(2), weft.ones(2))
    tensor(1.)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + weft.where(target > 1, stirling, 0)
    return reduced(loss, reduction)


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

    >>> weft.nn.functional.gaussian_nll_loss(weft.zeros(2), weft.ones(2), weft.ones(2))
    tensor(0.5000)
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
    return reduced(loss, reduction)


def _warn_unless_same_shape(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warn(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )


def in_dtype_of(who: str, loss: Tensor, input: Tensor) -> Tensor:
    """The losses of the elements in the input's dtype and shape, which have to hold them."""
    if loss.shape != input.shape:
        raise RuntimeError(
            f"[{who}] expected a target that expands to the input's shape, got output with shape "
            f"{[*input.shape]} doesn't match the broadcast shape {[*loss.shape]}"
        )
    if category(loss.dtype) > category(input.dtype):
        raise RuntimeError(
            f"[{who}] expected an input that holds {loss.dtype}, got {input.dtype} (result type "
            f"{loss.dtype} can't be cast to the desired output type {input.dtype})"
        )
    return loss.to(input.dtype)
