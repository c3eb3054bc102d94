"""`watch`: what a model's layers do while it is trained, looked at now and then.

A step ends when an optimizer that has parameters of the model has stepped. In a step that is
looked at, a hook on each layer takes numbers of its outputs as they come (of those that wait for
their batch, when they are there), and each optimizer's step is looked at before and after it:
gradients as the update uses them, however many passes made them, weights, and by how much they
change. Other steps have no hook on any module. The first nan is found by `stop_when`, in every
step.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft
from weft import _C, Tensor
from weft.base.checks import of_type
from weft.base.frames import user_frame, user_level
from weft.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from weft.see.nested import tensors_in
from weft.see.reports import Flag, Layer, Numbers, Report, flags_of
from weft.see.steps import Leading
from weft.see.stops import Stop, Stopped, stop_when

__all__ = ["Flag", "Layer", "Numbers", "Report", "Watch", "watch"]

POSITIONS = 32  # at which units have to be zero to count as dead


class Watch:
    """What `watch` has begun. As a context manager it ends with its block.

    Attributes:
        reports: of the steps that were looked at, the oldest first.
        flags: all that was found, each kind of each layer once.
    """

    def __init__(
        self, model: weft.nn.Module, every: int, nan: bool, on_flag: Callable[[Flag], object] | None
    ) -> None:
        self.reports: list[Report] = []
        self.flags: list[Flag] = []
        self._model, self._every, self._on_flag = model, every, on_flag
        self._steps = 0
        self._known: set[tuple[str, str]] = set()
        self._mine: set[int] = set()  # the ids of the model's parameters
        self._leading = Leading()
        self._by_hand = False
        self._looked: _Look | None = None
        self._hooks: list[Any] = []
        self._is_on = True
        self._of_steps = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        self._stop: Stop | None = stop_when(nan=True, action=self._found_nan) if nan else None
        self._begin()

    def report(self) -> Report:
        """The last step that was looked at, or the one under way if none has ended."""
        if self.reports:
            return self.reports[-1]
        assert self._looked is not None
        self._looked.settle()
        return Report(self._steps, self._looked.layers(), [])

    def step(self) -> None:
        """Ends a step, in a program that changes the weights without an optimizer: to be called
        after the change. Update ratios are known from the second step on."""
        self._by_hand = True
        if self._hooks and self._looked is not None:
            self._looked.settle()
            self._looked.before(self._mine)
            self._looked.after(self._mine)
        self._end()

    def remove(self) -> None:
        """Watches no more; what was found stays."""
        if not self._is_on:
            return
        self._is_on = False
        self._unhook()
        for handle in self._of_steps:
            handle.remove()
        if self._stop is not None:
            self._stop.remove()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<Watch: {self._steps} steps, {len(self.reports)} reports, {len(self.flags)} flags>"

    # --- steps --------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._steps % self._every:
            return
        self._mine = {id(p) for p in self._model.parameters()}  # the model may have grown
        self._looked = look = _Look(self._model)
        for module in look.by_module.values():
            self._hooks.append(module[0].register_forward_hook(look.called))
        if self._by_hand:
            look.before(self._mine)

    def _unhook(self) -> None:
        for handle in self._hooks:
            handle.remove()
        self._hooks = []

    def _end(self) -> None:
        if self._hooks and self._looked is not None:
            self._unhook()
            self.reports.append(Report(self._steps, self._looked.layers(), []))
            self._judge()
        self._steps += 1
        self._begin()

    def _params_of(self, optimizer: Optimizer) -> set[int]:
        return {id(p) for group in optimizer.param_groups for p in group["params"]} & self._mine

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._looked is None or not (params := self._params_of(optimizer)):
            return
        if self._hooks:
            self._looked.settle()
        self._looked.before(params)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not (params := self._params_of(optimizer)):
            return
        if self._looked is not None and self._looked.after(params) and not self._hooks:
            self._judge()  # of an optimizer that steps after the one that is counted
        if self._leading.ends(optimizer):
            self._end()

    # --- what is found ------------------------------------------------------------------------

    def _judge(self) -> None:
        report = self.reports[-1]
        for flag in flags_of(report):
            if (flag.kind, flag.layer) not in {(f.kind, f.layer) for f in report.flags}:
                report.flags.append(flag)
                self._tell(flag)

    def _found_nan(self, stopped: Stopped) -> None:
        event = stopped.event
        where = "in backward, " if event.backward else ""
        sizes = [list(t.shape) if t is not None else None for t in stopped.inputs]
        text = f"{where}{event.name} of {sizes} made the first"
        if self._stop is not None:
            self._stop.remove()  # what comes after has it from there
        self._tell(Flag(self._steps, "nan", event.module, event.line, text))

    def _tell(self, flag: Flag) -> None:
        # a nan is in all layers soon
        key = flag.kind, "" if flag.kind == "nan" else flag.layer
        if key in self._known:
            return
        self._known.add(key)
        self.flags.append(flag)
        if self._on_flag is not None:
            self._on_flag(flag)
        else:
            warnings.warn(f"[watch] {flag}", stacklevel=user_level())


class _Look:
    """What is found out about the layers of one step."""

    def __init__(self, model: weft.nn.Module) -> None:
        self.by_module = {
            id(module): (module, Layer(name, type(module).__name__))
            for name, module in model.named_modules()
            if not any(True for _ in module.children()) or list(module.parameters(recurse=False))
        }
        self._called: list[Layer] = []  # in the order of their first calls
        self._waiting: list[tuple[Layer, Tensor]] = []
        self._live: dict[int, tuple[int, NDArray[np.bool_]]] = {}
        self._before: dict[int, tuple[Tensor, float]] = {}  # by parameter: a copy, and its norm
        self._sums: dict[int, list[float]] = {}  # by layer: squares of weights, gradients, changes
        self._measured: set[tuple[int, int]] = set()

    def layers(self) -> list[Layer]:
        """Those that were called, then others that have parameters."""
        called = {id(layer) for layer in self._called}
        others = [
            layer
            for module, layer in self.by_module.values()
            if id(layer) not in called and list(module.parameters(recurse=False))
        ]
        for layer in self._called:
            positions, live = self._live.get(id(layer), (0, None))
            if live is not None and positions >= POSITIONS:
                layer.dead = 1 - float(live.mean())
        return [*self._called, *others]

    # --- activations --------------------------------------------------------------------------

    def called(self, module: weft.nn.Module, args: Any, output: Any) -> None:
        """The hook of each layer; calls of which no gradient is wanted are none of the training."""
        known = self.by_module.get(id(module))  # a copy of the model has the hook too
        if known is None or not weft.is_grad_enabled():
            return
        layer = known[1]
        if not layer.calls:
            self._called.append(layer)
        layer.calls += 1
        frame = user_frame()
        layer.line = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        for t in tensors_in(output):
            if t.is_floating_point() and not self._add(layer, t):
                self._waiting.append((layer, t))

    def settle(self) -> None:
        """What waited for its batch is there now."""
        waiting, self._waiting = self._waiting, []
        for layer, t in waiting:
            t.data_ptr()  # takes its value from the batch
            self._add(layer, t)

    def _add(self, layer: Layer, t: Tensor) -> bool:
        if not layer.activations.add(t):
            return False
        if t.ndim:
            # a unit is a channel of pictures, else an element of the last dim
            new, marks = _C._live_units(t, 1 if t.ndim >= 4 else t.ndim - 1)
            live = np.frombuffer(marks, np.bool_)
            positions, known = self._live.get(id(layer), (0, live))
            if new and len(known) == len(live):
                self._live[id(layer)] = positions + new, known | live
        return True

    # --- parameters ---------------------------------------------------------------------------

    def _own(self, params: set[int]) -> Iterator[tuple[Layer, Tensor]]:
        """Those among `params` that no step has changed since the look began, by layer."""
        for module, layer in self.by_module.values():
            for p in module.parameters(recurse=False):
                if id(p) in params and (id(layer), id(p)) not in self._measured:
                    yield layer, p

    def before(self, params: set[int]) -> None:
        """Before a step changes these."""
        for _, p in self._own(params):
            if id(p) not in self._before:
                self._before[id(p)] = _C._snapshot(p), _C._norm(p, None)

    def after(self, params: set[int]) -> bool:
        """After it has: whether there was something to look at."""
        found = list(self._own(params))
        for layer, p in found:
            self._measured.add((id(layer), id(p)))
            sums = self._sums.setdefault(id(layer), [0.0, 0.0, 0.0])
            layer.weights.add(p)
            if id(p) in self._before:
                copy, norm = self._before[id(p)]
                sums[0] += norm**2
                sums[2] += _C._norm(p, copy) ** 2
            if p.grad is not None:
                layer.gradients.add(p.grad)
                sums[1] += _C._norm(p.grad, None) ** 2
        for layer in {id(layer): layer for layer, _ in found}.values():
            weights, gradients, changes = map(math.sqrt, self._sums[id(layer)])
            if weights:
                layer.gradient_ratio, layer.update_ratio = gradients / weights, changes / weights
        return bool(found)


def watch(
    model: weft.nn.Module,
    *,
    every: int = 100,
    nan: bool = True,
    on_flag: Callable[[Flag], object] | None = None,
) -> Watch:
    """Watches a model being trained: of one step in `every`, numbers of each layer's activations,
    gradients and weights, the ratio of update to weight, and what is wrong with them.

    A step ends when an optimizer that has parameters of the model has stepped; of several, the one
    that stepped first is counted. So it takes in all passes whose gradients were added up. A layer
    is a module without modules inside, or with parameters of its own; the calls of one that is
    shared, or called again and again, count together, and those under `no_grad` not at all. Under
    `autobatch` numbers are taken when the batches have run; in a step that is looked at there is a
    copy of the weights. Flags:

    - nan: some number is nan or infinite. With `nan`, each result of each step is looked at, on
      this thread: the flag has the op that made the first nan, and its line.
    - dead units: half of the elements of the last dim (of pictures: the channels) of a layer's
      outputs were zero at all of 32 positions or more.
    - vanishing gradient: its norm by that of the weights is less than 1e-4 of the largest among the
      layers; of one that was not called and has no gradient nothing is said. Exploding: it is more
      than 100. The layer is the one nearest to the loss.

    Args:
        model: whose layers are watched.
        every: of so many steps one is looked at, the first included; others have no hooks on
            modules.
        nan: whether to look for the first nan in every step, which `weft.stop_when` does. It takes
            up to a tenth of a GPT's step (bench/watching.py), and more of small ops: some 0.1 us a
            call.
        on_flag: called with each new `Flag`, in place of a warning.

    Raises:
        TypeError: a model that is no module, `every` that is no integer, `on_flag` no function.
        ValueError: `every` below 1.

    >>> model = weft.nn.Sequential(weft.nn.Linear(4, 8), weft.nn.ReLU(), weft.nn.Linear(8, 1))
    >>> optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    >>> with weft.watch(model, every=10) as seen:
    ...     for _ in range(11):
    ...         optimizer.zero_grad()
    ...         model(weft.randn(64, 4)).square().mean().backward()
    ...         optimizer.step()
    >>> [report.step for report in seen.reports], seen.flags
    ([0, 10], [])
    >>> [layer.name for layer in seen.report().layers], seen.report()["0"].update_ratio < 0.1
    (['0', '1', '2'], True)
    """
    if not isinstance(model, weft.nn.Module):
        raise TypeError(f"[watch] expected a module, got {type(model).__name__}")
    of_type("watch", "every", every, int)
    of_type("watch", "on_flag", on_flag, Callable, None)
    if every < 1:
        raise ValueError(f"[watch] expected every of at least 1, got {every}")
    return Watch(model, every, nan, on_flag)
