"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence

import weft
from weft import _C, Tensor
from weft.distributions import constraints
from weft.distributions.exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Probabilities of K classes, of `concentration` (..., K).

    >>> weft.distributions.Dirichlet(weft.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _expands = ("concentration",)

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
        return _C.ops._sample_dirichlet(
            self.concentration.expand(self._extended_shape(sample_shape))
        )

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

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
