"""From constraints to maps: `biject_to` and `transform_to`.

Both map all real numbers onto a constraint. `biject_to` is one to one, with the determinant of its
Jacobian, as Hamiltonian Monte Carlo needs it; `transform_to` may be of more numbers than needed,
which suits gradient descent.

>>> weft.distributions.transform_to(weft.distributions.constraints.positive)(weft.tensor(0.0))
tensor(1.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import Tensor
from weft.distributions import constraints, transforms
from weft.distributions.constraints import Constraint
from weft.distributions.transforms import Transform

__all__ = ["biject_to", "transform_to"]

_Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Which map leads to a constraint, by the constraint's class.

    >>> registry = ConstraintRegistry()
    >>> _ = registry.register(constraints.real, lambda constraint: transforms.identity_transform)
    >>> registry(constraints.real) is transforms.identity_transform
    True
    """

    def __init__(self) -> None:
        self._registry: dict[type, _Factory] = {}
        super().__init__()

    def register(self, constraint: Any, factory: _Factory | None = None) -> Any:
        """Keep a function from constraints of a class to maps; without one, a decorator.

        Args:
            constraint: a class of constraints, or one of its instances.

        Raises:
            TypeError: neither.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(
                "[register] expected a Constraint or a class of them, got "
                f"{constraint} (Expected constraint to be either a Constraint subclass or "
                f"instance, but got {constraint})"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The map to a constraint.

        Raises:
            NotImplementedError: none is known for its class.
        """
        if type(constraint) not in self._registry:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return self._registry[type(constraint)](constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _interval(c: Any) -> Transform:
    low, high = c.lower_bound, c.upper_bound
    if not isinstance(low, Tensor) and not isinstance(high, Tensor) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


def _half_line(bound: Any, sign: int) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(bound, sign)]
    )


def _register_parts(registry: ConstraintRegistry) -> None:
    """Constraints of constraints: the maps of their parts, by the same registry."""
    registry.register(constraints.independent, lambda c: transforms.IndependentTransform(
        registry(c.base_constraint), c.reinterpreted_batch_ndims))  # fmt: skip
    registry.register(constraints.cat, lambda c: transforms.CatTransform(
        [registry(part) for part in c.cseq], c.dim, c.lengths))  # fmt: skip
    registry.register(constraints.stack, lambda c: transforms.StackTransform(
        [registry(part) for part in c.cseq], c.dim))  # fmt: skip


_BOTH: list[tuple[Any, _Factory]] = [
    (constraints.real, lambda c: transforms.identity_transform),
    (constraints.greater_than, lambda c: _half_line(c.lower_bound, 1)),
    (constraints.greater_than_eq, lambda c: _half_line(c.lower_bound, 1)),
    (constraints.less_than, lambda c: _half_line(c.upper_bound, -1)),
    (constraints.interval, _interval),
    (constraints.half_open_interval, _interval),
    (constraints.corr_cholesky, lambda c: transforms.CorrCholeskyTransform()),
]
for _registry in (biject_to, transform_to):
    for _constraint, _factory in _BOTH:
        _registry.register(_constraint, _factory)
    _register_parts(_registry)
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
for _constraint, _factory in [
    (constraints.simplex, lambda c: transforms.SoftmaxTransform()),
    (constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform()),
    (constraints.positive_definite, lambda c: transforms.PositiveDefiniteTransform()),
    (constraints.positive_semidefinite, lambda c: transforms.PositiveDefiniteTransform()),
]:
    transform_to.register(_constraint, _factory)
