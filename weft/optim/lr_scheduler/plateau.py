"""Rates that fall when a metric no longer improves."""

from __future__ import annotations

from typing import Any

from weft.base.warn import warn
from weft.optim.lr_scheduler.base import LRScheduler, copied, set_rate
from weft.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rates by `factor` after `patience` epochs without a better metric.

    Args:
        optimizer: see `LRScheduler`.
        mode: `"min"` or `"max"`: what of the metric is better.
        factor: below 1.
        patience: epochs that are waited for.
        threshold, threshold_mode: what counts as better: by a share of the best value, `"rel"`, or
            by an amount, `"abs"`.
        cooldown: epochs after a change that are not counted.
        min_lr: below which no rate falls; one, or one for each group.
        eps: a change that is not greater is left out.

    Raises:
        ValueError: an unknown mode, a factor of 1 or more, another number of rates than of groups.
        TypeError: `optimizer` is not an optimizer.

    >>> import weft
    >>> opt = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> schedule = weft.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        groups = len(optimizer.param_groups)
        several = list(min_lr) if isinstance(min_lr, list | tuple) else None
        if several is not None and len(several) != groups:
            raise ValueError(f"expected {groups} min_lrs, got {len(several)}")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.factor = factor
        self.optimizer = optimizer
        self.default_min_lr = min_lr if several is None else None
        self.min_lrs: list[Any] = [min_lr] * groups if several is None else several
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = [copied(rate) for rate in self._rates()]
        self.mode_worse = float("inf") if mode == "min" else -float("inf")
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take note of this epoch's metric, a number or a tensor of one element."""
        current = float(metrics)
        if epoch is not None:
            warn(
                "The epoch parameter in `scheduler.step()` was not necessary and is being "
                "deprecated where possible. Please use `scheduler.step()` to step the scheduler.",
            )
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = [copied(rate) for rate in self._rates()]

    @property
    def in_cooldown(self) -> bool:
        """Whether a change was so short ago that epochs are not counted."""
        return self.cooldown_counter > 0

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from "
                    f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due "
                    "to a new param group being added to the optimizer. Please modify the "
                    "`min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            before = float(group["lr"])
            after = max(before * self.factor, least)
            if before - after > self.eps:
                set_rate(group, after)

    def _is_better(self, value: float, best: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            bound = best * (1.0 - self.threshold if sign == 1 else self.threshold + 1.0)
        else:
            bound = best - sign * self.threshold
        return value < bound if sign == 1 else value > bound
