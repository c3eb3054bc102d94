"""Counts of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.binomial import Binomial
from weft.distributions.categorical import Categorical
from weft.distributions.parameters import OfClasses
from weft.distributions.utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(OfClasses):
    """How often each of K classes comes in `total_count` draws of a `Categorical`.

    Args:
        total_count: an int.
        probs, logits: one of them, (..., K).

    Raises:
        NotImplementedError: another `total_count`.

    >>> weft.distributions.Multinomial(4, weft.ones(2)).mean
    tensor([2., 2.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int
    _expands = ("_categorical", "_binomial")
    _keeps = ("total_count",)

    def __init__(
        self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        self._binomial = Binomial(total_count, probs=self.probs)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, drawn, weft.ones_like(drawn)).to(self.probs.dtype)

    def entropy(self) -> Tensor:
        n = self.total_count
        support = self._binomial.enumerate_support(False)[1:]
        likely = self._binomial.log_prob(support).exp()
        orders = (likely * (support + 1).lgamma()).sum([0, -1])
        return n * self._categorical.entropy() - math.lgamma(n + 1) + orders

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        orders = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return orders + (logits * value).sum(-1)
