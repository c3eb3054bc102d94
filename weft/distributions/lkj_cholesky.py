"""Factors of correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.beta import Beta
from weft.distributions.distribution import Distribution
from weft.distributions.utils import _standard_normal, broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """The Cholesky factor of a correlation matrix, likely as its determinant^(concentration - 1).

    Drawn row by row, a direction and a beta-distributed length, the onion method (Lewandowski,
    Kurowicka and Joe, Generating random correlation matrices, 2009, section 3.2).

    Args:
        dim: how many rows, 2 or more.
        concentration: (...), 1 for the uniform distribution.

    >>> weft.distributions.LKJCholesky(2, 1.0).log_prob(weft.eye(2))
    tensor(-0.6931)
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _expands = ("dim", "concentration", "_beta")

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        like = self.concentration
        above = (weft.arange(dim, dtype=like.dtype, device=like.device) - 1).clamp(min=0)
        marginal = self.concentration.unsqueeze(-1) + 0.5 * (dim - 2)
        self._beta = Beta(above + 0.5, marginal - 0.5 * above, validate_args=False)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with weft.no_grad():
            length = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normal = _standard_normal(shape, length.dtype, length.device).tril(-1)
            normal = normal / normal.norm(dim=-1, keepdim=True)
            normal[..., 0, :] = 0.0
            factor = length.sqrt() * normal
            tiny = weft.finfo(factor.dtype).tiny
            rest = (1 - factor.square().sum(-1)).clamp(min=tiny).sqrt()
            return factor + weft.diag_embed(rest)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, n = self.concentration, self.dim
        order = 2 * (a - 1).unsqueeze(-1) + n - weft.arange(2, n + 1, device=a.device)
        inner = (order * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        alpha = a + 0.5 * (n - 1)
        size = 0.5 * (n - 1) * math.log(math.pi) + weft.mvlgamma(alpha - 0.5, n - 1)
        return inner - size + alpha.lgamma() * (n - 1)
