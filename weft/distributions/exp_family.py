"""Exponential families."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Base of the distributions of density exp(<t(x), θ> - F(θ) + k(x)).

    A derived class gives θ by `_natural_params`, F by `_log_normalizer` and the mean of k by
    `_mean_carrier_measure`; the entropy and the divergence of two of one class follow (Nielsen and
    Nock, Entropies and cross-entropies of exponential families, 2010).

    >>> family = weft.distributions.ExponentialFamily
    >>> family.entropy(weft.distributions.Exponential(weft.tensor(1.0)))
    tensor(1., grad_fn=<SubBackward0>)
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """θ, by parts."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        """F(θ), one number for each distribution of the batch."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        """The mean of k(x)."""
        raise NotImplementedError

    def _normalizer(self) -> tuple[list[Tensor], Tensor, Any]:
        """θ as leaves, F(θ) and its gradient: the means of t(x)."""
        with weft.enable_grad():
            leaves = [p.detach().requires_grad_() for p in self._natural_params]
            value = self._log_normalizer(*leaves)
            slopes = weft.autograd.grad(value.sum(), leaves, create_graph=True)
        return leaves, value, slopes

    def entropy(self) -> Tensor:
        """F(θ) - <θ, ∇F(θ)> - the mean of k."""
        carrier = self._mean_carrier_measure
        leaves, value, slopes = self._normalizer()
        result = value - carrier
        for leaf, slope in zip(leaves, slopes):
            result = result - (leaf * slope).reshape(*self._batch_shape, -1).sum(-1)
        return result
