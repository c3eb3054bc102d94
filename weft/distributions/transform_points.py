"""Maps of single numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Size, Tensor
from weft.distributions import constraints
from weft.distributions.transform_base import Transform, _with_events
from weft.distributions.utils import _sum_rightmost, broadcast_all
from weft.nn.functional import softplus

__all__ = [
    "AbsTransform", "AffineTransform", "ExpTransform", "PowerTransform", "SigmoidTransform",
    "SoftplusTransform", "TanhTransform",
]  # fmt: skip


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """The sigmoid, kept away from 0 and 1."""
    info = weft.finfo(x.dtype)
    return weft.clamp(weft.sigmoid(x), min=info.tiny, max=1.0 - info.eps)


class ExpTransform(Transform):
    """y = exp(x).

    >>> weft.distributions.ExpTransform().inv(weft.tensor(1.0))
    tensor(0.)
    """

    bijective, sign = True, 1
    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x

    def _settings(self) -> Any:
        return ()


class PowerTransform(Transform):
    """y = x ** exponent, of positive x.

    >>> weft.distributions.PowerTransform(2.0)(weft.tensor(3.0))
    tensor(9.)
    """

    bijective = True
    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def _settings(self) -> Any:
        return (self.exponent,)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return weft.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)); the inverse keeps away from 0 and 1.

    >>> weft.distributions.SigmoidTransform()(weft.tensor(0.0))
    tensor(0.5000)
    """

    bijective, sign = True, 1
    domain = constraints.real
    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        info = weft.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)

    def _settings(self) -> Any:
        return ()


class SoftplusTransform(Transform):
    """y = log(1 + exp(x)).

    >>> weft.distributions.SoftplusTransform()(weft.tensor(0.0))
    tensor(0.6931)
    """

    bijective, sign = True, 1
    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)

    def _settings(self) -> Any:
        return ()


class TanhTransform(Transform):
    """y = tanh(x). Values near 1 cannot be inverted well: use cache_size=1 there.

    >>> weft.distributions.TanhTransform()(weft.tensor(0.5))
    tensor(0.4621)
    """

    bijective, sign = True, 1
    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return weft.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))

    def _settings(self) -> Any:
        return ()


class AbsTransform(Transform):
    """y = |x|, with the positive inverse.

    >>> weft.distributions.AbsTransform()(weft.tensor(-1.0))
    tensor(1.)
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y

    def _settings(self) -> Any:
        return ()


class AffineTransform(Transform):
    """y = loc + scale * x; with `event_dim` 1 or 2 the last dimensions are one event.

    >>> weft.distributions.AffineTransform(1.0, -2.0).inv(weft.tensor(5.0))
    tensor(-2.)
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    def _settings(self) -> Any:
        return self.loc, self.scale

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return _with_events(constraints.real, self.event_dim)

    codomain = domain

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return int(self.scale > 0) - int(self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            each = self.scale.abs().log()
        else:
            each = weft.full_like(x, math.log(abs(self.scale)))
        if self._event_dim:
            return _sum_rightmost(each.expand(x.shape), self._event_dim)
        return each.expand(x.shape)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return weft.broadcast_shapes(
            shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ())
        )

    inverse_shape = forward_shape
