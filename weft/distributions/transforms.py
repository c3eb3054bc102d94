"""Invertible maps with the logarithms of their Jacobians, for `TransformedDistribution`.

>>> t = weft.distributions.transforms.ExpTransform()
>>> t.log_abs_det_jacobian(weft.tensor(2.0), t(weft.tensor(2.0)))
tensor(2.)
"""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.distributions import constraints
from weft.distributions.transform_base import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    identity_transform,
)
from weft.distributions.transform_base import _InverseTransform as _InverseTransform
from weft.distributions.transform_joins import CatTransform, StackTransform
from weft.distributions.transform_points import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from weft.distributions.transform_points import _clipped_sigmoid as _clipped_sigmoid
from weft.distributions.transform_vectors import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


class CumulativeDistributionTransform(Transform):
    """y = the probability of at most x, for a distribution with `cdf`, `icdf` and `log_prob`.

    >>> D = weft.distributions
    >>> D.CumulativeDistributionTransform(D.Normal(0.0, 1.0))(weft.tensor(0.0))
    tensor(0.5000)
    """

    bijective, sign = True, 1
    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """Where the distribution lies."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
