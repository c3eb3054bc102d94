"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.exponential import Exponential
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.transforms import AffineTransform, PowerTransform
from weft.distributions.utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Of the survival exp(-(x / scale)^concentration).

    >>> weft.distributions.Weibull(weft.tensor(2.0), weft.tensor(1.0)).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _expands = ("scale", "concentration", "concentration_reciprocal", "base_dist", "transforms")

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(weft.ones_like(self.scale), validate_args=validate_args)
        transforms = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def _log_moment(self, n: int) -> Tensor:
        return (1 + n * self.concentration_reciprocal).lgamma()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._log_moment(1).exp()

    @property
    def mode(self) -> Tensor:
        inner = (self.concentration - 1) / self.concentration
        return self.scale * inner**self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (self._log_moment(2).exp() - (2 * self._log_moment(1)).exp())

    def entropy(self) -> Tensor:
        r = self.concentration_reciprocal
        return euler_constant * (1 - r) + (self.scale * r).log() + 1
