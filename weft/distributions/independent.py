"""A batch of distributions as one of several numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from weft import Tensor
from weft.distributions import constraints
from weft.distributions.distribution import Distribution
from weft.distributions.utils import _sum_rightmost

__all__ = ["Independent"]


_Base = TypeVar("_Base", bound=Distribution)


class Independent(Distribution, Generic[_Base]):
    """`base_distribution` whose last batch dimensions belong to the event.

    Args:
        base_distribution: of independent numbers.
        reinterpreted_batch_ndims: how many of its batch dimensions.

    >>> base = weft.distributions.Normal(weft.zeros(2, 3), weft.ones(2, 3))
    >>> weft.distributions.Independent(base, 1).log_prob(weft.zeros(2, 3))
    tensor([-2.7568, -2.7568])
    """

    base_dist: _Base
    arg_constraints: dict[str, constraints.Constraint] = {}
    _expands = ("base_dist", "reinterpreted_batch_ndims")

    def __init__(
        self,
        base_distribution: _Base,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch, event = base_distribution.batch_shape, base_distribution.event_shape
        count = reinterpreted_batch_ndims
        if count > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{count} vs {len(batch)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        kept = len(batch) - count
        super().__init__(batch[:kept], batch[kept:] + event, validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether samples are differentiable."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether all values can be listed."""
        return self.base_dist.has_enumerate_support and not self.reinterpreted_batch_ndims

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        count = self.reinterpreted_batch_ndims
        base = self.base_dist.support
        return constraints.independent(base, count) if count else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
