"""Adadelta: steps in the units of the parameters, without a rate to tune."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft import Tensor
from weft.optim.fused import FusedOptimizer, State, decayed, refuse_capture
from weft.optim.optimizer import Group, expect_modes, expect_range


class Adadelta(FusedOptimizer):
    """Adadelta (Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012).

    With `g` the gradient plus `weight_decay * p`, `v` the running average of `g²` and `u` that of
    the squared steps: `d = sqrt(u + eps) / sqrt(v + eps) * g` and `p -= lr * d`.

    Parameters of any shapes; the state has their shapes.

    Args:
        params: see `Optimizer`.
        lr: a factor of the step.
        rho: how much of the averages is kept in each step.
        eps: added under the roots.
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
    >>> weft.optim.Adadelta([p]).step()
    >>> round(p.item(), 4)
    0.9968
    """

    _rule = "adadelta"
    _settings = ("lr", "rho", "eps", "weight_decay")
    _buffers = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        expect_modes(lr, foreach, None, differentiable)
        expect_range("learning rate", lr, 0.0)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        expect_range("epsilon value", eps, 0.0)
        expect_range("weight_decay value", weight_decay, 0.0)
        refuse_capture(self, capturable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        rho, eps = group["rho"], group["eps"]
        grad = decayed(group, param, grad)
        state["square_avg"] = square = rho * state["square_avg"] + (1 - rho) * grad * grad
        step = (state["acc_delta"] + eps).sqrt() / (square + eps).sqrt() * grad
        state["acc_delta"] = rho * state["acc_delta"] + (1 - rho) * step * step
        param.sub_(step * group["lr"])
