"""Losses of margins, pairs, triplets and distributions, and CTC, as layers.

All take `reduction`: `"none"`, `"mean"` or `"sum"`; `size_average` and `reduce` are PyTorch's older
way to say the same. The functions of the same names in `weft.nn.functional` tell the formulas.

>>> import weft
>>> near, far = weft.zeros(1, 2), weft.tensor([[3.0, 4.0]])
>>> round(weft.nn.TripletMarginLoss(margin=6.0)(near, near, far).item(), 3)
1.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import Tensor
from weft.nn import functional as F
from weft.nn.loss import _Loss, _WeightedLoss
from weft.nn.module import Module


class CosineSimilarity(Module):
    """`cosine_similarity` along `dim`; no length counts as less than `eps`.

    >>> weft.nn.CosineSimilarity()(weft.tensor([[1.0, 0.0]]), weft.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    __constants__ = ["dim", "eps"]

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` along the last dimension.

    >>> weft.nn.PairwiseDistance()(weft.tensor([[3.0, 0.0]]), weft.tensor([[0.0, 4.0]]))
    tensor([5.])
    """

    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class _MarginLoss(_Loss):
    """A loss of a margin."""

    __constants__ = ["margin", "reduction"]
    margin: float

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """`max(0, -target (input1 - input2) + margin)`.

    Inputs and target of one shape; 0-d, or that shape with reduction 'none'.

    >>> a, b = weft.tensor([1.0]), weft.tensor([3.0])
    >>> weft.nn.MarginRankingLoss()(a, b, weft.tensor([1.0]))
    tensor(2.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class HingeEmbeddingLoss(_MarginLoss):
    """The input where the target is 1, `max(0, margin - input)` where it is -1.

    Input and target broadcast; 0-d, or their shape with reduction 'none'.

    >>> weft.nn.HingeEmbeddingLoss()(weft.tensor([0.5, 0.5]), weft.tensor([1, -1]))
    tensor(0.5000)
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """`1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1.

    (N, D) or (D), and targets (N) or 0-d.

    >>> a, b = weft.tensor([[1.0, 0.0]]), weft.tensor([[0.0, 1.0]])
    >>> weft.nn.CosineEmbeddingLoss()(a, b, weft.tensor([1]))
    tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """`log(1 + exp(-target input))`.

    Input and target of one shape; 0-d, or that shape with reduction 'none'.

    >>> weft.nn.SoftMarginLoss()(weft.zeros(2), weft.ones(2))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """`multilabel_margin_loss`: every label against every class that is none.

    Input and target (N, C) or (C), the target int64.

    >>> weft.nn.MultiLabelMarginLoss()(weft.tensor([0.5, 1.0]), weft.tensor([0, -1]))
    tensor(0.7500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """`multilabel_soft_margin_loss`: the mean over classes of logistic losses.

    Input and target (N, C).

    >>> weft.nn.MultiLabelSoftMarginLoss()(weft.zeros(1, 2), weft.ones(1, 2))
    tensor(0.6931)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """`multi_margin_loss`: the label against every other class.

    Raises:
        ValueError: p is neither 1 nor 2, or the weight no vector.

    >>> weft.nn.MultiMarginLoss()(weft.tensor([[0.5, 1.0]]), weft.tensor([0]))
    tensor(0.7500)
    """

    __constants__ = ["p", "margin", "reduction"]

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D "
                "instead"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class TripletMarginLoss(_Loss):
    """`max(0, |anchor - positive| - |anchor - negative| + margin)`.

    Three tensors (N, D) or (D).

    Raises:
        ValueError: the margin is not positive.

    >>> a, b = weft.tensor([[0.0, 0.0]]), weft.tensor([[3.0, 4.0]])
    >>> weft.nn.TripletMarginLoss()(a, b, a)
    tensor(6.0000)
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of one's own (default: `PairwiseDistance()`).

    Three tensors (N, D), or of any shape that the distance takes.

    Raises:
        ValueError: the margin is not positive.

    >>> a, b = weft.tensor([[0.0, 0.0]]), weft.tensor([[3.0, 4.0]])
    >>> weft.nn.TripletMarginWithDistanceLoss()(a, b, a)
    tensor(6.0000)
    """

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got "
                f"{margin} instead"
            )
        self.distance_function = (
            distance_function if distance_function is not None else PairwiseDistance()
        )
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class PoissonNLLLoss(_Loss):
    """`poisson_nll_loss`: `-log` of a Poisson density.

    Input and target broadcast; 0-d, or their shape with reduction 'none'.

    >>> weft.nn.PoissonNLLLoss()(weft.zeros(2), weft.ones(2))
    tensor(1.)
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """`gaussian_nll_loss`: `-log` of a normal density.

    Input and target of one shape, `var` of it or broadcasting to it.

    >>> weft.nn.GaussianNLLLoss()(weft.zeros(2), weft.ones(2), weft.ones(2))
    tensor(0.5000)
    """

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """`ctc_loss`: `-log` of the probability of target sequences over all alignments.

    Shapes are those of `ctc_loss`: log-probabilities (L, N, classes).

    >>> log_probs = weft.full((2, 1, 2), 0.5).log()
    >>> weft.nn.CTCLoss()(log_probs, weft.tensor([[1]]), [2], [1])
    tensor(0.2877)
    """

    __constants__ = ["blank", "reduction"]

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
