"""Rates that a function of the epoch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.optim.lr_scheduler.base import LRScheduler, saved_functions
from weft.optim.optimizer import Optimizer


class LambdaLR(LRScheduler):
    """Multiplies the starting rates by a function of the epoch.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        lr_lambda: a function of the epoch, or one for each group.

    Raises:
        ValueError: the number of functions is not that of the groups.

    >>> optimizer = weft.optim.SGD([weft.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = weft.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups) if isinstance(optimizer, Optimizer) else 1
        if isinstance(lr_lambda, list | tuple):
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and plain functions.

        Of a function that is an object, its attributes are kept.
        """
        state = super().state_dict()
        del state["lr_lambdas"]
        state["lr_lambdas"] = saved_functions(self.lr_lambdas)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        for f, attributes in zip(self.lr_lambdas, state.pop("lr_lambdas")):
            if attributes is not None:
                f.__dict__.update(attributes)
        self.__dict__.update(state)


class MultiplicativeLR(LambdaLR):
    """Multiplies the rates of each epoch by a function of it.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        lr_lambda: a function of the epoch, or one for each group.

    Raises:
        ValueError: the number of functions is not that of the groups.
        TypeError: one of them cannot be called.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> schedule = weft.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> for _ in range(2):
    ...     print(schedule.get_last_lr())
    ...     optimizer.step()
    ...     schedule.step()
    [1.0]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        for f in lr_lambda if isinstance(lr_lambda, list | tuple) else [lr_lambda]:
            if not callable(f):
                raise TypeError(f"lr_lambda should be a function, but got {type(f).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        if self._is_initial:
            return self._rates()
        return [rate * f(self.last_epoch) for f, rate in zip(self.lr_lambdas, self._rates())]
