"""Where parameters and samples may lie. `check(x)` says it element by element, or event by event.

>>> weft.distributions.constraints.positive.check(weft.tensor([1., -1.]))
tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
    "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector",
    "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """Base of the constraints: a test of values.

    `event_dim` of the last dimensions are tested as one; `is_discrete` says that values lie apart.

    >>> weft.distributions.constraints.positive.check(weft.tensor([-1.0, 1.0]))
    tensor([False,  True])
    """

    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Tensor) -> Tensor:
        """Where `value` satisfies it, a bool for each event."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}()"


def _expect(holds: bool, expected: str, got: object) -> None:
    if not holds:
        raise AssertionError(f"[constraints] expected {expected}, got {got}")


class _Dependent(Constraint):
    """A support that only an instance knows; of a class it has what was said of it.

    >>> weft.distributions.constraints.is_dependent(weft.distributions.constraints.dependent)
    True
    """

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    def _said(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """As was said."""
        return self._said("is_discrete")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """As was said."""
        return self._said("event_dim")

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> _Dependent:
        """The same with more that is known."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: object) -> bool:
    """Whether only an instance knows it.

    >>> is_dependent(weft.distributions.Uniform.support)
    True
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A decorator: on an instance a property, on its class a constraint that depends.

    >>> d = weft.distributions.Uniform(0.0, 2.0)
    >>> d.support.check(weft.tensor([1.0, 3.0]))
    tensor([ True, False])
    """

    def __init__(
        self, fn: Callable[[Any], Any] | None = None, *, is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:  # fmt: skip
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> _DependentProperty:  # type: ignore[override]
        """The property of a function, with what is known."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _OfBase(Constraint):
    """Discrete as its base is."""

    base_constraint: Constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Of the base."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """Of the base, and what this one adds."""
        return self.base_constraint.event_dim + getattr(self, "reinterpreted_batch_ndims", 0)

    def _all_of(self, checks: Tensor, dims: int, value: Tensor) -> Tensor:
        if dims < 0 or value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return checks.reshape(*checks.shape[:dims], -1).all(-1)


class _IndependentConstraint(_OfBase):
    """A constraint of events with `reinterpreted_batch_ndims` more dimensions.

    >>> c = weft.distributions.constraints
    >>> c.independent(c.positive, 1).check(weft.tensor([[1.0, 2.0], [1.0, -1.0]]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        count = reinterpreted_batch_ndims
        _expect(isinstance(base_constraint, Constraint), "a Constraint", base_constraint)
        _expect(isinstance(count, int), "an int as reinterpreted_batch_ndims", count)
        _expect(count >= 0, "reinterpreted_batch_ndims >= 0", count)
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, count

    def check(self, value: Tensor) -> Tensor:
        inner = self.base_constraint.check(value)
        return self._all_of(inner, inner.dim() - self.reinterpreted_batch_ndims, value)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_OfBase):
    """Of a mixture's values: what the components, in one more dimension, all support.

    >>> c = weft.distributions.constraints
    >>> c.MixtureSameFamilyConstraint(c.positive).check(weft.tensor([-1.0, 1.0]))
    tensor([False,  True])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        _expect(isinstance(base_constraint, Constraint), "a Constraint", base_constraint)
        self.base_constraint = base_constraint

    def check(self, value: Tensor) -> Tensor:
        checks = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return self._all_of(checks, value.dim() - self.event_dim, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Zeros with a one."""

    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Real(Constraint):
    """Anything but nan."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Bounded(Constraint):
    """With bounds, which it prints."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={bound}" for name, bound in vars(self).items())
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _Lower(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Upper(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _GreaterThan(_Lower):
    """Above a bound.

    >>> weft.distributions.constraints.greater_than(1).check(weft.tensor([1.0, 2.0]))
    tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_Lower):
    """At least a bound.

    >>> weft.distributions.constraints.greater_than_eq(1).check(weft.tensor([0.0, 1.0]))
    tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_Upper):
    """Below a bound.

    >>> weft.distributions.constraints.less_than(1).check(weft.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    """From one bound to another.

    >>> weft.distributions.constraints.interval(0, 1).check(weft.tensor([1.0, 1.5]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """From one bound to below another.

    >>> weft.distributions.constraints.half_open_interval(0, 1).check(weft.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Between):
    """Whole numbers from one bound to another.

    >>> weft.distributions.constraints.integer_interval(0, 2).check(weft.tensor([0.5, 2.0]))
    tensor([False,  True])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Upper):
    """Whole numbers up to a bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Lower):
    """Whole numbers from a bound on."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Simplex(Constraint):
    """Probabilities that sum to one."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Counts of at most `upper_bound` in all.

    >>> weft.distributions.constraints.multinomial(2).check(weft.tensor([[1.0, 1.0], [2.0, 1.0]]))
    tensor([ True, False])
    """

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Of them those with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Of them those with rows of length one, up to ten roundings for each number of a row."""

    def check(self, value: Tensor) -> Tensor:
        near = 10 * weft.finfo(value.dtype).eps * value.shape[-1]
        length = weft.linalg.norm(value.detach(), dim=-1)
        return super().check(value) & ((length - 1).abs() <= near).all(-1)


class _Square(Constraint):
    """Matrices with as many rows as columns."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        rows, columns = value.shape[-2:]
        return weft.full(value.shape[:-2], rows == columns, dtype=weft.bool, device=value.device)


class _Symmetric(_Square):
    """Of them those that equal their transposes."""

    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if not bool(square.all()):
            return square
        return weft.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Of them those without a negative eigenvalue."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return (weft.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Of them those with a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return weft.linalg.cholesky_ex(value).info == 0


class _Sequence(Constraint):
    """Of several constraints, each for its part of a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        for c in self.cseq:
            _expect(isinstance(c, Constraint), "Constraints", c)

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether one of them is."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The greatest of theirs."""
        return max(c.event_dim for c in self.cseq)

    def _expect_dim(self, value: Tensor) -> None:
        n = value.dim()
        _expect(-n <= self.dim < n, f"dim from {-n} to {n - 1}", self.dim)


class _Cat(_Sequence):
    """Values joined as `cat` does along `dim`, in parts of `lengths`.

    >>> c = weft.distributions.constraints
    >>> c.cat([c.positive, c.real], lengths=[1, 1]).check(weft.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        _expect(len(self.lengths) == len(self.cseq), f"{len(self.cseq)} lengths", self.lengths)

    def check(self, value: Tensor) -> Tensor:
        self._expect_dim(value)
        checks, start = [], 0
        for c, length in zip(self.cseq, self.lengths):
            checks.append(c.check(value.narrow(self.dim, start, length)))
            start += length
        return weft.cat(checks, self.dim)


class _Stack(_Sequence):
    """Values joined as `stack` does along `dim`.

    >>> c = weft.distributions.constraints
    >>> c.stack([c.positive, c.real]).check(weft.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """One more where the new dimension is among those of an event."""
        inner = max(c.event_dim for c in self.cseq)
        return inner + (self.dim + inner < 0)

    def check(self, value: Tensor) -> Tensor:
        self._expect_dim(value)
        return weft.stack([c.check(v) for v, c in zip(value.unbind(self.dim), self.cseq)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
