"""Successes before failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.gamma import Gamma
from weft.distributions.parameters import Odds
from weft.distributions.utils import lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Odds):
    """How many trials succeed before `total_count` have failed, each with probability `probs`.

    `total_count` need not be whole: a Poisson count whose rate is a gamma number.

    >>> weft.distributions.NegativeBinomial(2.0, weft.tensor(0.5)).mean
    tensor(2.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer
    _expands = ("total_count", "probs", "logits", "_param")

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._take(probs, logits, total_count)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / weft.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with weft.no_grad():
            return weft.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, sure = self.total_count, weft.nn.functional.logsigmoid
        orders = (n + value).lgamma() - (1.0 + value).lgamma() - n.lgamma()
        orders = orders.masked_fill(n + value == 0.0, 0.0)
        return n * sure(-self.logits) + value * sure(self.logits) + orders
