"""Probability distributions: `weft.distributions`, with PyTorch's numbers for a seed.

>>> import weft
>>> policy = weft.distributions.Categorical(probs=weft.tensor([0.25, 0.75]))
>>> policy.log_prob(weft.tensor([0, 1]))
tensor([-1.3863, -0.2877])
"""

from weft.base import lazy as _lazy
from weft.distributions import constraints, transforms, utils
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
from weft.distributions.transformed import MixtureSameFamily, TransformedDistribution
from weft.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Categorical", "Cauchy", "Chi2",
    "ComposeTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential", "Gamma",
    "Geometric", "Gumbel", "HalfNormal", "Independent", "IndependentTransform", "Laplace",
    "LogNormal", "MixtureSameFamily", "MultivariateNormal", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Poisson", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StickBreakingTransform",
    "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform",
    "constraints", "identity_transform", "kl_divergence", "register_kl", "transforms", "utils",
]  # fmt: skip

_lazy.install()
