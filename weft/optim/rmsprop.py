"""RMSprop: steps scaled by a running average of the squared gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft import Tensor
from weft.optim.fused import FusedOptimizer, State, decayed, refuse_capture
from weft.optim.optimizer import Group, expect_modes, expect_range


class RMSprop(FusedOptimizer):
    """RMSprop (Hinton, "Neural Networks for Machine Learning", lecture 6e, 2012).

    With `g` the gradient plus `weight_decay * p` and `v` the running average of `g²`, less the
    square of the average of `g` if `centered` (Graves, 2013): `p -= lr * g / (sqrt(v) + eps)`. With
    a momentum, `b = momentum * b + g / (sqrt(v) + eps)` and `p -= lr * b`.

    Args:
        params: see `Optimizer`.
        lr: the learning rate.
        alpha: how much of the averages is kept in each step.
        eps: added to the divisor.
        weight_decay: the factor of an L2 penalty.
        momentum: the share of the last step that is kept.
        centered: divide by the deviation of the gradient, not by its size.
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
    >>> weft.optim.RMSprop([p], lr=0.5).step()
    >>> round(p.item(), 4)
    -4.0
    """

    _rule = "rmsprop"
    _settings = ("lr", "alpha", "eps", "weight_decay", "momentum", "centered")
    _buffers = ("square_avg", "momentum_buffer", "grad_avg")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        expect_modes(lr, foreach, None, differentiable)
        expect_range("learning rate", lr, 0.0)
        expect_range("epsilon value", eps, 0.0)
        expect_range("momentum value", momentum, 0.0)
        expect_range("weight_decay value", weight_decay, 0.0)
        expect_range("alpha value", alpha, 0.0)
        refuse_capture(self, capturable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _state_names(self, group: Group) -> tuple[str | None, ...]:
        momentum = "momentum_buffer" if group["momentum"] > 0 else None
        return ("step", "square_avg", momentum, "grad_avg" if group["centered"] else None)

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        alpha, momentum = group["alpha"], group["momentum"]
        grad = decayed(group, param, grad)
        state["square_avg"] = square = alpha * state["square_avg"] + (1 - alpha) * grad * grad
        if group["centered"]:
            average = state["grad_avg"]
            state["grad_avg"] = average = average + (grad - average) * (1 - alpha)
            square = square - average * average
        step = grad / (square.sqrt() + group["eps"])
        if momentum > 0:
            state["momentum_buffer"] = step = momentum * state["momentum_buffer"] + step
        param.sub_(step * group["lr"])
