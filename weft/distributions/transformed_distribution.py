"""Distributions of transformed values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Size, Tensor
from weft.distributions import constraints
from weft.distributions.distribution import Distribution
from weft.distributions.independent import Independent
from weft.distributions.transforms import ComposeTransform, Transform
from weft.distributions.utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


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

    arg_constraints: dict[str, constraints.Constraint] = {}
    transforms: list[Transform]
    base_dist: Any
    _expands: tuple[str, ...] = ("transforms",)

    def __init__(
        self, base_distribution: Distribution, transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        good = isinstance(transforms, (Transform, list))
        if not good or not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(
                "[TransformedDistribution] expected a Transform or a list of them, got "
                f"{transforms} (transforms must be a Transform or a list of Transforms)"
            )
        joined = ComposeTransform(self.transforms)
        self.base_dist = base = self._fitted(base_distribution, joined)
        need, own = joined.domain.event_dim, len(base.event_shape)
        events = joined.codomain.event_dim + max(own - need, 0)
        shape = joined.forward_shape(base.batch_shape + base.event_shape)
        cut = len(shape) - events
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    @staticmethod
    def _fitted(base: Distribution, joined: ComposeTransform) -> Distribution:
        """The base with as many dimensions as the maps have, and with events as theirs."""
        shape, need = base.batch_shape + base.event_shape, joined.domain.event_dim
        if len(shape) < need:
            raise ValueError(
                f"[TransformedDistribution] expected a base of {need} dimensions or more, got "
                f"{shape} (base_distribution needs to have shape with size at least {need}, but "
                f"got {shape}.)"
            )
        own = len(base.event_shape)
        wanted = Size(joined.inverse_shape(joined.forward_shape(shape)))
        if shape != wanted:
            base = base.expand(wanted[: len(wanted) - own])
        return Independent(base, need - own) if need > own else base

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        shape = Size((*batch_shape, *self.event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has it."""
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint:
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        missing = len(self.event_shape) - last.event_dim
        return constraints.independent(last, missing) if missing > 0 else last

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
            x = transform.inv(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            term = transform.log_abs_det_jacobian(x, y)
            total = total - _sum_rightmost(term, events - transform.domain.event_dim)
            y = x
        last = self.base_dist.log_prob(y)
        return total + _sum_rightmost(last, events - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """A probability, or that of the other side where the maps fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._through(self.base_dist.icdf(self._monotonize_cdf(value)))
