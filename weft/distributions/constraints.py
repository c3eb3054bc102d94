"""Where parameters and samples may lie. `check(x)` says it element by element, or event by event.

>>> weft.distributions.constraints.positive.check(weft.tensor([1., -1.]))
tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor

__all__ = [
    "Constraint", "boolean", "greater_than", "greater_than_eq", "half_open_interval",
    "independent", "integer_interval", "interval", "less_than", "lower_cholesky",
    "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "real", "real_vector", "simplex", "unit_interval",
]  # fmt: skip


class Constraint:
    """A test of values; `event_dim` of the last dimensions are tested as one."""

    def __init__(
        self, name: str, test: Callable[[Tensor], Tensor], *, discrete: bool = False,
        event_dim: int = 0,
    ) -> None:  # fmt: skip
        self._name, self._test = name, test
        self.is_discrete, self.event_dim = discrete, event_dim

    def check(self, value: Tensor) -> Tensor:
        """Where `value` satisfies it."""
        return self._test(value)

    def __repr__(self) -> str:
        return self._name


def _named(name: str, *bounds: Any) -> str:
    words = ("lower_bound", "upper_bound") if len(bounds) == 2 else ("lower_bound",)
    return f"{name}({', '.join(f'{w}={b}' for w, b in zip(words, bounds))})"


def greater_than(lower_bound: Any) -> Constraint:
    """Above a bound."""
    return Constraint(_named("GreaterThan", lower_bound), lambda x: lower_bound < x)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """At least a bound."""
    return Constraint(_named("GreaterThanEq", lower_bound), lambda x: lower_bound <= x)


def less_than(upper_bound: Any) -> Constraint:
    """Below a bound."""
    return Constraint(f"LessThan(upper_bound={upper_bound})", lambda x: x < upper_bound)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """From one bound to another."""
    return Constraint(
        _named("Interval", lower_bound, upper_bound),
        lambda x: (lower_bound <= x) & (x <= upper_bound),
    )


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """From one bound to below another."""
    return Constraint(
        _named("HalfOpenInterval", lower_bound, upper_bound),
        lambda x: (lower_bound <= x) & (x < upper_bound),
    )


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Whole numbers from one bound to another."""
    return Constraint(
        _named("IntegerInterval", lower_bound, upper_bound),
        lambda x: (x % 1 == 0) & (lower_bound <= x) & (x <= upper_bound),
        discrete=True,
    )


def _integer_from(bound: int) -> Constraint:
    return Constraint(
        _named("IntegerGreaterThan", bound), lambda x: (x % 1 == 0) & (x >= bound), discrete=True
    )


def independent(base: Constraint, count: int) -> Constraint:
    """A constraint of events with `count` more dimensions."""

    def test(x: Tensor) -> Tensor:
        inner = base.check(x)
        return inner.reshape(*inner.shape[: inner.dim() - count], -1).all(-1)

    return Constraint(
        f"IndependentConstraint({base!r}, {count})", test, discrete=base.is_discrete,
        event_dim=base.event_dim + count,
    )  # fmt: skip


def _definite(x: Tensor) -> Tensor:
    symmetric = weft.isclose(x, x.mT, atol=1e-6).all(-2).all(-1)
    return symmetric & (weft.linalg.cholesky_ex(x).info == 0)


boolean = Constraint("Boolean()", lambda x: (x == 0) | (x == 1), discrete=True)
one_hot = Constraint(
    "OneHot()", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), discrete=True,
    event_dim=1,
)  # fmt: skip
real = Constraint("Real()", lambda x: x == x)
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
nonnegative_integer = _integer_from(0)
positive_integer = _integer_from(1)
unit_interval = interval(0.0, 1.0)
simplex = Constraint(
    "Simplex()", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), event_dim=1
)
lower_cholesky = Constraint(
    "LowerCholesky()",
    lambda x: (x.tril() == x).flatten(-2).all(-1) & (x.diagonal(0, -2, -1) > 0).all(-1),
    event_dim=2,
)
positive_definite = Constraint("PositiveDefinite()", _definite, event_dim=2)
