"""The normal distribution of vectors, by few factors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.distribution import Distribution
from weft.distributions.multivariate_normal import _batch_mv, distance
from weft.distributions.utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Of the covariance W Wᵀ + D, by the matrix inversion and determinant lemmas (Woodbury, 1950).

    Args:
        loc: (..., n).
        cov_factor: W, (..., n, m).
        cov_diag: the diagonal of D, (..., n).

    Raises:
        ValueError: other shapes, or batches that do not broadcast.

    >>> D = weft.distributions
    >>> d = D.LowRankMultivariateNormal(weft.zeros(2), weft.ones(2, 1), weft.ones(2))
    >>> d.covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True
    _expands = ("loc", "cov_diag", "cov_factor")
    _keeps = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event[0]} x m, got "
                f"{cov_factor.shape}"
            )
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            batch = weft.broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(*batch, -1)
        self.cov_factor = cov_factor.expand(*batch, -1, -1)
        self.cov_diag = cov_diag.expand(*batch, -1)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch, event, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return (
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )  # fmt: skip

    def _squared(self, matrix: Tensor) -> Tensor:
        return matrix.expand(*self._batch_shape, *self._event_shape, *self._event_shape)

    @lazy_property
    def variance(self) -> Tensor:
        W, D, _ = self._parts()
        return (W.pow(2).sum(-1) + D).expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular L with the covariance L Lᵀ."""
        W, D, _ = self._parts()
        root = D.sqrt().unsqueeze(-1)
        return self._squared(root * weft.linalg.cholesky(_plus_one((W / root) @ (W / root).mT)))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        W, D, _ = self._parts()
        return self._squared(W @ W.mT + weft.diag_embed(D))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        _, D, _ = self._parts()
        A = self._whitened()
        return self._squared(weft.diag_embed(D.reciprocal()) - A.mT @ A)

    def _whitened(self) -> Tensor:
        """C⁻¹ Wᵀ D⁻¹ with the factor C of the capacitance."""
        W, D, C = self._parts()
        return weft.linalg.solve_triangular(C, W.mT / D.unsqueeze(-2), upper=False)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, (W, D, _) = self._extended_shape(sample_shape), self._parts()
        dtype, device = self.loc.dtype, self.loc.device
        few = _standard_normal((*shape[:-1], W.shape[-1]), dtype, device)
        own = _standard_normal(shape, dtype, device)
        return self.loc + _batch_mv(W, few) + D.sqrt() * own

    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(*self._parts())

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        W, D, C = self._parts()
        far = _batch_lowrank_mahalanobis(W, D, value - self.loc, C)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + far)

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        out = 0.5 * (n * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return out.expand(self._batch_shape)


def _plus_one(matrix: Tensor) -> Tensor:
    return matrix + weft.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of I + Wᵀ D⁻¹ W."""
    return weft.linalg.cholesky(_plus_one((W.mT / D.unsqueeze(-2)) @ W))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """The logarithm of the determinant of W Wᵀ + D."""
    return 2 * capacitance_tril.diagonal(0, -2, -1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """xᵀ (W Wᵀ + D)⁻¹ x."""
    inner = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - distance(capacitance_tril, inner)
