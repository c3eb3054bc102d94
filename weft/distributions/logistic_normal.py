"""Probabilities from normal numbers."""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.distributions import constraints
from weft.distributions.independent import Independent
from weft.distributions.normal import Normal
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Probabilities of K classes, by the stick-breaking map of K - 1 normal numbers.

    >>> d = weft.distributions.LogisticNormal(weft.zeros(2), weft.ones(2))
    >>> d.event_shape
    torch.Size([3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Independent[Normal]
    _expands = ("base_dist", "transforms")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Of the normal numbers."""
        return self.base_dist.base_dist.scale
