"""Losses as layers: the functions of `weft.nn.functional` with their settings.

All take an input and a target. `reduction` is `"none"`, `"mean"` or `"sum"`; `size_average` and
`reduce` are PyTorch's older way to say the same.

>>> import weft
>>> weft.nn.MSELoss()(weft.zeros(2), weft.tensor([1.0, 3.0])).item()
5.0
"""

from __future__ import annotations

from weft import Tensor
from weft.base.warn import warn
from weft.nn import functional as F
from weft.nn.functional_loss import legacy_reduction
from weft.nn.module import Module


class _Loss(Module):
    """A loss with a reduction."""

    __constants__: list[str] = ["reduction"]
    reduction: str

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = legacy_reduction(size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight, which is a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class CrossEntropyLoss(_WeightedLoss):
    """`-log(softmax(input))` at the target class.

    Args:
        weight: `(classes)`, a factor for each class.
        size_average, reduce, reduction: see above; `"mean"` is weighted.
        ignore_index: targets of this class do not count.
        label_smoothing: the share of the target that is spread over all classes.

    >>> import weft
    >>> logits = weft.tensor([[0.0, 0.0], [0.0, 0.0]])
    >>> round(weft.nn.CrossEntropyLoss()(logits, weft.tensor([0, 1])).item(), 4)
    0.6931
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """`-input` at the target class; the input is `(batch, classes, ...)` of log-probabilities.

    Args:
        weight: `(classes)`, a factor for each class.
        size_average, reduce, reduction: see above; `"mean"` is weighted.
        ignore_index: targets of this class do not count.

    >>> logs = weft.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    >>> weft.nn.NLLLoss()(logs, weft.tensor([1, 0]))
    tensor(0.4904)
    """

    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """`NLLLoss` by its older name, which warns: log-probabilities (batch, classes, height, width),
    targets (batch, height, width).

    >>> import warnings
    >>> warnings.simplefilter("ignore")
    >>> weft.nn.NLLLoss2d()(weft.zeros(1, 2, 1, 1), weft.zeros(1, 1, 1).long())
    tensor(0.)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement and see its documentation for details.",
            FutureWarning,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class MSELoss(_Loss):
    """`(input - target)²`.

    Input and target broadcast; 0-d, or their shape with reduction 'none'.

    >>> weft.nn.MSELoss()(weft.tensor([1., 2.]), weft.tensor([1., 4.]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """`|input - target|`.

    Input and target have one shape `(*)`; the result has none, or theirs without reduction.

    >>> weft.nn.L1Loss()(weft.tensor([1., 2.]), weft.tensor([3., 2.]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """A square near 0, divided by `beta`, and the distance farther away (Girshick, 2015).

    Args:
        size_average, reduce, reduction: see above.
        beta: where the square ends.

    Input and target have one shape `(*)`; the result has none, or theirs without reduction.

    >>> weft.nn.SmoothL1Loss()(weft.tensor([0.5, 3.]), weft.tensor([0., 0.]))
    tensor(1.3125)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half a square near 0, and `delta` times the distance farther away (Huber, 1964).

    Input and target broadcast; 0-d, or their shape with reduction 'none'.

    Args:
        reduction: see above.
        delta: where the square ends.

    >>> weft.nn.HuberLoss()(weft.tensor([0.5, 3.0]), weft.zeros(2))
    tensor(1.3125)
    """

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class BCELoss(_WeightedLoss):
    """`-(target log(input) + (1 - target) log(1 - input))` of probabilities.

    Input and target of one shape; 0-d, or that shape with reduction 'none'.

    >>> weft.nn.BCELoss()(weft.tensor([0.5, 0.5]), weft.tensor([1., 0.]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """`BCELoss` of `sigmoid(input)`, without overflow.

    Args:
        weight: broadcast to the loss of each element.
        size_average, reduce, reduction: see above.
        pos_weight: the weight of positive examples, broadcast to the input.

    >>> weft.nn.BCEWithLogitsLoss()(weft.zeros(2), weft.tensor([1., 0.]))
    tensor(0.6931)
    """

    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input,
            target,
            weight=self.weight,
            reduction=self.reduction,
            pos_weight=self.pos_weight,
        )


class KLDivLoss(_Loss):
    """`target (log(target) - input)`; the input holds logarithms of probabilities.

    Args:
        size_average, reduce, reduction: see above; also `"batchmean"`, the sum divided by the
            first size, which is the divergence as mathematics defines it.
        log_target: whether the target holds logarithms as well.

    >>> p = weft.tensor([[0.5, 0.5]])
    >>> weft.nn.KLDivLoss(reduction='batchmean')(weft.tensor([[0.25, 0.75]]).log(), p)
    tensor(0.1438)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)
