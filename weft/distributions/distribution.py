"""What a distribution is: shapes, samples, log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Size, Tensor
from weft.distributions.constraints import Constraint

__all__ = ["Distribution"]


class Distribution:
    """Base of the distributions.

    A sample's shape is `sample_shape + batch_shape + event_shape`: the second of them comes from
    the parameters, the last is that of one value. `rsample` is differentiable by the parameters
    where `has_rsample`.

    Args:
        batch_shape, event_shape: see above.
        validate_args: check parameters and values; default: as `set_default_validate_args` said.

    Raises:
        ValueError: a parameter outside of its constraint.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: dict[str, Constraint] = {}
    _validate_args = True

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments unless told otherwise."""
        if value not in (True, False):
            raise ValueError(f"[Distribution] expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        for name, constraint in self.arg_constraints.items():
            if name not in self.__dict__:
                continue  # the other of two forms was given
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    @property
    def batch_shape(self) -> Size:
        """Of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Of one value."""
        return self._event_shape

    @property
    def support(self) -> Constraint:
        """Where values lie."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with its parameters expanded to `batch_shape`."""
        batch_shape = Size(batch_shape)
        new = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor):
                tail = value.shape[len(self.batch_shape) :]
                value = value.expand(*batch_shape, *tail)
            setattr(new, name, value)
        new._batch_shape = batch_shape
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Values of shape `sample_shape + batch_shape + event_shape`, outside of the graph."""
        with weft.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Values that are differentiable by the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`, its older form."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability at `value`: one number for each event."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, in a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, one number for each distribution of the batch."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return weft.exp(self.entropy())

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raise a ValueError for what is no value of this distribution."""
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = value.dim() - len(self._event_shape)
        if value.shape[events:] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape} vs {self._event_shape}."
            )
        for i, j in zip(reversed(value.shape), reversed(self._batch_shape + self._event_shape)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.shape} vs {self._batch_shape + self._event_shape}."
                )
        try:
            support = self.support
        except NotImplementedError:
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                "Expected value argument "
                f"({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                p = self.__dict__[name]
                shown.append(f"{name}: {p if p.numel() == 1 else p.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"
