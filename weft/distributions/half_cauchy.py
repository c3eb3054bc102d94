"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.cauchy import Cauchy
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(TransformedDistribution):
    """The magnitude of a Cauchy variable round 0; it has no finite mean.

    >>> weft.distributions.HalfCauchy(weft.tensor(1.0)).cdf(weft.tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Cauchy
    _expands = ("base_dist", "transforms")

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """Of the Cauchy variable: the median."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return weft.full_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return weft.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value = weft.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        inside = self.base_dist.log_prob(value) + math.log(2)
        return weft.where(value >= 0, inside, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
