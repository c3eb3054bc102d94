"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft
from weft import Tensor
from weft.optim.fused import FusedOptimizer, State, decayed, refuse_capture
from weft.optim.optimizer import Group, expect_modes, expect_range


class ASGD(FusedOptimizer):
    """Averaged SGD (Polyak and Juditsky, "Acceleration of Stochastic Approximation", 1992).

    With `g` the gradient plus `weight_decay * p`: `p = (1 - lambd * eta) * p - eta * g`, where eta
    falls as `lr / (1 + lambd * lr * n) ** alpha` in the n-th step. The average of the parameters,
    from step `t0` on, is in the state as `"ax"`.

    Parameters of any shapes, of a real floating dtype; the state has their shapes.

    Args:
        params: see `Optimizer`.
        lr: the learning rate.
        lambd: the decay.
        alpha: the power by which eta falls.
        t0: the step at which averaging starts.
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
    >>> weft.optim.ASGD([p], lr=0.5).step()
    >>> round(p.item(), 4)
    -1.5001
    """

    _rule = "asgd"
    _settings = ("lr", "lambd", "alpha", "t0", "weight_decay")
    _numbers = ("step", "eta", "mu")
    _buffers = ("ax",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        expect_modes(lr, foreach, None, differentiable)
        expect_range("learning rate", lr, 0.0)
        expect_range("weight_decay value", weight_decay, 0.0)
        refuse_capture(self, capturable)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, group: Group, param: Tensor, state: State) -> None:
        state["step"] = weft.tensor(0.0)
        state["eta"] = weft.tensor(float(group["lr"]))
        state["mu"] = weft.tensor(1.0)
        super()._start(group, param, state)

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        lr, lambd, n = group["lr"], group["lambd"], state["step"].item()
        eta, mu = state["eta"].item(), state["mu"].item()
        grad = decayed(group, param, grad)
        param.mul_(1 - lambd * eta).sub_(grad * eta)
        average = state["ax"]
        state["ax"] = param.clone() if mu == 1 else average + (param - average) * mu
        state["eta"].fill_(float(lr / (1 + lambd * lr * n) ** group["alpha"]))
        state["mu"].fill_(1 / max(1.0, n - group["t0"]))
