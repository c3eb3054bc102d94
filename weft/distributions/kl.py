"""How much one distribution differs from another (Kullback and Leibler)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.distributions.bernoulli import Bernoulli, Geometric
from weft.distributions.categorical import Categorical, OneHotCategorical
from weft.distributions.continuous import (
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    LogNormal,
    Uniform,
)
from weft.distributions.distribution import Distribution
from weft.distributions.gamma import Beta, Dirichlet, Gamma
from weft.distributions.independent import Independent, sum_rightmost
from weft.distributions.multivariate_normal import MultivariateNormal, distance
from weft.distributions.normal import Normal
from weft.distributions.poisson import Poisson

__all__ = ["kl_divergence", "register_kl"]

_RULES: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[..., Tensor]], Any]:
    """Decorate the function that computes it for two types and those derived from them."""
    for kind in (type_p, type_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"Expected a Distribution subclass but got {kind}")

    def keep(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        _RULES[type_p, type_q] = function
        return function

    return keep


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean of log p(x) - log q(x) for an x of p; one number for each of the batch.

    Raises:
        NotImplementedError: no formula for these two types.

    >>> d = weft.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            if (a, b) in _RULES:
                return _RULES[a, b](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
@register_kl(HalfNormal, HalfNormal)
def _of_normals(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    n = p.event_shape[0]
    if n != q.event_shape[0]:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be "
            "computed"
        )
    L, M = q.scale_tril, p.scale_tril
    batch = weft.broadcast_shapes(L.shape[:-2], M.shape[:-2])
    L, M = L.expand(*batch, n, n), M.expand(*batch, n, n)
    trace = weft.linalg.solve_triangular(L, M, upper=False).square().sum((-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace + distance(L, q.loc - p.loc) - n)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    softplus = weft.nn.functional.softplus
    yes = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    yes = yes.masked_fill((q.probs == 0).expand(yes.shape), math.inf)
    yes = yes.masked_fill((p.probs == 0).expand(yes.shape), 0)
    no = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    no = no.masked_fill((q.probs == 1).expand(no.shape), math.inf)
    no = no.masked_fill((p.probs == 1).expand(no.shape), 0)
    return yes + no


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = t.masked_fill((q.probs == 0).expand(t.shape), math.inf)
    return t.masked_fill((p.probs == 0).expand(t.shape), 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    out = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return out + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    size = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return size + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, euler = p.scale / q.scale, 0.57721566490153286060
    moved = (q.loc - p.loc) / q.scale
    grown = (moved + (1 + ratio).lgamma()).exp()
    return -ratio.log() - moved + ratio * euler + grown - (1 + euler)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, far = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + far / q.scale + ratio * weft.exp(-far / p.scale) - 1


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    out = ((q.high - q.low) / (p.high - p.low)).log()
    return out.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
