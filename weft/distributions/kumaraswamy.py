"""Kumaraswamy's distribution."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.transforms import AffineTransform, PowerTransform
from weft.distributions.uniform import Uniform
from weft.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Of the probability 1 - (1 - x^a)^b of at most x in [0, 1] (1980), a near relation of Beta.

    Args:
        concentration1, concentration0: a and b.

    >>> weft.distributions.Kumaraswamy(weft.tensor(1.0), weft.tensor(1.0)).mean
    tensor(0.5000)
    """

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True
    _expands = ("concentration1", "concentration0", "base_dist", "transforms")

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        a, b = broadcast_all(concentration1, concentration0)
        self.concentration1, self.concentration0 = a, b
        base = Uniform(weft.zeros_like(b), weft.ones_like(b), validate_args=validate_args)
        transforms = [
            PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0),
            PowerTransform(a.reciprocal()),
        ]  # fmt: skip
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        b, order = self.concentration0, 1 + n / self.concentration1
        return b * (order.lgamma() + b.lgamma() - (order + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return log_mode.masked_fill((b < 1) | (a < 1), math.nan).exp()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
