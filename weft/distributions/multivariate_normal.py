"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.distribution import Distribution
from weft.distributions.utils import lazy_property

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """Of mean `loc` and a covariance, its inverse (precision) or its Cholesky factor.

    Args:
        loc: (..., n).
        covariance_matrix, precision_matrix, scale_tril: one of them, (..., n, n).

    Raises:
        ValueError: none or several of them, no vector, a matrix that is not positive-definite.

    >>> normal = weft.distributions.MultivariateNormal(weft.zeros(2), weft.eye(2))
    >>> normal.log_prob(weft.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        forms = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
                 "scale_tril": scale_tril}  # fmt: skip
        given = {k: v for k, v in forms.items() if v is not None}
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = weft.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(*batch, -1, -1))
        self.loc = loc.expand(*batch, -1)
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            factor = matrix
        elif name == "covariance_matrix":
            factor = weft.linalg.cholesky(matrix)
        else:
            factor = _inverted(matrix)
        self._unbroadcasted_scale_tril = factor

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        factor = self.__dict__.pop("_unbroadcasted_scale_tril")
        try:
            new = super().expand(batch_shape)
        finally:
            self._unbroadcasted_scale_tril = factor
        new._unbroadcasted_scale_tril = factor
        return new

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular L with the covariance L Lᵀ."""
        n = self._event_shape[0]
        return self._unbroadcasted_scale_tril.expand(*self._batch_shape, n, n)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        L = self.scale_tril
        return L @ L.mT

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return weft.cholesky_inverse(self.scale_tril)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale_tril.pow(2).sum(-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        eps = weft.empty(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        ).normal_()
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        far = distance(self._unbroadcasted_scale_tril, value - self.loc)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + far) - self._half_log_det()

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        out = 0.5 * n * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return out.expand(self._batch_shape)


def distance(L: Tensor, x: Tensor) -> Tensor:
    """The square of the length of L⁻¹ x (Mahalanobis)."""
    half = weft.linalg.solve_triangular(L, x.unsqueeze(-1), upper=False)
    return half.square().sum((-2, -1))


def _inverted(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse, by the factor of the matrix read backwards."""
    turned = weft.linalg.cholesky(precision.flip((-2, -1)))
    upper = turned.flip((-2, -1)).mT
    eye = weft.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return weft.linalg.solve_triangular(upper, eye.expand(precision.shape), upper=False)
