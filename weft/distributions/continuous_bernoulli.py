"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.exp_family import ExponentialFamily
from weft.distributions.parameters import Odds
from weft.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs
from weft.nn.functional import binary_cross_entropy_with_logits

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(Odds, ExponentialFamily):
    """Of a density proportional to probs^x (1 - probs)^(1 - x) on [0, 1].

    Loaiza-Ganem and Cunningham (2019, arXiv:1907.06845); where `probs` is within `lims` by its
    Taylor series round 1/2, as the formulas lose all digits there.

    >>> weft.distributions.ContinuousBernoulli(weft.tensor(0.5)).variance
    tensor(0.0833)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = ("probs", "logits", "_param", "_lims")

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._take(probs, logits)
        if logits is None:
            inside = self.arg_constraints["probs"].check(self.probs)
            if validate_args is not None and not bool(inside.all()):
                raise ValueError("The parameter probs has invalid values")
            self._param = self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter in (0, 1)."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _stable(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where the formulas hold, `probs` there (the lower limit elsewhere), log odds of that."""
        low, high = self._lims
        far = (self.probs <= low) | (self.probs > high)
        probs = weft.where(far, self.probs, low * weft.ones_like(self.probs))
        return far, probs, probs.log() - (-probs).log1p()

    def _cont_bern_log_norm(self) -> Tensor:
        far, probs, odds = self._stable()
        size = odds.abs().log() - (1 - 2 * probs).abs().log()
        x = (self.probs - 0.5).pow(2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return weft.where(far, size, series)

    @property
    def mean(self) -> Tensor:
        far, probs, odds = self._stable()
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return weft.where(far, probs / (2.0 * probs - 1.0) - 1.0 / odds, series)

    @property
    def variance(self) -> Tensor:
        far, probs, odds = self._stable()
        x = (self.probs - 0.5).pow(2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        inner = probs * (probs - 1.0) / (1.0 - 2.0 * probs).pow(2) + 1.0 / odds.pow(2)
        return weft.where(far, inner, series)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(weft.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        inner = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - inner

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        far, probs, _ = self._stable()
        power = probs.pow(value) * (1.0 - probs).pow(1.0 - value)
        inner = weft.where(far, (power + probs - 1.0) / (2.0 * probs - 1.0), value)
        inner = weft.where(value <= 0.0, weft.zeros_like(value), inner)
        return weft.where(value >= 1.0, weft.ones_like(value), inner)

    def icdf(self, value: Tensor) -> Tensor:
        far, probs, odds = self._stable()
        less = (-probs).log1p()
        return weft.where(far, ((value * (2.0 * probs - 1.0) - probs).log1p() - less) / odds, value)

    def entropy(self) -> Tensor:
        less = (-self.probs).log1p()
        return self.mean * (less - self.probs.log()) - self._cont_bern_log_norm() - less

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        low, high = (limit - 0.5 for limit in self._lims)
        far = (x <= low) | (x > high)
        cut = weft.where(far, x, low * weft.ones_like(x))
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return weft.where(far, cut.expm1().abs().log() - cut.abs().log(), series)
