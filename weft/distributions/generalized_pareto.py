"""What exceeds a high threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.distribution import Distribution
from weft.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Of the survival (1 + concentration z)^(-1 / concentration) with z = (x - loc) / scale.

    That is exp(-z) where the concentration is 0 (Pickands, 1975).

    >>> D = weft.distributions
    >>> D.GeneralizedPareto(0.0, 1.0, weft.tensor(0.5)).mean
    tensor(2.)
    """

    arg_constraints = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip
    has_rsample = True
    _expands = ("loc", "scale", "concentration")

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        ends = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, weft.where(self.concentration < 0, ends, math.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is as good as 0, and the concentration, 1 there."""
        zero = weft.isclose(self.concentration, weft.zeros_like(self.concentration))
        return zero, weft.where(zero, weft.ones_like(self.concentration), self.concentration)

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(weft.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        z, (zero, c) = self._z(value), self._shape()
        power = 1 / c + weft.ones_like(z)
        inner = weft.where(power == 0, power, power * (c * z).log1p())
        return -self.scale.log() - weft.where(zero, z, inner)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more than `value`."""
        self._validate_sample(value)
        z, (zero, c) = self._z(value), self._shape()
        return weft.where(zero, -z, -(c * z).log1p() / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        (zero, c), left = self._shape(), (-value).log1p()
        inner = self.loc + self.scale / c * (-c * left).expm1()
        return weft.where(zero, self.loc - self.scale * left, inner)

    @property
    def mean(self) -> Tensor:
        has = self.concentration < 1
        inner = self.loc + self.scale / (1 - weft.where(has, self.concentration, 0.5))
        return weft.where(has, inner, math.nan)

    @property
    def variance(self) -> Tensor:
        has = self.concentration < 0.5
        c = weft.where(has, self.concentration, 0.25)
        return weft.where(has, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
