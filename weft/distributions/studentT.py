"""Student's distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.chi2 import Chi2
from weft.distributions.distribution import Distribution
from weft.distributions.utils import broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Of `df` degrees of freedom, `loc` and `scale`: a normal variable over the root of a Chi2.

    >>> weft.distributions.StudentT(weft.tensor(3.0)).variance
    tensor(3.)
    """

    arg_constraints = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real
    has_rsample = True
    _expands = ("df", "loc", "scale", "_chi2")

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df, validate_args=False)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, float("nan"))

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        inner = self.scale.pow(2) * self.df / (weft.where(finite, self.df, 3.0) - 2)
        out = weft.where(finite, inner, float("inf"))
        return out.masked_fill(self.df <= 1, float("nan"))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x = weft.empty(shape, dtype=self.df.dtype, device=self.df.device).normal_()
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * weft.rsqrt(z / self.df))

    def _log_beta(self) -> Tensor:
        return (0.5 * self.df).lgamma() - (0.5 * (self.df + 1.0)).lgamma()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        size = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + self._log_beta()
        return -0.5 * (self.df + 1.0) * (y**2.0 / self.df).log1p() - size

    def entropy(self) -> Tensor:
        half = 0.5 * (self.df + 1)
        spread = half * (half.digamma() - (0.5 * self.df).digamma())
        size = self._log_beta() + math.lgamma(0.5)
        return self.scale.log() + spread + 0.5 * self.df.log() + size
