"""Mixtures."""

from __future__ import annotations

from collections.abc import Sequence

import weft
from weft import Size, Tensor
from weft.distributions import constraints
from weft.distributions.categorical import Categorical
from weft.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One of several components, chosen by a Categorical over their last batch dimension.

    >>> D = weft.distributions
    >>> mix = D.Categorical(weft.ones(2))
    >>> D.MixtureSameFamily(mix, D.Normal(weft.tensor([-1.0, 1.0]), 1.0)).mean
    tensor(0.)
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    _expands = ("_mixture_distribution", "_component_distribution")
    _keeps = ("_num_component", "_event_ndims")

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        for given, kind in ((mixture_distribution, Categorical),
                            (component_distribution, Distribution)):  # fmt: skip
            if not isinstance(given, kind):
                word = "Mixture" if kind is Categorical else "Component"
                raise ValueError(
                    f"[MixtureSameFamily] expected a {kind.__name__}, got {type(given).__name__} "
                    f"(The {word} distribution needs to be an instance of "
                    f"torch.distributions.{kind.__name__})"
                )
        self._num_component = mixture_distribution.logits.shape[-1]
        self._event_ndims = len(component_distribution.event_shape)
        self._check_batches(mixture_distribution.batch_shape, component_distribution.batch_shape)
        super().__init__(
            component_distribution.batch_shape[:-1], component_distribution.event_shape,
            validate_args=validate_args,
        )  # fmt: skip

    def _check_batches(self, mixture: Size, component: Size) -> None:
        batch = component[:-1]
        if any(1 not in (i, j) and i != j for i, j in zip(reversed(mixture), reversed(batch))):
            raise ValueError(
                f"[MixtureSameFamily] expected batches that broadcast, got {mixture} and {batch} "
                f"(`mixture_distribution.batch_shape` ({mixture}) is not compatible with "
                f"`component_distribution.batch_shape`({batch}))"
            )
        if component[-1:] != (self._num_component,):
            raise ValueError(
                f"[MixtureSameFamily] expected {self._num_component} components in the last batch "
                f"dimension, got {component} (`mixture_distribution component` "
                f"({self._num_component}) does not equal `component_distribution.batch_shape[-1]` "
                f"({component[-1] if component else None}))"
            )

    @property
    def mixture_distribution(self) -> Categorical:
        """Of which component it is."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """Of the components, in the last batch dimension."""
        return self._component_distribution

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def _weights(self) -> Tensor:
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * self._event_ndims)

    def _mixed(self, values: Tensor) -> Tensor:
        return (self._weights() * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._mixed(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        inner = self._mixed(self.component_distribution.variance)
        at = -1 - self._event_ndims
        away = (self.component_distribution.mean - self.mean.unsqueeze(at)).pow(2)
        return inner + self._mixed(away)

    def _pad(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1 - self._event_ndims)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value = self._pad(value)
        each = self.component_distribution.log_prob(value)
        return weft.logsumexp(each + weft.log_softmax(self.mixture_distribution.logits, -1), -1)

    def cdf(self, value: Tensor) -> Tensor:
        each = self.component_distribution.cdf(self._pad(value))
        return (each * self.mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with weft.no_grad():
            at = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            each = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(*chosen.shape, *[1] * (self._event_ndims + 1))
            shape = Size((*chosen.shape, 1, *self.event_shape))
            return weft.gather(each, at, index.expand(shape)).squeeze(at)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
