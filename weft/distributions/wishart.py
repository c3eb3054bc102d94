"""The distribution of scatter matrices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.chi2 import Chi2
from weft.distributions.exp_family import ExponentialFamily
from weft.distributions.multivariate_normal import OfMatrix, _one_form
from weft.distributions.utils import _standard_normal, vec_to_tril_matrix

__all__ = ["Wishart"]


class Wishart(OfMatrix, ExponentialFamily):
    """Of the sum of `df` products x xᵀ of normal vectors, for a `df` above their length less one.

    Samples are Bartlett's (1933): L A Aᵀ Lᵀ with roots of chi-squared numbers on A's diagonal.

    Args:
        df: (...), the degrees of freedom.
        covariance_matrix, precision_matrix, scale_tril: one of them, (..., n, n).

    Raises:
        AssertionError: none or several of them.
        ValueError: too small a `df`, no matrix, or one that is not positive-definite.

    >>> weft.distributions.Wishart(weft.tensor(3.0), weft.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = (
        "df", "covariance_matrix", "precision_matrix", "scale_tril", "_unbroadcasted_scale_tril",
        "_dist_chi2",
    )  # fmt: skip

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        try:
            forms = _one_form(covariance_matrix, precision_matrix, scale_tril)
        except ValueError as error:
            raise AssertionError(*error.args) from None
        name, matrix = self._take(getattr(df, "shape", ()), forms)
        batch, n = getattr(self, name).shape[:-2], matrix.shape[-1]
        df = weft.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        self.df = df.expand(batch)
        if bool((self.df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        if bool((self.df < n).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 "
                "< df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch, matrix.shape[-2:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._factor(name, matrix).expand(*batch, n, n)
        less = weft.arange(n, dtype=matrix.dtype, device=matrix.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - less)

    def _times(self, count: Tensor, matrix: Tensor) -> Tensor:
        return count.reshape(*self._batch_shape, 1, 1) * matrix

    @property
    def mean(self) -> Tensor:
        return self._times(self.df, self.covariance_matrix)

    @property
    def mode(self) -> Tensor:
        count = self.df - self._event_shape[-1] - 1
        return self._times(count.masked_fill(count <= 0, math.nan), self.covariance_matrix)

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        sides = V.diagonal(0, -2, -1)
        return self._times(self.df, V.pow(2) + sides.unsqueeze(-1) * sides.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Sequence[int] = ()) -> Tensor:
        n = self._event_shape[-1]
        eps = weft.finfo(self.df.dtype).eps
        noise = self._dist_chi2.rsample(sample_shape).sqrt().clamp(min=eps).diag_embed()
        shape = (*sample_shape, *self._batch_shape, n * (n - 1) // 2)
        below = _standard_normal(shape, noise.dtype, noise.device)
        factor = self._unbroadcasted_scale_tril @ (noise + vec_to_tril_matrix(below, diag=-1))
        return factor @ factor.mT

    def rsample(
        self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None
    ) -> Tensor:
        """Values that are differentiable by the parameters.

        Args:
            max_try_correction: how often those that rounding has made singular are drawn anew,
                10 times unless told otherwise.
        """
        sample = self._bartlett_sampling(sample_shape)
        # PyTorch takes those that are right for the wrong ones: its numbers are the second ones.
        anew = self._some(self.support.check(sample))
        singular = False
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not bool(anew.any()):
                break
            sample = sample.index_put((anew,), self._bartlett_sampling((int(anew.sum()),)))
            anew = self._some(~self.support.check(sample))
            if bool(anew.any()) and not singular:
                singular = True
                warnings.warn("Singular sample detected.", stacklevel=2)
        return sample

    def _some(self, of_matrices: Tensor) -> Tensor:
        """Whether any matrix of a batch is so, for each sample."""
        dims = tuple(range(-len(self._batch_shape), 0))
        return of_matrices.amax(dims) if dims else of_matrices

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, L = self._event_shape[-1], self._unbroadcasted_scale_tril
        size = self.df * (n * math.log(2) / 2 + self._half_log_det()) + weft.mvlgamma(
            self.df / 2, n
        )
        trace = weft.cholesky_solve(value, L).diagonal(0, -2, -1).sum(-1)
        return (self.df - n - 1) / 2 * weft.linalg.slogdet(value).logabsdet - trace / 2 - size

    def entropy(self) -> Tensor:
        n, half = self._event_shape[-1], self.df / 2
        less = weft.arange(n, dtype=half.dtype, device=half.device) / 2
        slope = (half.unsqueeze(-1) - less).digamma().sum(-1)
        size = (n + 1) * (n * math.log(2) / 2 + self._half_log_det()) + weft.mvlgamma(half, n)
        return size - (self.df - n - 1) / 2 * slope + self.df * n / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        log_det = weft.linalg.slogdet(-2 * x).logabsdet
        return half * (n * math.log(2) - log_det) + weft.mvlgamma(half, n)
