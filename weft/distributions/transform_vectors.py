"""Maps of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Size, Tensor
from weft.distributions import constraints
from weft.distributions.transform_base import Transform, _expect_dims
from weft.distributions.transform_points import _clipped_sigmoid
from weft.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from weft.nn.functional import logsigmoid, pad, softplus

__all__ = [
    "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform",
    "SoftmaxTransform", "StickBreakingTransform",
]  # fmt: skip


class CorrCholeskyTransform(Transform):
    """From D (D - 1) / 2 numbers to the Cholesky factor of a D x D correlation matrix.

    tanh of each number is its share of the length that its row has left, with a sign (Stan's
    reference manual, "Cholesky factors of correlation matrices"). The determinant is that of the
    map to the numbers below the diagonal.

    >>> weft.distributions.CorrCholeskyTransform()(weft.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    bijective = True
    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        eps = weft.finfo(x.dtype).eps
        share = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - share**2).sqrt().cumprod(-1)
        share = share + weft.eye(share.shape[-1], dtype=share.dtype, device=share.device)
        return share * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        share = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (share.log1p() - (-share).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)  # before each but the first
        tanh = (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) - 2 * tanh

    def forward_shape(self, shape: Sequence[int]) -> Size:
        _expect_dims(shape, 1)
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        _expect_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class SoftmaxTransform(Transform):
    """y = softmax(x) over the last dimension; not one to one.

    >>> weft.distributions.SoftmaxTransform()(weft.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def _settings(self) -> Any:
        return ()

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        _expect_dims(shape, 1)
        return Size(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """From n - 1 numbers to n that sum to one: each takes its share of what is left.

    >>> weft.distributions.StickBreakingTransform()(weft.zeros(2))
    tensor([0.3333, 0.3333, 0.3333])
    """

    bijective = True
    domain, codomain = constraints.real_vector, constraints.simplex

    def _settings(self) -> Any:
        return ()

    @staticmethod
    def _offset(x: Tensor) -> Tensor:
        return x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)

    def _call(self, x: Tensor) -> Tensor:
        z = _clipped_sigmoid(x - self._offset(x).log())
        left = (1 - z).cumprod(-1)
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        left = (1 - cropped.cumsum(-1)).clamp(min=weft.finfo(y.dtype).tiny)
        return cropped.log() - left.log() + self._offset(cropped).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        _expect_dims(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        _expect_dims(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """From a matrix to a lower triangular one, by the exponential on the diagonal.

    >>> weft.distributions.LowerCholeskyTransform()(weft.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _settings(self) -> Any:
        return ()

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """From a matrix to L Lᵀ, with L by `LowerCholeskyTransform`.

    >>> weft.distributions.PositiveDefiniteTransform()(weft.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _settings(self) -> Any:
        return ()

    def _call(self, x: Tensor) -> Tensor:
        L = LowerCholeskyTransform()(x)
        return L @ L.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(weft.linalg.cholesky(y))
