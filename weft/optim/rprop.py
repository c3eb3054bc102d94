"""Rprop: a step size for each element, by the signs of its gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft
from weft import Tensor
from weft.optim.fused import FusedOptimizer, State, filled_like, refuse_capture
from weft.optim.optimizer import Group, expect_modes, expect_range


class Rprop(FusedOptimizer):
    """Rprop (Riedmiller and Braun, "A Direct Adaptive Method for Faster Backpropagation", 1993).

    A step size grows by `etas[1]` while the sign of its gradient stays, and shrinks by `etas[0]`
    when it turns; then the element rests for one step. For gradients of the whole data.

    Args:
        params: see `Optimizer`.
        lr: the step sizes at the start.
        etas: the two factors.
        step_sizes: the least and the greatest step size.
        foreach: `False` runs the step op by op; other values mean the same fast step.
        maximize: go up instead of down.
        capturable: has to be false: there are no CUDA graphs here.
        differentiable: record the step, so that one can go backward through it.

    Raises:
        ValueError: a setting out of its range.
        RuntimeError: `capturable`.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.ones(1))
    >>> p.grad = weft.tensor([5.0])
    >>> weft.optim.Rprop([p], lr=0.5).step()
    >>> round(p.item(), 4)
    0.5
    """

    _rule = "rprop"
    _settings = ("etas", "step_sizes")
    _buffers = ("prev", "step_size")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        expect_modes(lr, foreach, None, differentiable)
        expect_range("learning rate", lr, 0.0)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        refuse_capture(self, capturable)
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, group: Group, param: Tensor, state: State) -> None:
        super()._start(group, param, state)
        state["step_size"] = filled_like(param, float(group["lr"]))

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        less, more = group["etas"]
        turn = grad * state["prev"]
        factor = weft.ones_like(turn).masked_fill(turn > 0, more).masked_fill(turn < 0, less)
        state["step_size"] = size = (state["step_size"] * factor).clamp(*group["step_sizes"])
        state["prev"] = grad = weft.where(turn < 0, weft.zeros_like(grad), grad)
        param.sub_(grad.sign() * size)
