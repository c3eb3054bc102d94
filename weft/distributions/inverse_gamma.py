"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.gamma import Gamma
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """One over a gamma number of `concentration` and `rate`.

    >>> weft.distributions.InverseGamma(weft.tensor(3.0), weft.tensor(4.0)).mean
    tensor(2.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma
    _expands = ("base_dist", "transforms")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        flip = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, flip, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Of the gamma number."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Of the gamma number."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return weft.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        inner = self.rate.square() / ((a - 1).square() * (a - 2))
        return weft.where(a > 2, inner, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
