"""How much one distribution differs from another (Kullback and Leibler, 1951).

Here are the rules and the divergences of two of one family; those of two families are in
`weft.distributions.kl_pairs`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.distributions.bernoulli import Bernoulli
from weft.distributions.beta import Beta
from weft.distributions.binomial import Binomial
from weft.distributions.categorical import Categorical
from weft.distributions.cauchy import Cauchy
from weft.distributions.continuous_bernoulli import ContinuousBernoulli
from weft.distributions.dirichlet import Dirichlet
from weft.distributions.distribution import Distribution
from weft.distributions.exp_family import ExponentialFamily
from weft.distributions.exponential import Exponential
from weft.distributions.gamma import Gamma
from weft.distributions.geometric import Geometric
from weft.distributions.gumbel import Gumbel
from weft.distributions.half_normal import HalfNormal
from weft.distributions.independent import Independent
from weft.distributions.laplace import Laplace
from weft.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from weft.distributions.multivariate_normal import MultivariateNormal, distance
from weft.distributions.normal import Normal
from weft.distributions.one_hot_categorical import OneHotCategorical
from weft.distributions.pareto import Pareto
from weft.distributions.poisson import Poisson
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.uniform import Uniform
from weft.distributions.utils import _sum_rightmost, euler_constant

__all__ = ["kl_divergence", "register_kl"]

_Rule = Callable[[Any, Any], Tensor]
_KL_REGISTRY: dict[tuple[type, type], _Rule] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[_Rule], _Rule]:
    """Decorate the function that computes it for two types and those derived from them.

    A type need not be of `Distribution`: it may be a mixin of such classes.

    Raises:
        TypeError: no class.

    >>> class Unit(weft.distributions.Normal):
    ...     pass
    >>> @weft.distributions.register_kl(Unit, Unit)
    ... def _unit(p, q):
    ...     return weft.zeros(())
    >>> p = Unit(0.0, 1.0)
    >>> weft.distributions.kl_divergence(p, p)
    tensor(0.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(
                f"[register_kl] expected a class as {name}, got {kind!r} (Expected {name} to be a "
                f"Distribution subclass but got {kind})"
            )

    def keep(function: _Rule) -> _Rule:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return keep


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The rule of the nearest bases; p's decide, with a warning where q's would decide else."""
    ps, qs = type_p.__mro__, type_q.__mro__
    near = [(ps.index(a), qs.index(b)) for a, b in _KL_REGISTRY if a in ps and b in qs]
    if not near:
        return NotImplemented
    by_p, by_q = min(near), min(near, key=lambda ij: ij[::-1])
    left, right = (_KL_REGISTRY[ps[i], qs[j]] for i, j in (by_p, by_q))
    if left is not right:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({ps[by_p[0]].__name__}, {qs[by_q[1]].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return left


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean of log p(x) - log q(x) for an x of p; one number for each of the batch.

    A number for each of the distributions: their batch shapes, broadcast.

    Raises:
        NotImplementedError: no formula for these two types.

    >>> d = weft.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    kinds = type(p), type(q)
    if kinds not in _KL_MEMOIZE:
        _KL_MEMOIZE[kinds] = _dispatch_kl(*kinds)
    if _KL_MEMOIZE[kinds] is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {kinds[0].__name__} and q type "
            f"{kinds[1].__name__}"
        )
    return _KL_MEMOIZE[kinds](p, q)


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normalizer (Nielsen and Nock, 2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    leaves, value, slopes = p._normalizer()
    result = q._log_normalizer(*q._natural_params) - value
    batch = weft.broadcast_shapes(p.batch_shape, q.batch_shape)
    for leaf, other, slope in zip(leaves, q._natural_params, slopes):
        result = result - ((other - leaf) * slope).reshape(*batch, -1).sum(-1)
    return result


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "[kl_divergence] expected the same transforms and event shapes, got "
            f"{p.transforms} of {p.event_shape} and {q.transforms} of {q.event_shape}"
        )
    return kl_divergence(p.base_dist, q.base_dist)


def _log_det(p: Any) -> Tensor:
    """Of the covariance."""
    return p._log_det() if isinstance(p, LowRankMultivariateNormal) else 2 * p._half_log_det()


def _roots(p: Any) -> list[Tensor]:
    """Matrices whose products with their transposes sum to the covariance."""
    if isinstance(p, LowRankMultivariateNormal):
        W, D, _ = p._parts()
        return [W, weft.diag_embed(D.sqrt())]
    return [p._unbroadcasted_scale_tril]


def _trace(q: Any, root: Tensor) -> Tensor:
    """The trace of q's precision times root rootᵀ."""
    if not isinstance(q, LowRankMultivariateNormal):
        L = q._unbroadcasted_scale_tril
        return weft.linalg.solve_triangular(L, root, upper=False).square().sum((-2, -1))
    spread = root / q._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
    return spread.square().sum((-2, -1)) - (q._whitened() @ root).square().sum((-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes "
            "cannot be computed"
        )
    if isinstance(q, LowRankMultivariateNormal):
        x = q.loc - p.loc
        inner = (q._whitened() @ x.unsqueeze(-1)).square().sum((-2, -1))
        far = (x.square() / q._unbroadcasted_cov_diag).sum(-1) - inner
    else:
        far = distance(q._unbroadcasted_scale_tril, q.loc - p.loc)
    trace: Any = sum(_trace(q, root) for root in _roots(p))
    return 0.5 * (_log_det(q) - _log_det(p) + trace + far - p.event_shape[0])


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


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * each).masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = t.masked_fill((q.probs == 0).expand(t.shape), math.inf)
    return t.masked_fill((p.probs == 0).expand(t.shape), 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    sizes = [d._cont_bern_log_norm() + (-d.probs).log1p() for d in (p, q)]
    return p.mean * (p.logits - q.logits) + sizes[0] - sizes[1]


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak and Nielsen (2019, arXiv:1905.10965)."""
    far = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return far.log() - (4 * p.scale * q.scale).log()


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
    ratio, moved = p.scale / q.scale, (q.loc - p.loc) / q.scale
    grown = (moved + (1 + ratio).lgamma()).exp()
    return -ratio.log() - moved + ratio * euler_constant + grown - (1 + euler_constant)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, far = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + far / q.scale + ratio * weft.exp(-far / p.scale) - 1


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    out = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return out.masked_fill(p.scale < q.scale, math.inf)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    out = ((q.high - q.low) / (p.high - p.low)).log()
    return out.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Independent, Independent)
def _independent(p: Independent[Any], q: Independent[Any]) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "[kl_divergence] expected as many reinterpreted dimensions, got "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
