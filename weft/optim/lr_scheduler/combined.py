"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from weft.optim.lr_scheduler.base import LRScheduler, copied, set_rate
from weft.optim.lr_scheduler.plateau import ReduceLROnPlateau
from weft.optim.optimizer import Optimizer


class _Combined(LRScheduler):
    """What both have in common: parts, with a state each."""

    _schedulers: Sequence[LRScheduler]

    def _expect_parts(
        self, optimizer: Optimizer | None, parts: Sequence[LRScheduler], purpose: str
    ) -> Optimizer:
        name = type(self).__name__
        if len(parts) < 1:
            raise ValueError(
                f"{name} expects at least one scheduler{purpose}, but got no scheduler."
            )
        optimizer = optimizer or parts[0].optimizer
        for i, part in enumerate(parts):
            if not hasattr(part, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(part, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{i} in the given schedulers sequence."
                )
            if optimizer is not part.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(part).__name__} at index {i} has {part.optimizer}, which is "
                    f"different from {type(optimizer).__name__}."
                )
        return optimizer

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer, with a state for each part."""
        state = super().state_dict()
        del state["_schedulers"]
        state["_schedulers"] = [part.state_dict() for part in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        for part, saved in zip(self._schedulers, state.pop("_schedulers")):
            part.load_state_dict(saved)
        self.__dict__.update(state)


class SequentialLR(_Combined):
    """Schedules one after the other; each starts over at its milestone.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        schedulers: the schedules, all of this optimizer.
        milestones: the epochs at which the next one starts.

    Raises:
        ValueError: no schedules, another number of milestones, other optimizers, one that wants
            a metric.

    >>> import weft
    >>> from weft.optim import lr_scheduler as lr
    >>> opt = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> parts = [lr.ConstantLR(opt, factor=0.5), lr.ExponentialLR(opt, gamma=0.5)]
    >>> schedule = lr.SequentialLR(opt, parts, milestones=[2])
    >>> for _ in range(4):
    ...     print(schedule.get_last_lr()[0])
    ...     opt.step()
    ...     schedule.step()
    0.5
    0.5
    1.0
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        self._expect_parts(optimizer, schedulers, "")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each part has made its first step when it was made: that is taken back, so that only the
        # first one starts now.
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take a step's epoch back from all parts, and from theirs."""
        whole: Any = self if sched is None else sched
        if hasattr(whole, "_schedulers"):
            for part in whole._schedulers:
                self.recursive_undo(part)
        elif hasattr(whole, "last_epoch"):
            whole.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        part = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            part._update_lr(0)
        else:
            part.step()
        self._last_lr = part.get_last_lr()


class ChainedScheduler(_Combined):
    """Schedules that act all at once, each on what the one before has made of the rates.

    Args:
        schedulers: the schedules, all of one optimizer, such that go from rate to rate.
        optimizer: theirs.

    Raises:
        ValueError: see `SequentialLR`.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> S = weft.optim.lr_scheduler
    >>> schedule = S.ChainedScheduler(
    ...     [S.StepLR(optimizer, 1), S.ConstantLR(optimizer, factor=0.5, total_iters=1)]
    ... )
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     schedule.step()
    ...     print(f"{optimizer.param_groups[0]['lr']:.3f}")
    0.100
    0.010
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        optimizer = self._expect_parts(optimizer, schedulers, " to be chained")
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = [copied(rate) for rate in self._rates()]

    def step(self) -> None:  # type: ignore[override]
        for part in self._schedulers:
            part.step()
        self._last_lr = [copied(rate) for rate in self._rates()]
