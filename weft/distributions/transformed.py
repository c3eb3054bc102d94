"""Distributions of transformed values, and mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Size, Tensor
from weft.distributions.categorical import Categorical
from weft.distributions.distribution import Distribution
from weft.distributions.independent import Independent
from weft.distributions.transforms import ComposeTransform, Transform, _sum_last

__all__ = ["MixtureSameFamily", "TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Of y = f(x) with x from a base: the density by the change of variables.

    Args:
        base_distribution: where x comes from.
        transforms: a map, or a list of them, the first one first.

    Raises: ValueError for what is no Transform, or a base with too few dimensions.

    >>> D = weft.distributions
    >>> squashed = D.TransformedDistribution(D.Normal(0.0, 1.0), D.transforms.TanhTransform())
    >>> squashed.log_prob(weft.tensor(0.0))
    tensor(-0.9189)
    """

    def __init__(
        self, base_distribution: Distribution, transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(
                "[TransformedDistribution] expected a Transform or a list of them, got "
                f"{transforms} (transforms must be a Transform or list of Transforms)"
            )
        joined = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        need = joined.domain.event_dim
        if len(shape) < need:
            raise ValueError(
                f"[TransformedDistribution] expected a base of at least {need} dimensions, got "
                f"shape {tuple(shape)}"
            )
        forward = joined.forward_shape(shape)
        wanted = joined.inverse_shape(forward)
        if tuple(shape) != tuple(wanted):
            own = len(base_distribution.event_shape)
            base_distribution = base_distribution.expand(wanted[: len(wanted) - own])
        extra = need - len(base_distribution.event_shape)
        if extra > 0:
            base_distribution = Independent(base_distribution, extra)
        self.base_dist = base_distribution
        events = joined.codomain.event_dim + max(len(base_distribution.event_shape) - need, 0)
        cut = len(forward) - events
        super().__init__(forward[:cut], forward[cut:], validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has it."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        from weft.distributions import constraints

        last = self.transforms[-1].codomain
        missing = len(self.event_shape) - last.event_dim
        return constraints.independent(last, missing) if missing > 0 else last

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        joined = ComposeTransform(self.transforms)
        shape = joined.inverse_shape((*batch_shape, *self.event_shape))
        base = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return TransformedDistribution(base, self.transforms, validate_args=False)

    def _through(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with weft.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        events = len(self.event_shape)
        total: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform._inverted(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            term = transform.log_abs_det_jacobian(x, y)
            total = total - _sum_last(term, events - transform.domain.event_dim)
            y = x
        last = self.base_dist.log_prob(y)
        return total + _sum_last(last, events - len(self.base_dist.event_shape))

    def _flip(self, value: Tensor) -> Tensor:
        """A probability, or that of the other side where the maps fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform._inverted(value)
        return self._flip(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._through(self.base_dist.icdf(self._flip(value)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class MixtureSameFamily(Distribution):
    """One of several components, chosen by a Categorical over their last batch dimension.

    >>> D = weft.distributions
    >>> mix = D.Categorical(weft.ones(2))
    >>> D.MixtureSameFamily(mix, D.Normal(weft.tensor([-1.0, 1.0]), 1.0)).mean
    tensor(0.)
    """

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "[MixtureSameFamily] expected a Categorical as mixture_distribution, got "
                f"{type(mixture_distribution).__name__} (The Mixture distribution needs to be an "
                "instance of torch.distributions.Categorical)"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "[MixtureSameFamily] expected a Distribution as component_distribution, got "
                f"{type(component_distribution).__name__}"
            )
        kinds = mixture_distribution.logits.shape[-1]
        batch = component_distribution.batch_shape
        if not batch or batch[-1] != kinds:
            raise ValueError(
                f"[MixtureSameFamily] expected {kinds} components in the last batch dimension, got "
                f"{tuple(batch)}"
            )
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        events = component_distribution.event_shape
        self._event_ndims = len(events)
        super().__init__(batch[:-1], events, validate_args=validate_args)

    @property
    def support(self) -> Any:
        return self.component_distribution.support

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

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        kinds = self.component_distribution.batch_shape[-1]
        return MixtureSameFamily(
            self.mixture_distribution.expand(batch_shape),
            self.component_distribution.expand((*batch_shape, kinds)),
            validate_args=False,
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value = value.unsqueeze(-1 - self._event_ndims)
        each = self.component_distribution.log_prob(value)
        return weft.logsumexp(each + weft.log_softmax(self.mixture_distribution.logits, -1), -1)

    def cdf(self, value: Tensor) -> Tensor:
        each = self.component_distribution.cdf(value.unsqueeze(-1 - self._event_ndims))
        return (each * self.mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with weft.no_grad():
            at = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            each = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(*chosen.shape, *[1] * (self._event_ndims + 1))
            shape = Size((*chosen.shape, 1, *self.event_shape))
            return weft.gather(each, at, index.expand(shape)).squeeze(at)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
