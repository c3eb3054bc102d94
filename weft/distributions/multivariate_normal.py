"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.distribution import Distribution
from weft.distributions.utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


class OfMatrix(Distribution):
    """By a covariance, its inverse (precision) or its Cholesky factor; the others are computed."""

    _unbroadcasted_scale_tril: Tensor

    def _take(self, batch: Sequence[int], forms: dict[str, Tensor | None]) -> tuple[str, Tensor]:
        """Keep the one form that was given, over the batch of `batch` and its own."""
        given = {k: v for k, v in forms.items() if v is not None}
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(
                f"[{type(self).__name__}] expected a matrix as {name}, got shape "
                f"{tuple(matrix.shape)} ({name} must be at least two-dimensional, with optional "
                "leading batch dimensions)"
            )
        both = weft.broadcast_shapes(matrix.shape[:-2], batch)
        setattr(self, name, matrix.expand(*both, -1, -1))
        return name, matrix

    @staticmethod
    def _factor(name: str, matrix: Tensor) -> Tensor:
        """The Cholesky factor of the covariance, of one of the three forms."""
        if name == "scale_tril":
            return matrix
        if name == "covariance_matrix":
            return weft.linalg.cholesky(matrix)
        return _precision_to_scale_tril(matrix)

    def _squared(self, matrix: Tensor) -> Tensor:
        n = self._event_shape[-1]
        return matrix.expand(*self._batch_shape, n, n)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular L with the covariance L Lᵀ."""
        return self._squared(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        L = self._unbroadcasted_scale_tril
        return self._squared(L @ L.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._squared(weft.cholesky_inverse(self._unbroadcasted_scale_tril))

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)


def _one_form(covariance: Any, precision: Any, factor: Any) -> dict[str, Tensor | None]:
    """The forms by name.

    Raises:
        ValueError: none or several of them.
    """
    forms = {"covariance_matrix": covariance, "precision_matrix": precision, "scale_tril": factor}
    if sum(form is not None for form in forms.values()) != 1:
        raise ValueError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return forms


class MultivariateNormal(OfMatrix):
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
    _expands = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")
    _keeps = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError(
                "[MultivariateNormal] expected a vector as loc, got a number (loc must be at least "
                "one-dimensional.)"
            )
        forms = _one_form(covariance_matrix, precision_matrix, scale_tril)
        name, matrix = self._take(loc.shape[:-1], forms)
        batch = getattr(self, name).shape[:-2]
        self.loc = loc.expand(*batch, -1)
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._factor(name, matrix)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        spread = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return spread.expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        far = distance(self._unbroadcasted_scale_tril, value - self.loc)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + far) - self._half_log_det()

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        out = 0.5 * n * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return out.expand(self._batch_shape)


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices (..., n, m) times vectors (..., m)."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def distance(L: Tensor, x: Tensor) -> Tensor:
    """The square of the length of L⁻¹ x (Mahalanobis)."""
    half = weft.linalg.solve_triangular(L, x.unsqueeze(-1), upper=False)
    return half.square().sum((-2, -1))


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse, by the factor of the matrix read backwards."""
    upper = weft.linalg.cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    eye = weft.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return weft.linalg.solve_triangular(upper, eye.expand(precision.shape), upper=False)


#: PyTorch's name.
_batch_mahalanobis = distance
