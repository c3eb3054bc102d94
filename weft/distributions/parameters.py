"""Probabilities or their logits as parameters: what the distributions over classes share."""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.distributions.distribution import Distribution
from weft.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

__all__: list[str] = []


def one_of(probs: Any, logits: Any) -> tuple[str, Any]:
    """The name and the value of the one that was given.

    Raises:
        ValueError: both or none.
    """
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("probs", probs) if logits is None else ("logits", logits)


class Odds(Distribution):
    """By `probs`, or by `logits`, the log odds; the other is computed when asked for."""

    _param: Tensor
    total_count: Tensor

    def _take(self, probs: Any, logits: Any, total_count: Any = None) -> None:
        name, value = one_of(probs, logits)
        if total_count is None:
            (self._param,) = broadcast_all(value)
        else:
            total, self._param = broadcast_all(total_count, value)
            self.total_count = total.type_as(self._param)
        setattr(self, name, self._param)

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """Of the probabilities."""
        return self._param.shape

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)


class OfClasses(Distribution):
    """By the parameters of a `Categorical`."""

    _categorical: Any

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """Of the probabilities."""
        return self._categorical.param_shape

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)
