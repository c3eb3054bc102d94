"""Probability distributions: `weft.distributions`, with PyTorch's numbers for a seed.

>>> import weft
>>> policy = weft.distributions.Categorical(probs=weft.tensor([0.25, 0.75]))
>>> policy.log_prob(weft.tensor([0, 1]))
tensor([-1.3863, -0.2877])
"""

from weft.distributions import constraints, utils
from weft.distributions.bernoulli import Bernoulli, Geometric
from weft.distributions.categorical import (
    Categorical,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from weft.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    LogNormal,
    Uniform,
)
from weft.distributions.distribution import Distribution
from weft.distributions.gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
from weft.distributions.independent import Independent
from weft.distributions.kl import kl_divergence, register_kl
from weft.distributions.multivariate_normal import MultivariateNormal
from weft.distributions.normal import Normal
from weft.distributions.poisson import Poisson

__all__ = [
    "Bernoulli", "Beta", "Categorical", "Cauchy", "Chi2", "Dirichlet", "Distribution",
    "Exponential", "Gamma", "Geometric", "Gumbel", "HalfNormal", "Independent", "Laplace",
    "LogNormal", "MultivariateNormal", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Poisson", "StudentT", "Uniform", "constraints",
    "kl_divergence", "register_kl", "utils",
]  # fmt: skip
