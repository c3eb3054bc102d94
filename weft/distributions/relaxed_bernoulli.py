"""Trials that are almost 0 or 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.parameters import Odds
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.transforms import SigmoidTransform
from weft.distributions.utils import broadcast_all, probs_to_logits

__all__ = ["RelaxedBernoulli"]


class LogitRelaxedBernoulli(Odds):
    """The log odds of a `RelaxedBernoulli`: logistic noise and `logits`, over the temperature.

    Maddison, Mnih and Teh (2016, arXiv:1611.00712), and Jang, Gu and Poole (2016,
    arXiv:1611.01144).

    >>> d = LogitRelaxedBernoulli(weft.tensor(1.0), weft.tensor(0.5))
    >>> d.log_prob(weft.tensor(0.0))
    tensor(-1.3863)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True
    _expands = ("probs", "logits", "_param")
    _keeps = ("temperature",)

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = weft.rand(shape, dtype=self.probs.dtype, device=self.probs.device)
        moved = [probs_to_logits(p, is_binary=True) for p in (noise, self.probs.expand(shape))]
        return (moved[0] + moved[1]) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        far = logits - value * self.temperature
        return self.temperature.log() + far - 2 * far.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A number in (0, 1), near one of its ends for a low temperature (arXiv:1611.00712).

    Parameters of any shape [*]; samples are [*].

    Args:
        temperature: a tensor, above 0.
        probs, logits: one of them, the parameter of the `Bernoulli` that it is near.

    >>> weft.distributions.RelaxedBernoulli(weft.tensor(1.0), weft.tensor(0.25)).logits
    tensor(-1.0986)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli
    _expands = ("base_dist", "transforms")

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """How far from the ends."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probability."""
        return self.base_dist.probs
