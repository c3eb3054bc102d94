"""Classes as vectors that are almost one-hot."""

from __future__ import annotations

import math
from collections.abc import Sequence

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.categorical import Categorical
from weft.distributions.parameters import OfClasses
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.transforms import ExpTransform
from weft.distributions.utils import broadcast_all, clamp_probs

__all__ = ["RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OfClasses):
    """The logarithm of a `RelaxedOneHotCategorical` (arXiv:1611.00712, appendix C).

    >>> d = ExpRelaxedCategorical(weft.tensor(1.0), weft.ones(2))
    >>> d.rsample().exp().sum()
    tensor(1.)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # those whose exponentials sum to one
    has_rsample = True
    _expands = ("_categorical",)
    _keeps = ("temperature",)

    def __init__(
        self, temperature: Tensor, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = clamp_probs(weft.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-noise.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        count = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        size = math.lgamma(count) + (count - 1) * self.temperature.log()
        scores = logits - value * self.temperature
        return (scores - scores.logsumexp(-1, keepdim=True)).sum(-1) + size


class RelaxedOneHotCategorical(TransformedDistribution):
    """Probabilities, near a corner of the simplex for a low temperature (arXiv:1611.00712).

    Parameters [*, n]; samples are [*, n].

    Args:
        temperature: a tensor, above 0.
        probs, logits: one of them, the parameter of the `OneHotCategorical` that it is near.

    >>> weft.distributions.RelaxedOneHotCategorical(weft.tensor(1.0), weft.ones(2)).probs
    tensor([0.5000, 0.5000])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical
    _expands = ("base_dist", "transforms")

    def __init__(
        self, temperature: Tensor, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """How far from the corners."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs
