"""Rates that rise and fall: cycles, one cycle, and cosines with restarts."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from weft.optim.lr_scheduler.base import LRScheduler, for_each_group, set_rate
from weft.optim.optimizer import Optimizer


def _expect_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _uses_beta1(optimizer: Optimizer) -> bool:
    """Whether the momentum of the optimizer is its first beta; it must have one."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], use_beta1: bool, momentum: float) -> None:
    if use_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def _start_momenta(
    optimizer: Optimizer, use_beta1: bool, base: list[float], largest: list[float]
) -> None:
    for group, low, high in zip(optimizer.param_groups, base, largest):
        _set_momentum(group, use_beta1, high)
        group["max_momentum"] = high
        group["base_momentum"] = low


class CyclicLR(LRScheduler):
    """Goes up and down between two rates (Smith, "Cyclical Learning Rates", 2015).

    The momentum, if it cycles, goes down and up between its two values.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        base_lr, max_lr: the two rates; one, or one for each group.
        step_size_up, step_size_down: steps from one to the other and back.
        mode: `"triangular"`: cycles of one height; `"triangular2"`: each half as high as the one
            before; `"exp_range"`: scaled by `gamma` to the power of the step.
        gamma: of `"exp_range"`.
        scale_fn, scale_mode: a scale of one's own, of the cycle (`"cycle"`) or of the step
            (`"iterations"`), in place of the mode's.
        cycle_momentum, base_momentum, max_momentum: the same for `momentum` or `betas[0]`.

    Raises:
        TypeError: `optimizer` is not an optimizer.
        ValueError: an unknown mode; no momentum to cycle; another number of values than of groups.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0, momentum=0.9)
    >>> schedule = weft.optim.lr_scheduler.CyclicLR(optimizer, 0.5, 1.0, step_size_up=1)
    >>> for _ in range(3):
    ...     print(schedule.get_last_lr())
    ...     optimizer.step()
    ...     schedule.step()
    [0.5]
    [1.0]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _expect_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = for_each_group("base_lr", optimizer, base_lr)
        self.max_lrs = for_each_group("max_lr", optimizer, max_lr)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs):
                set_rate(group, rate)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums = for_each_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = for_each_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                _start_momenta(optimizer, self.use_beta1, self.base_momentums, self.max_momentums)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, or at a step, as a share of the first one's."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio
        if x > self.step_ratio:
            share = (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums)
            for group, low, high in momenta:
                _set_momentum(group, self.use_beta1, high - (high - low) * share * scale)
        return [
            low + (high - low) * share * scale for low, high in zip(self.base_lrs, self.max_lrs)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and a plain function as scale."""
        state = super().state_dict()
        scale = state.pop("_scale_fn_custom")
        plain = scale is None or isinstance(scale, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else scale.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        if (attributes := state.pop("_scale_fn_custom")) is not None:
            self._scale_fn_custom.__dict__.update(attributes)
        self.__dict__.update(state)


class OneCycleLR(LRScheduler):
    """One rise and one long fall (Smith and Topin, "Super-Convergence", 2017).

    From `max_lr / div_factor` up to `max_lr`, then down to a `final_div_factor`-th of where it
    began; with `three_phase`, first down to where it began. The momentum goes the other way. To be
    called after each batch.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        max_lr: the highest rate; one, or one for each group.
        total_steps: or `epochs` times `steps_per_epoch`.
        pct_start: the share of the rise.
        anneal_strategy: `"cos"` or `"linear"`.
        cycle_momentum, base_momentum, max_momentum: the same for `momentum` or `betas[0]`.
        div_factor, final_div_factor, three_phase: see above.

    Raises:
        TypeError: `optimizer` is not an optimizer.
        ValueError: a setting out of its range; more steps than were announced.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0, momentum=0.9)
    >>> schedule = weft.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> f"{schedule.get_last_lr()[0]:.2f}"
    '0.04'
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _expect_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        rise = float(pct_start * self.total_steps) - 1
        last = self.total_steps - 1
        phases = [(rise, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            end = float(2 * pct_start * self.total_steps) - 2
            phases.append((end, "max_lr", "initial_lr", "base_momentum", "max_momentum"))
            phases.append((last, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
        else:
            phases.append((last, "max_lr", "min_lr", "base_momentum", "max_momentum"))
        keys = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases: list[dict[str, Any]] = [dict(zip(keys, p)) for p in phases]
        self._anneal_func_type = anneal_strategy
        max_lrs = for_each_group("max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer)
            low = for_each_group("base_momentum", optimizer, base_momentum)
            high = for_each_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, max_lrs):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
            if cycle_momentum:
                _start_momenta(optimizer, self.use_beta1, low, high)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        share = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self.use_beta1, self._between(*ends, share))
        return rates

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


def _total_steps(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is not None:
        _expect_count("total_steps", total)
        return total
    if epochs is None or per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    _expect_count("epochs", epochs)
    _expect_count("steps_per_epoch", per_epoch)
    return epochs * per_epoch


def _expect_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")


class CosineAnnealingWarmRestarts(LRScheduler):
    """Falls along half a cosine, starts anew, and so on.

    Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2016.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        T_0: epochs of the first fall.
        T_mult: how much longer each one is than the one before.
        eta_min: the lowest rate.

    Raises:
        ValueError: a setting out of its range.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> schedule = weft.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for _ in range(3):
    ...     print(schedule.get_last_lr())
    ...     optimizer.step()
    ...     schedule.step()
    [1.0]
    [0.5]
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        _expect_count("T_0", T_0)
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on to the next epoch, or to a given one, which may be a fraction.

        Raises:
            ValueError: a negative epoch.
        """
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._write(rates)

    def _go_to(self, epoch: float) -> None:
        if epoch < self.T_0:
            self.T_i = self.T_0
            self.T_cur = epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            passed = self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_cur = epoch - passed
            self.T_i = self.T_0 * self.T_mult**restarts
