"""Divergences of two families: -H(p) - E log q(x), by the few means that log q is made of.

Where q has no density at some x of p the divergence is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.distributions.bernoulli import Bernoulli
from weft.distributions.beta import Beta
from weft.distributions.binomial import Binomial
from weft.distributions.continuous_bernoulli import ContinuousBernoulli
from weft.distributions.exponential import Exponential
from weft.distributions.gamma import Gamma
from weft.distributions.gumbel import Gumbel
from weft.distributions.kl import register_kl
from weft.distributions.laplace import Laplace
from weft.distributions.normal import Normal
from weft.distributions.pareto import Pareto
from weft.distributions.poisson import Poisson
from weft.distributions.uniform import Uniform
from weft.distributions.utils import euler_constant

__all__: list[str] = []


def _log_moment(low: Tensor, high: Tensor) -> Tensor:
    """E log x of the uniform distribution."""
    return (weft.xlogy(high, high) - weft.xlogy(low, low)) / (high - low) - 1


#: E log x of those of positive numbers.
_MEAN_LOG: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -p.rate.log() - euler_constant,
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _log_moment(p.low, p.high),
}

#: log E exp(-t x) less -t loc of a loc: Laplace's transform.
_LOG_LAPLACE: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Exponential: lambda p, t: -(t / p.rate).log1p(),
    Gamma: lambda p, t: -p.concentration * (t / p.rate).log1p(),
    Normal: lambda p, t: (t * p.scale).pow(2) / 2 - t * p.loc,
    Uniform: lambda p, t: (
        (-(-t * (p.high - p.low)).expm1()).log() - t * p.low - (t * (p.high - p.low)).log()
    ),
}


def _to_normal(p: Any, q: Normal) -> Tensor:
    far = (p.variance + (p.mean - q.loc).pow(2)) / (2 * q.scale.pow(2))
    return far + q.scale.log() + 0.5 * math.log(2 * math.pi)


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log()


def _to_gamma(p: Any, q: Gamma) -> Tensor:
    a, r = q.concentration, q.rate
    return a.lgamma() - weft.xlogy(a, r) - (a - 1) * _MEAN_LOG[type(p)](p) + r * p.mean


def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    grown = _LOG_LAPLACE[type(p)](p, q.scale.reciprocal()) + q.loc / q.scale
    return q.scale.log() + (p.mean - q.loc) / q.scale + grown.exp()


def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    return -p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


def _to_uniform(p: Any, q: Uniform) -> Tensor:
    return (q.high - q.low).log()


def _to_pareto(p: Any, q: Pareto) -> Tensor:
    log_x = _MEAN_LOG[type(p)](p)
    return (q.alpha + 1) * log_x - q.alpha.log() - q.alpha * q.scale.log()


def _to_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log()


def _to_laplace(p: Normal, q: Laplace) -> Tensor:
    """By the mean of a folded normal variable (Leone, Nelson and Nottingham, 1961)."""
    far = p.loc - q.loc
    z = far / p.scale
    spread = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.pow(2)).exp()
    return (spread + far * weft.erf(math.sqrt(0.5) * z)) / q.scale + (2 * q.scale).log()


def _to_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    size = a.lgamma() + b.lgamma() - (a + b).lgamma()
    above = _log_moment(1 - p.high, 1 - p.low)
    return size - (a - 1) * _log_moment(p.low, p.high) - (b - 1) * above


def _below_zero(p: Any, q: Any) -> Tensor:
    return p.low < 0


def _outside_unit(p: Any, q: Any) -> Tensor:
    return (p.low < 0) | (p.high > 1)


def _unit_outside(p: Any, q: Any) -> Tensor:
    return (q.low > 0) | (q.high < 1)


#: -E log q, the types of p, and where it is infinite.
_CROSS: list[tuple[Any, type, dict[type, Callable[[Any, Any], Tensor] | None]]] = [
    (_to_normal, Normal, {
        Beta: None, ContinuousBernoulli: None, Exponential: None, Gamma: None, Gumbel: None,
        Laplace: None, Pareto: lambda p, q: p.alpha <= 2, Uniform: None,
    }),
    (_to_exponential, Exponential, {
        Beta: None, ContinuousBernoulli: None, Gamma: None,
        Pareto: lambda p, q: p.alpha <= 1, Uniform: _below_zero,
    }),
    (_to_gamma, Gamma, {
        Beta: None, Exponential: None, Pareto: lambda p, q: p.alpha <= 1, Uniform: _below_zero,
    }),
    (_to_gumbel, Gumbel, {Exponential: None, Gamma: None, Normal: None, Uniform: None}),
    (_to_continuous_bernoulli, ContinuousBernoulli, {Beta: None, Uniform: _outside_unit}),
    (_to_uniform, Uniform, {Beta: _unit_outside, ContinuousBernoulli: _unit_outside}),
    (_to_pareto, Pareto, {Uniform: lambda p, q: p.low < q.scale}),
    (_to_poisson, Poisson, {Bernoulli: None}),
    (_to_laplace, Laplace, {Normal: None}),
    (_to_beta, Beta, {Uniform: _outside_unit}),
]  # fmt: skip

#: Types of p whose values lie outside of q's, and a parameter of the batch's shape.
_INFINITE: list[tuple[type, str, tuple[type, ...]]] = [
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, "concentration", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, "scale", (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
]


def _register(cross: Any, p_type: type, q_type: type, outside: Any) -> None:
    def rule(p: Any, q: Any) -> Tensor:
        found = cross(p, q) - p.entropy()
        return found if outside is None else found.masked_fill(outside(p, q), math.inf)

    register_kl(p_type, q_type)(rule)


def _register_infinite(p_type: type, parameter: str, q_type: type) -> None:
    register_kl(p_type, q_type)(lambda p, q: weft.full_like(getattr(p, parameter), math.inf))


for _cross, _q, _ps in _CROSS:
    for _p, _outside in _ps.items():
        _register(_cross, _p, _q, _outside)
for _p, _parameter, _qs in _INFINITE:
    for _q in _qs:
        _register_infinite(_p, _parameter, _q)
