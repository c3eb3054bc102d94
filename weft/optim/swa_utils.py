"""Averages of a model's weights over its training (Izmailov et al., 2018), and their schedule.

>>> import weft
>>> net = weft.nn.Linear(2, 1)
>>> average = weft.optim.swa_utils.AveragedModel(net)
>>> average.update_parameters(net)
>>> average.n_averaged.item()
1
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import weft
from weft import Tensor
from weft.nn import Module
from weft.optim.lr_scheduler import LRScheduler
from weft.optim.lr_scheduler.base import for_each_group
from weft.optim.optimizer import Optimizer

__all__ = [
    "AveragedModel",
    "SWALR",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The function of an exponential average, for `AveragedModel`.

    Raises:
        ValueError: `decay` is not in [0, 1].

    >>> average = weft.optim.swa_utils.get_ema_avg_fn(0.5)
    >>> average(weft.tensor([0.0]), weft.tensor([1.0]), 1)
    tensor([0.5000])
    """
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )

    def average(mean: Tensor, current: Tensor, count: Any) -> Tensor:
        with weft.no_grad():
            return decay * mean + (1 - decay) * current

    return average


def get_swa_avg_fn() -> Average:
    """The function of an equal average of all models so far, for `AveragedModel`.

    >>> average = weft.optim.swa_utils.get_swa_avg_fn()
    >>> average(weft.tensor([0.0]), weft.tensor([1.0]), 1)
    tensor([0.5000])
    """

    def average(mean: Tensor, current: Tensor, count: Any) -> Tensor:
        with weft.no_grad():
            return mean + (current - mean) / (count + 1)

    return average


def _for_lists(average: Average) -> MultiAverage:
    def update(means: Sequence[Tensor], currents: Sequence[Tensor], count: Any) -> None:
        with weft.no_grad():
            for mean, current in zip(means, currents):
                mean.copy_(average(mean, current, count))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """As `get_ema_avg_fn`, for lists of tensors, in place.

    >>> average, averages = weft.optim.swa_utils.get_ema_multi_avg_fn(0.5), [weft.tensor([0.0])]
    >>> average(averages, [weft.tensor([1.0])], 1)
    >>> averages
    [tensor([0.5000])]
    """
    return _for_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> MultiAverage:
    """As `get_swa_avg_fn`, for lists of tensors, in place.

    >>> average, averages = weft.optim.swa_utils.get_swa_multi_avg_fn(), [weft.tensor([0.0])]
    >>> average(averages, [weft.tensor([1.0])], 1)
    >>> averages
    [tensor([0.5000])]
    """
    return _for_lists(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's.

    Args:
        model: the model.
        device: where the copy lives.
        avg_fn: the next average, from the last one, the model's parameter and how many there were;
            by default an equal average.
        multi_avg_fn: the same over lists, in place.
        use_buffers: average the buffers too; otherwise they are copied.

    Raises:
        AssertionError: both functions were given.

    >>> model = weft.nn.Linear(1, 1)
    >>> averaged = weft.optim.swa_utils.AveragedModel(model)
    >>> averaged.update_parameters(model)
    >>> weft.equal(averaged.module.weight, model.weight)
    True
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", weft.tensor(0, dtype=weft.int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the averages; the first ones are copied."""
        own, others = self.module, model
        if self.use_buffers:
            means = [t.detach() for t in chain(own.parameters(), own.buffers())]
            currents = [t.detach() for t in chain(others.parameters(), others.buffers())]
        else:
            means = [t.detach() for t in own.parameters()]
            currents = [t.detach() for t in others.parameters()]
        count = self.n_averaged.item()
        if count == 0:
            for mean, current in zip(means, currents):
                mean.copy_(current)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(means, currents, count)
        else:
            _for_lists(self.avg_fn or get_swa_avg_fn())(means, currents, count)
        if not self.use_buffers:
            for mean, current in zip(own.buffers(), others.buffers()):
                mean.detach().copy_(current.detach())
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of batch normalisation anew, from all of the data.

    Args:
        loader: batches, or tuples whose first entry is one.
        model: its mode of training is as before afterwards.
        device: where batches are moved.

    >>> model = weft.nn.BatchNorm1d(1)
    >>> weft.optim.swa_utils.update_bn([weft.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    layers = [m for m in model.modules() if hasattr(m, "reset_running_stats")]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.train()
    with weft.no_grad():
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # an average over all batches
        for batch in loader:
            batch = batch[0] if isinstance(batch, list | tuple) else batch
            model(batch if device is None else batch.to(device))
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Goes to a constant rate for averaging, and stays there.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        swa_lr: the rate; one, or one for each group.
        anneal_epochs: epochs of the way.
        anneal_strategy: `"cos"` or `"linear"`.

    Raises:
        ValueError: a setting out of its range; another number of rates than of groups.

    >>> optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
    >>> schedule = weft.optim.swa_utils.SWALR(optimizer, 0.5, 2, "linear")
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.75]
    [0.5]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = for_each_group("swa_lr", optimizer, swa_lr)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, rate in zip(optimizer.param_groups, rates):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """How much of the way is done at a share `t` of the epochs."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        self._warn_unless_in_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        whole = max(1, self.anneal_epochs)
        before, now = (self.anneal_func(max(0, min(1, at / whole))) for at in (step - 1, step))
        rates = []
        for group in self.optimizer.param_groups:
            rate, end = group["lr"], group["swa_lr"]
            start = end if before == 1 else (rate - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates
