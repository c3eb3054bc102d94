"""Several maps, each for its part of a dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.transform_base import Transform
from weft.distributions.utils import _sum_rightmost

__all__ = ["CatTransform", "StackTransform"]


class _Joined(Transform):
    """Maps of the parts of `dim`: how they are taken apart and joined is the derived class's."""

    transforms: list[Transform]
    _join: Callable[[Any, int], Tensor]

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        for t in tseq:
            _expect(isinstance(t, Transform), "Transforms", t)
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def _size(self) -> int:
        return len(self.transforms)

    def _checked(self, x: Tensor) -> Tensor:
        n = x.dim()
        _expect(-n <= self.dim < n, f"dim from {-n} to {n - 1}", self.dim)
        size = x.shape[self.dim]
        _expect(size == self._size(), f"size {self._size()} at {self.dim}", size)
        return x

    def _slice(self, z: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        parts = self._slice(self._checked(x))
        return type(self)._join([t(part) for t, part in zip(self.transforms, parts)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = self._slice(self._checked(y))
        return type(self)._join([t.inv(part) for t, part in zip(self.transforms, parts)], self.dim)

    def _jacobians(self, x: Tensor, y: Tensor) -> list[Tensor]:
        pairs = zip(self.transforms, self._slice(self._checked(x)), self._slice(self._checked(y)))
        return [t.log_abs_det_jacobian(a, b) for t, a, b in pairs]

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all of them are."""
        return all(t.bijective for t in self.transforms)


def _expect(holds: bool, expected: str, got: object) -> None:
    if not holds:
        raise AssertionError(f"[Transform] expected {expected}, got {got}")


class CatTransform(_Joined):
    """Maps of the parts of `dim` that `lengths` says (1 each), joined as `cat` does.

    >>> D = weft.distributions
    >>> t = D.CatTransform([D.ExpTransform(), D.identity_transform], lengths=[1, 2])
    >>> t(weft.zeros(3))
    tensor([1., 0., 0.])
    """

    _join = staticmethod(weft.cat)

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        count = len(self.transforms)
        _expect(len(self.lengths) == count, f"{count} lengths", self.lengths)

    @property
    def length(self) -> int:
        """Of all parts."""
        return sum(self.lengths)

    def _size(self) -> int:
        return self.length

    @property
    def event_dim(self) -> int:
        """The greatest of theirs."""
        return max(t.event_dim for t in self.transforms)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _slice(self, z: Tensor) -> Sequence[Tensor]:
        return z.split(self.lengths, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._jacobians(x, y))
        each = [_sum_rightmost(j, self.event_dim - t.event_dim) for t, j in pairs]
        dim = self.dim - (x.dim() if self.dim >= 0 else 0) + self.event_dim
        return weft.cat(each, dim) if dim < 0 else sum(each)  # type: ignore[return-value]

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """A map for each index of `dim`, joined as `stack` does.

    >>> D = weft.distributions
    >>> D.StackTransform([D.ExpTransform(), D.identity_transform])(weft.zeros(2, 1))
    tensor([[1.],
            [0.]])
    """

    _join = staticmethod(weft.stack)

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, z: Tensor) -> Sequence[Tensor]:
        return z.unbind(self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return weft.stack(self._jacobians(x, y), self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
