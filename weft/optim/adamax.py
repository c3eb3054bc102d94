"""Adamax: Adam with the largest gradient in place of the average square."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft
from weft import Tensor
from weft.optim.fused import FusedOptimizer, State, decayed, expect_betas, refuse_capture
from weft.optim.optimizer import Group, expect_modes, expect_range


class Adamax(FusedOptimizer):
    """Adamax (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014, section 7.1).

    With `g` the gradient plus `weight_decay * p`, `m` its running average, corrected for its start
    at 0, and `u = max(beta2 * u, |g| + eps)`: `p -= lr * m / u`.

    Args:
        params: see `Optimizer`.
        lr: the learning rate.
        betas: how much of the two averages is kept in each step.
        eps: added to the gradient's size.
        weight_decay: the factor of an L2 penalty.
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
    >>> weft.optim.Adamax([p], lr=0.5).step()
    >>> round(p.item(), 4)
    0.5
    """

    _rule = "adamax"
    _settings = ("lr", "betas", "eps", "weight_decay")
    _buffers = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        expect_modes(lr, foreach, None, differentiable)
        expect_range("learning rate", lr, 0.0)
        expect_range("epsilon value", eps, 0.0)
        expect_betas(betas)
        expect_range("weight_decay value", weight_decay, 0.0)
        refuse_capture(self, capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        beta1, beta2 = group["betas"]
        grad = decayed(group, param, grad)
        average = state["exp_avg"]
        state["exp_avg"] = average = average + (grad - average) * (1 - beta1)
        largest = weft.maximum(state["exp_inf"] * beta2, grad.abs() + group["eps"])
        state["exp_inf"] = largest
        param.sub_(average / largest * (group["lr"] / (1 - beta1 ** state["step"].item())))
