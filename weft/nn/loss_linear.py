"""A linear layer and the cross entropy of its results, as one loss."""

from __future__ import annotations

import math
from typing import Any

from weft import Tensor
from weft.nn import functional as F
from weft.nn.linear import Linear
from weft.nn.loss import _WeightedLoss

__all__ = ["LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(_WeightedLoss):
    """`functional.linear_cross_entropy` with a layer `linear` of its own.

    Args:
        in_features: of the input `(in_features)` or `(batch, in_features)`.
        num_classes: how many classes there are.
        out_features: further sizes of the logits `(batch, num_classes, *out_features)`.
        bias: whether the layer adds one.
        reduction, weight, ignore_index, label_smoothing, options: see the function.

    Raises: RuntimeError for a weight that is not one for each class, or a label_smoothing beyond 0
    to 1.

    >>> loss = weft.nn.LinearCrossEntropyLoss(5, 10, out_features=(4, 3))
    >>> loss(weft.ones(2, 5), weft.zeros(2, 4, 3, dtype=weft.int64)).shape
    torch.Size([])
    """

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"[LinearCrossEntropyLoss] expected weight shape to be {(num_classes,)}, got "
                f"{tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                "[LinearCrossEntropyLoss] expected label_smoothing to be in range [0, 1], got "
                f"{label_smoothing}"
            )
        super().__init__(weight, None, None, reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        rows = num_classes * math.prod(out_features)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        sizes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*sizes, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(sizes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
