"""The gamma distribution and what is made of its numbers.

The same seed gives PyTorch's samples. Gradients hold the quantile of the gamma numbers; PyTorch's
of `Dirichlet` and `Beta` hold another one, so that single gradients differ and their means agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import _C, Tensor
from weft.distributions import constraints
from weft.distributions.distribution import Distribution
from weft.distributions.utils import broadcast_all

__all__ = ["Beta", "Chi2", "Dirichlet", "Gamma", "StudentT"]


class Gamma(Distribution):
    """Of shape `concentration` and `rate`.

    >>> weft.distributions.Gamma(weft.tensor(2.0), weft.tensor(4.0)).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = _C.ops._standard_gamma(self.concentration.expand(shape))
        value = drawn / self.rate.expand(shape)
        value.detach().clamp_(min=weft.finfo(value.dtype).tiny)  # not 0: the graph sees the same
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value = weft.as_tensor(value, dtype=self.rate.dtype)
        a = self.concentration
        return weft.xlogy(a, self.rate) + weft.xlogy(a - 1, value) - self.rate * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return weft.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()


class Chi2(Gamma):
    """The sum of `df` squares of normal variables.

    >>> weft.distributions.Chi2(weft.tensor(3.0)).mean
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """How many."""
        return self.concentration * 2

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Dirichlet(Distribution):
    """Probabilities of K classes, of `concentration` (..., K).

    >>> weft.distributions.Dirichlet(weft.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        flat = (self.concentration < 1).all(-1, keepdim=True)
        inner = above / above.sum(-1, True)
        corner = weft.nn.functional.one_hot(inner.argmax(-1), above.shape[-1])
        return weft.where(flat, corner.to(inner.dtype), inner)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        a = self.concentration.expand(self._extended_shape(sample_shape))
        drawn = _C.ops._standard_gamma(a.double())
        value = drawn / drawn.sum(-1, keepdim=True)
        limits = weft.finfo(a.dtype)
        below_one = 1 - limits.eps / 2
        return value.to(a.dtype).clamp(min=limits.tiny, max=below_one)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        inside = weft.xlogy(a - 1.0, value).sum(-1)
        return inside + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        spread = (k - total) * total.digamma() + ((a - 1.0) * a.digamma()).sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - spread


class Beta(Distribution):
    """A probability, of `concentration1` and `concentration0`.

    >>> weft.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        both = weft.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args)
        super().__init__(both.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return new

    @property
    def concentration1(self) -> Tensor:
        """The weight of 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The weight of 0."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._dirichlet.log_prob(weft.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


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

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df, validate_args=False)
        super().__init__(self.df.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape)
        new._chi2 = self._chi2.expand(batch_shape)
        return new

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
