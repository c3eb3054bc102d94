"""Invertible maps with the logarithms of their Jacobians, for `TransformedDistribution`.

>>> t = weft.distributions.transforms.ExpTransform()
>>> t.log_abs_det_jacobian(weft.tensor(2.0), t(weft.tensor(2.0)))
tensor(2.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Size, Tensor
from weft.distributions import constraints
from weft.distributions.utils import broadcast_all
from weft.nn.functional import softplus

__all__ = [
    "AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform",
    "IndependentTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform",
    "SoftmaxTransform", "SoftplusTransform", "StickBreakingTransform", "TanhTransform",
    "Transform", "identity_transform",
]  # fmt: skip


def _sum_last(value: Tensor, dims: int) -> Tensor:
    return value.reshape(*value.shape[: value.dim() - dims], -1).sum(-1) if dims else value


class Transform:
    """Base of the maps: `t(x)`, `t.inv(y)`, `t.log_abs_det_jacobian(x, y)`.

    With `cache_size=1` the last pair (x, y) is kept, so that `t.inv(t(x))` is `x` itself.
    """

    bijective = False
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"[Transform] expected cache_size 0 or 1, got {cache_size}")
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions are mapped together."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def sign(self) -> Any:
        """The derivative's sign, where it has one."""
        raise NotImplementedError

    @property
    def inv(self) -> Transform:
        """The inverse map."""
        return _Inverse(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same map that keeps its last pair."""
        if self._cache_size == cache_size:
            return self
        import copy

        new = copy.copy(self)
        new._cache_size, new._last = cache_size, (None, None)
        return new

    def __call__(self, x: Tensor) -> Tensor:
        if not self._cache_size:
            return self._call(x)
        if x is self._last[0]:
            return self._last[1]
        y = self._call(x)
        self._last = (x, y)
        return y

    def _inverted(self, y: Tensor) -> Tensor:
        if not self._cache_size:
            return self._inverse(y)
        if y is self._last[1]:
            return self._last[0]
        x = self._inverse(y)
        self._last = (x, y)
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx|, one number for each event."""
        raise NotImplementedError

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """The shape of y for that of x."""
        return Size(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """The shape of x for that of y."""
        return Size(shape)

    def _settings(self) -> Any:
        return ()

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(self) is type(other) and self._settings() == other._settings()
        )

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    """A map the other way round."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform
        self.bijective = transform.bijective
        self.domain, self.codomain = transform.codomain, transform.domain

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inverted(x)

    def _inverted(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self._inv.forward_shape(shape)

    def _settings(self) -> Any:
        return self._inv

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Transform):
    """One map after the other, the first of the list first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        self.bijective = all(part.bijective for part in self.parts)
        if self.parts:
            self.domain, self.codomain = self._ends()

    def _ends(self) -> tuple[Any, Any]:
        """Where the first map begins and the last one ends, with the dimensions of an event that
        the maps between need."""
        need = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            need = max(need + part.domain.event_dim - part.codomain.event_dim,
                       part.domain.event_dim)  # fmt: skip
        given = self.parts[0].domain.event_dim
        for part in self.parts:
            given = max(given + part.codomain.event_dim - part.domain.event_dim,
                        part.codomain.event_dim)  # fmt: skip
        domain, codomain = self.parts[0].domain, self.parts[-1].codomain
        if need > domain.event_dim:
            domain = constraints.independent(domain, need - domain.event_dim)
        if given > codomain.event_dim:
            codomain = constraints.independent(codomain, given - codomain.event_dim)
        return domain, codomain

    @property
    def sign(self) -> Any:
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inverted(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return weft.zeros_like(x)
        dims = self.domain.event_dim
        total: Any = 0
        for k, part in enumerate(self.parts):
            after = y if k == len(self.parts) - 1 else part(x)
            term = part.log_abs_det_jacobian(x, after)
            total = total + _sum_last(term, dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
            x = after
        return total

    def forward_shape(self, shape: Sequence[int]) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return Size(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return Size(shape)

    def _settings(self) -> Any:
        return self.parts

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(part) for part in self.parts)
        return f"ComposeTransform(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A map whose last dimensions are one event."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inverted(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        each = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_last(each, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """The last dimensions under another shape."""

    bijective = True

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return Size((*shape[: len(shape) - len(self.in_shape)], *self.out_shape))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return Size((*shape[: len(shape) - len(self.out_shape)], *self.in_shape))

    def _settings(self) -> Any:
        return self.in_shape, self.out_shape


class ExpTransform(Transform):
    """y = exp(x)."""

    bijective, sign = True, 1
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, of positive x."""

    bijective = True
    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)); the inverse keeps away from 0 and 1."""

    bijective, sign = True, 1
    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        info = weft.finfo(x.dtype)
        return weft.clamp(weft.sigmoid(x), min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = weft.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x))."""

    bijective, sign = True, 1
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x). Values near 1 cannot be inverted well: use cache_size=1 there."""

    bijective, sign = True, 1
    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return weft.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|, with the positive inverse."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x; with `event_dim` 1 or 2 the last dimensions are one event."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim
        if event_dim:
            self.domain = self.codomain = constraints.independent(constraints.real, event_dim)

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
            each = _sum_last(each.expand(x.shape), self._event_dim)
            return each
        return each.expand(x.shape)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return weft.broadcast_shapes(
            shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ())
        )

    inverse_shape = forward_shape


class SoftmaxTransform(Transform):
    """y = softmax(x) over the last dimension; not one to one."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """From n - 1 numbers to n that sum to one: each takes its share of what is left."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.simplex

    @staticmethod
    def _offset(x: Tensor) -> Tensor:
        return x.shape[-1] + 1 - weft.ones(x.shape[-1], dtype=x.dtype, device=x.device).cumsum(-1)

    def _call(self, x: Tensor) -> Tensor:
        z = SigmoidTransform()(x - self._offset(x).log())
        left = (1 - z).cumprod(-1)
        pad = weft.nn.functional.pad
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        left = (1 - cropped.cumsum(-1)).clamp(min=weft.finfo(y.dtype).tiny)
        return cropped.log() - left.log() + self._offset(cropped).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x).log()
        return (-x + weft.nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return Size((*shape[:-1], shape[-1] - 1))
