"""What a distribution is: shapes, samples, log-probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import weft
from weft import Size, Tensor
from weft.distributions.constraints import Constraint, is_dependent
from weft.distributions.utils import lazy_property

__all__ = ["Distribution"]


class Distribution:
    """Base of the distributions.

    A sample's shape is `sample_shape + batch_shape + event_shape`: the second of them comes from
    the parameters, the last is that of one value. `rsample` is differentiable by the parameters
    where `has_rsample`.

    Args:
        batch_shape, event_shape: see above.
        validate_args: check parameters and values; default: as `set_default_validate_args` said.

    A class of `weft.distributions` lists in `_expands` what its `expand` makes of an instance:
    tensors and distributions whose first dimensions are the batch's, and whatever else, as it is.
    `_keeps` names tensors that `expand` leaves alone. Another class writes its own `expand`.

    Raises:
        ValueError: a parameter outside of its constraint.

    >>> d = weft.distributions.Normal(weft.zeros(3, 1), weft.ones(2))
    >>> d.batch_shape, d.event_shape, d.sample((4,)).shape
    (torch.Size([3, 2]), torch.Size([]), torch.Size([4, 3, 2]))
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _expands: tuple[str, ...] = ()
    _keeps: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments unless told otherwise.

        >>> weft.distributions.Distribution.set_default_validate_args(True)
        """
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
        if self._validate_args:
            for name, constraint in self._constraints().items():
                self._validate_parameter(name, constraint)
        super().__init__()

    def _constraints(self) -> dict[str, Constraint]:
        try:
            return self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = "
                "{}` or initialize the distribution with `validate_args=False` to turn off "
                "validation.",
                stacklevel=4,
            )
            return {}

    def _validate_parameter(self, name: str, constraint: Constraint) -> None:
        """Raise a ValueError for one that is wrong, unless it is only computed when asked for."""
        lazy = name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property)
        if lazy or is_dependent(constraint):
            return
        value = getattr(self, name)
        if not bool(constraint.check(value).all()):
            raise ValueError(
                f"Expected parameter {name} ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                f"{constraint!r}, but found invalid values:\n{value}"
            )

    @property
    def batch_shape(self) -> Size:
        """Of the parameters.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.batch_shape
        torch.Size([3])
        """
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Of one value.

        >>> weft.distributions.Dirichlet(weft.ones(2)).event_shape
        torch.Size([2])
        """
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """Where each parameter lies.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> sorted(d.arg_constraints)
        ['loc', 'scale']
        """
        raise NotImplementedError

    @property
    def support(self) -> Constraint:
        """Where values lie.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.support
        Real()
        """
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean.

        Of the shape `batch_shape + event_shape`.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.mean
        tensor([0., 0., 0.])
        """
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely value.

        Of the shape `batch_shape + event_shape`.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.mode
        tensor([0., 0., 0.])
        """
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance.

        Of the shape `batch_shape + event_shape`.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.variance
        tensor([4., 4., 4.])
        """
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The root of the variance.

        Of the shape `batch_shape + event_shape`.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.stddev
        tensor([2., 2., 2.])
        """
        return self.variance.sqrt()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with its parameters expanded to `batch_shape`, without a copy.

        Args:
            _instance: what a derived class has made to be filled, where it has an `expand`.

        Raises:
            NotImplementedError: a derived class with an `__init__` of its own and no `expand`.

        >>> weft.distributions.Normal(0.0, 1.0).expand((2,)).mean
        tensor([0., 0.])
        """
        own: Any = next(c for c in type(self).__mro__ if "_expands" in c.__dict__)
        if own is Distribution:
            raise NotImplementedError(f"[{type(self).__name__}] has no expand")
        new = self._get_checked_instance(own, _instance)
        shape = Size(batch_shape)
        for name in own._expands:
            if name in self.__dict__:
                setattr(new, name, self._expanded(self.__dict__[name], shape))
        for name in own._keeps:
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name])
        return self._finished(new, shape)

    def _expanded(self, value: Any, batch_shape: Size) -> Any:
        before = len(self._batch_shape)
        if isinstance(value, Tensor):
            return value.expand((*batch_shape, *value.shape[before:]))
        if isinstance(value, Distribution):
            return value.expand((*batch_shape, *value.batch_shape[before:]))
        return value

    def _finished(self, new: Any, batch_shape: Size) -> Any:
        """An instance that `expand` has filled, with shapes and as much validation as this one."""
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """What `expand` fills: `_instance`, or an empty one where `cls` made this one."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return type(self).__new__(type(self))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Values of shape `sample_shape + batch_shape + event_shape`, outside of the graph.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.sample((4,)).shape
        torch.Size([4, 3])
        """
        with weft.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Values that are differentiable by the parameters.

        Of the shape `sample_shape + batch_shape + event_shape`.

        >>> scale = weft.ones(2, requires_grad=True)
        >>> weft.distributions.Normal(0.0, scale).rsample((4,)).requires_grad
        True
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`, its older form, with a FutureWarning.

        Of the shape `(n,) + batch_shape + event_shape`.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.sample_n(4).shape
        torch.Size([4, 3])
        """
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, 2
        )
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability at `value`: one number for each event.

        Of the value's shape without the event's, broadcast with the batch shape.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.log_prob(weft.zeros(3))
        tensor([-1.6121, -1.6121, -1.6121])
        """
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`.

        Of the value's shape, broadcast with the batch shape.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.cdf(weft.zeros(3))
        tensor([0.5000, 0.5000, 0.5000])
        """
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`.

        Of the value's shape, broadcast with the batch shape.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.icdf(weft.full((3,), 0.5))
        tensor([0., 0., 0.])
        """
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, in a new first dimension.

        >>> weft.distributions.Bernoulli(weft.tensor(0.5)).enumerate_support()
        tensor([0., 1.])
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, one number for each distribution of the batch.

        Of the shape `batch_shape`.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.entropy()
        tensor([2.1121, 2.1121, 2.1121])
        """
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy.

        Of the shape `batch_shape`.

        >>> d = weft.distributions.Normal(weft.zeros(3), 2.0)
        >>> d.perplexity().shape
        torch.Size([3])
        """
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
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
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
