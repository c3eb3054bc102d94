"""Counts of successes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import _C, Tensor
from weft.distributions import constraints
from weft.distributions.parameters import Odds

__all__ = ["Binomial"]


class Binomial(Odds):
    """How many of `total_count` trials succeed, each with probability `probs`.

    `entropy` and `enumerate_support` are of equal counts only (else NotImplementedError).

    >>> weft.distributions.Binomial(4, weft.tensor(0.5)).log_prob(weft.tensor(2.0)).exp()
    tensor(0.3750)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
        "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True
    _expands = ("total_count", "probs", "logits", "_param")

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._take(probs, logits, total_count)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return weft.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with weft.no_grad():
            return _C.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        chosen = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        above = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2  # its slope at 0 is 1/2
        return value * logits + chosen - n * (above + (-logits.abs()).exp().log1p())

    def _equal_count(self, who: str) -> int:
        count = int(self.total_count.max())
        if not bool((self.total_count == count).all()):
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{who}`.")
        return count

    def entropy(self) -> Tensor:
        self._equal_count("entropy")
        each = self.log_prob(self.enumerate_support(False))
        return -(each.exp() * each).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._equal_count("enumerate_support")
        values = weft.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values
