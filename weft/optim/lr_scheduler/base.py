"""The base of learning rate schedules: it counts the epochs and writes the rates."""

from __future__ import annotations

import types
from typing import Any

from weft import Tensor
from weft.base.warn import warn
from weft.optim.optimizer import Optimizer

#: What a step with an epoch warns of; schedules outside of PyTorch use it.
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler."
)


class _enable_get_lr_call:
    """A scope in which `get_lr` warns of nothing."""

    def __init__(self, o: LRScheduler) -> None:
        self.o = o

    def __enter__(self) -> _enable_get_lr_call:
        self.o._get_lr_called_within_step = True
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.o._get_lr_called_within_step = False


class LRScheduler:
    """The base class: it keeps count of the epochs and writes the rates into the groups.

    A subclass defines `get_lr`, which returns the rates of this epoch from those of the last one,
    and calls `super().__init__` at its end.

    Args:
        optimizer: whose `param_groups` get new values of `"lr"`.
        last_epoch: the epoch to go on from; -1 starts.

    Raises:
        TypeError: `optimizer` is not an optimizer.
        KeyError: `last_epoch` is not -1 and the groups have no `"initial_lr"`.

    >>> class Halved(weft.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate / 2**self.last_epoch for rate in self.base_lrs]
    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> schedule = Halved(optimizer)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step = False  # read by subclasses that do not call `__init__`

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0. Hint: load the optimizer's state first."
                )
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._is_initial = False
        self._get_lr_called_within_step = False
        self._last_lr: list[Any] = []
        optimizer._note_first_step()
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[Any]:
        """Return the rate of each group for the epoch `last_epoch`; to be overridden.

        >>> class Halved(weft.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [rate / 2**self.last_epoch for rate in self.base_lrs]
        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> Halved(optimizer).get_last_lr()
        [0.5]
        """
        raise NotImplementedError

    def get_last_lr(self) -> list[Any]:
        """Return the rate of each group that the last `step` has set.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> schedule = weft.optim.lr_scheduler.StepLR(optimizer, 1)
        >>> schedule.get_last_lr()
        [0.5]
        """
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to a given one, which PyTorch deprecates.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> schedule = weft.optim.lr_scheduler.StepLR(optimizer, 1)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.05]
        """
        self._warn_about_order()
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with _enable_get_lr_call(self):
            closed_form = getattr(self, "_get_closed_form_lr", None)
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = closed_form() if closed_form else self.get_lr()
        self._write(rates)

    def _write(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            set_rate(group, rate)
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> schedule = weft.optim.lr_scheduler.StepLR(optimizer, 1)
        >>> schedule.state_dict()["last_epoch"]
        0
        """
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned.

        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> schedule = weft.optim.lr_scheduler.StepLR(optimizer, 1)
        >>> schedule.load_state_dict({**schedule.state_dict(), "last_epoch": 3})
        >>> schedule.last_epoch
        3
        """
        self.__dict__.update(state_dict)

    def _rates(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _warn_about_order(self) -> None:
        if self._step_count == 1 and not self.optimizer._opt_called:
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should "
                "call them in the opposite order, or the first value of the learning rate "
                "schedule is skipped.",
            )

    def _warn_unless_in_step(self) -> None:
        if not self._get_lr_called_within_step:
            warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
            )


#: PyTorch's older name, which subclasses still use.
_LRScheduler = LRScheduler


def copied(rate: Any) -> Any:
    """A rate that does not change with the group's, where that is a tensor."""
    return rate.clone() if isinstance(rate, Tensor) else rate


def set_rate(group: dict[str, Any], rate: Any) -> None:
    """Write a rate into a group; a tensor keeps its identity."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(float(rate))
    else:
        group["lr"] = copied(rate)


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per group, from one for all or from a list of that many."""
    groups = len(optimizer.param_groups)
    if isinstance(value, list | tuple):
        if len(value) != groups:
            raise ValueError(
                f"{name} must have the same length as optimizer.param_groups. {name} has "
                f"{len(value)} values, param_groups has {groups}."
            )
        return list(value)
    return [value] * groups


def saved_functions(functions: list[Any]) -> list[Any]:
    """The attributes of functions that are objects, None for plain ones."""
    return [None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in functions]
