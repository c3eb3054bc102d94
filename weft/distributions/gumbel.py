"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.transforms import AffineTransform, ExpTransform
from weft.distributions.uniform import Uniform
from weft.distributions.utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The greatest of many: loc - scale log(-log(u)) of a uniform u.

    >>> weft.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _expands = ("loc", "scale", "base_dist", "transforms")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits, one = weft.finfo(self.loc.dtype), weft.ones_like(self.loc)
        base = Uniform(one * limits.tiny, one * (1 - limits.eps), validate_args=validate_args)
        log = ExpTransform().inv
        transforms = [log, AffineTransform(0, -one), log, AffineTransform(self.loc, -self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
