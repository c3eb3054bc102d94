"""What a map is; maps of maps. `weft.distributions.transforms` has them all."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import weft
from weft import Size, Tensor
from weft.distributions import constraints
from weft.distributions.utils import _sum_rightmost

__all__ = [
    "ComposeTransform", "IndependentTransform", "ReshapeTransform", "Transform",
    "identity_transform",
]  # fmt: skip


class Transform:
    """Base of the maps: `t(x)`, `t.inv(y)`, `t.log_abs_det_jacobian(x, y)`.

    A derived class has `_call`, `_inverse` and the logarithm of its Jacobian's determinant, and
    says by `domain`, `codomain`, `bijective` and `sign` what it is. With `cache_size=1` the last
    pair (x, y) is kept, so that `t.inv(t(x))` is `x` itself. `t.inv.inv` is `t`.

    Raises:
        ValueError: a `cache_size` other than 0 and 1.

    >>> t = weft.distributions.ExpTransform()
    >>> t(weft.zeros(2)), t.inv(weft.ones(2))
    (tensor([1., 1.]), tensor([0., 0.]))
    """

    bijective = False
    domain: Any
    codomain: Any
    _inv: Transform | None

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(
                f"[Transform] expected a cache_size of 0 or 1, got {cache_size} (cache_size must "
                "be 0 or 1)"
            )
        self._cache_size = cache_size
        self._inv = None
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        """Without the pair that was kept, which may be of a graph."""
        return self.__dict__ | {"_cached_x_y": (None, None)}

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
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same map that keeps its last pair.

        Raises:
            NotImplementedError: a class with an `__init__` of its own that does not say how.
        """
        if self._cache_size == cache_size:
            return self
        made = type(self).__init__.__module__  # of the class, or module, that knows what to copy
        if made.rpartition(".")[0] != Transform.__module__.rpartition(".")[0]:
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        new = copy.copy(self)
        new._cache_size, new._inv = cache_size, None
        return new

    def __eq__(self, other: object) -> bool:
        if self is other or self._settings() is None:
            return self is other
        return type(self) is type(other) and _equal(self._settings(), other._settings())

    def _settings(self) -> Any:
        """What makes two of one class equal; None: nothing does."""
        return None

    def __call__(self, x: Tensor) -> Tensor:
        """y of x."""
        if not self._cache_size:
            return self._call(x)
        x_old, y_old = self._cached_x_y
        if x is x_old:
            return y_old
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        """x of y."""
        if not self._cache_size:
            return self._inverse(y)
        x_old, y_old = self._cached_x_y
        if y is y_old:
            return x_old
        x = self._inverse(y)
        self._cached_x_y = x, y
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _equal(a: Any, b: Any) -> bool:
    """Whether settings are equal, tensors among them in every element."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return bool(weft.as_tensor(a == b).all())
    if isinstance(a, (list, tuple)) and not isinstance(a, Size):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b))
    return bool(a == b)


class _InverseTransform(Transform):
    """A map the other way round."""

    _inv: Transform

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """As the map."""
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def _settings(self) -> Any:
        return (self._inv,)

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Transform):
    """One map after the other, the first of the list first. Each part keeps its own last pair.

    >>> D = weft.distributions
    >>> D.ComposeTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)])(weft.tensor(0.0))
    tensor(3.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def _settings(self) -> Any:
        return list(self.parts)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        need = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            at = part.domain.event_dim
            need = max(need + at - part.codomain.event_dim, at)
        return _with_events(self.parts[0].domain, need)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        given = self.parts[0].domain.event_dim
        for part in self.parts:
            at = part.codomain.event_dim
            given = max(given + at - part.domain.event_dim, at)
        return _with_events(self.parts[-1].codomain, given)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        same = self._cache_size == cache_size
        return self if same else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        return self.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return weft.zeros_like(x)
        dims = self.domain.event_dim
        total: Any = 0
        for k, part in enumerate(self.parts):
            after = y if k == len(self.parts) - 1 else part(x)
            term = part.log_abs_det_jacobian(x, after)
            total = total + _sum_rightmost(term, dims - part.domain.event_dim)
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

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {inner}\n)"


def _with_events(constraint: Any, dims: int) -> Any:
    more = dims - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


#: The map that changes nothing.
identity_transform = ComposeTransform([])


def _expect_dims(shape: Sequence[int], dims: int) -> None:
    if len(shape) < dims:
        raise ValueError(
            f"[Transform] expected {dims} dimensions or more, got shape {tuple(shape)} (Too few "
            "dimensions on input)"
        )


class IndependentTransform(Transform):
    """A map whose last dimensions are one event.

    >>> D = weft.distributions
    >>> D.IndependentTransform(D.ExpTransform(), 1).log_abs_det_jacobian(weft.ones(2), None)
    tensor(2.)
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """As the base."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        _expect_dims(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        _expect_dims(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        each = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(each, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """The last dimensions under another shape of as many elements (else ValueError).

    >>> weft.distributions.ReshapeTransform((4,), (2, 2))(weft.zeros(3, 4)).shape
    torch.Size([3, 2, 2])
    """

    bijective = True

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    @staticmethod
    def _changed(shape: Sequence[int], old: Size, new: Size) -> Size:
        _expect_dims(shape, len(old))
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != tuple(old):
            raise ValueError(f"Shape mismatch: expected {old} but got {Size(shape[cut:])}")
        return Size((*shape[:cut], *new))

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self._changed(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self._changed(shape, self.out_shape, self.in_shape)
