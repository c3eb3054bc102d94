"""Dropout: random zeros in training."""

from __future__ import annotations

from weft import Tensor
from weft.nn import functional as F
from weft.nn.module import Module


class _Dropout(Module):
    """Dropout of a probability."""

    __constants__ = ["p", "inplace"]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training, zeroes each element with probability `p` and scales the rest by 1 / (1 - p).

    Hinton et al., "Improving neural networks by preventing co-adaptation of feature detectors",
    2012. In evaluation it returns its input.

    Args:
        p: the probability of a zero.
        inplace: whether the input itself is changed.

    Raises:
        ValueError: `p` is outside of 0 to 1.

    >>> import weft
    >>> weft.nn.Dropout(0.5).eval()(weft.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Zeroes whole channels of `(batch, channels, length)`, see `dropout1d`.

    >>> y = weft.nn.Dropout1d(0.5)(weft.ones(1, 8, 2))
    >>> set(y.sum(2).flatten().tolist()) <= {0.0, 4.0}
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Zeroes whole channels of `(batch, channels, height, width)`, see `dropout2d`.

    >>> y = weft.nn.Dropout2d(0.5)(weft.ones(1, 8, 2, 2))
    >>> set(y.sum((2, 3)).flatten().tolist()) <= {0.0, 8.0}
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Zeroes whole channels of `(batch, channels, depth, height, width)`, see `dropout3d`.

    The shape stays.

    >>> y = weft.nn.Dropout3d(0.5)(weft.ones(1, 8, 1, 1, 2))
    >>> set(y.sum(4).flatten().tolist()) <= {0.0, 4.0}
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1 behind `selu`, see `alpha_dropout`.

    The shape stays.

    >>> weft.nn.AlphaDropout(0.5).eval()(weft.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels.

    The shape stays.

    >>> weft.nn.FeatureAlphaDropout(0.5).eval()(weft.ones(1, 2, 1)).flatten()
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
