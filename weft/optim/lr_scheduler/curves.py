"""Rates that follow a fixed curve from epoch to epoch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from weft.optim.lr_scheduler.base import LRScheduler
from weft.optim.optimizer import Optimizer


class StepLR(LRScheduler):
    """Multiplies the rates by `gamma` every `step_size` epochs.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        step_size: epochs between two changes.
        gamma: the factor.

    >>> optimizer = weft.optim.SGD([weft.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = weft.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies the rates by `gamma` every epoch.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        gamma: the factor.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> schedule = weft.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> for _ in range(3):
    ...     print(schedule.get_last_lr())
    ...     optimizer.step()
    ...     schedule.step()
    [1.0]
    [0.5]
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        if self._is_initial:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Goes from the starting rate to `eta_min` along half a cosine, and back, and so on.

    Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2016, without
    the restarts. Each rate follows from the one before, so a rate that someone else has changed
    goes on from there.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        T_max: epochs of one half.
        eta_min: the lowest rate.

    >>> optimizer = weft.optim.SGD([weft.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = weft.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        if self._is_initial:
            return self._rates()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        before = self.last_epoch - 1
        if (before - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - self.eta_min) * rise
                for rate, base in zip(self._rates(), self.base_lrs)
            ]
        ratio = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / (
            1 + math.cos(math.pi * before / self.T_max)
        )
        return [ratio * (rate - self.eta_min) + self.eta_min for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies the rates by `gamma` at each of the milestones.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        milestones: epochs; one that is named twice counts twice.
        gamma: the factor.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> schedule = weft.optim.lr_scheduler.MultiStepLR(optimizer, [2], gamma=0.5)
    >>> for _ in range(3):
    ...     print(schedule.get_last_lr())
    ...     optimizer.step()
    ...     schedule.step()
    [1.0]
    [1.0]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        times = self.milestones[self.last_epoch]
        return [rate * self.gamma**times for rate in self._rates()] if times else self._rates()

    def _get_closed_form_lr(self) -> list[Any]:
        passed = sum(n for epoch, n in self.milestones.items() if epoch <= self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiplies the rates by `factor` until epoch `total_iters`.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        factor: between 0 and 1.
        total_iters: the epoch of the full rate.

    Raises:
        ValueError: a factor out of its range.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> schedule = weft.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> for _ in range(3):
    ...     print(schedule.get_last_lr())
    ...     optimizer.step()
    ...     schedule.step()
    [0.5]
    [0.5]
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        return [rate * (1.0 / self.factor) for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        full = self.last_epoch >= self.total_iters
        return [base * (self.factor + full * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Multiplies the rates by a factor that goes straight from one value to another.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        start_factor: the factor of epoch 0.
        end_factor: the factor from epoch `total_iters` on.
        total_iters: epochs of the way.

    Raises:
        ValueError: a factor out of its range.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> schedule = weft.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> for _ in range(3):
    ...     print(schedule.get_last_lr())
    ...     optimizer.step()
    ...     schedule.step()
    [0.5]
    [0.75]
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._rates()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        way = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * way
        return [rate * (1.0 + way / before) for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        way, done = self.end_factor - self.start_factor, min(self.total_iters, self.last_epoch)
        factor = self.start_factor + way * done / self.total_iters
        return [base * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Multiplies the starting rates by `(1 - epoch / total_iters) ** power`, down to 0.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        total_iters: the epoch at which the rates are 0.
        power: 1 is a straight line.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> schedule = weft.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2)
    >>> for _ in range(3):
    ...     print(schedule.get_last_lr())
    ...     optimizer.step()
    ...     schedule.step()
    [1.0]
    [0.5]
    [0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        now, before = (
            1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1)
        )
        factor = (now / before) ** self.power
        return [rate * factor for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]
