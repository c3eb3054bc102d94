"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft
from weft import Tensor
from weft.optim.fused import FusedOptimizer, State, decayed, expect_betas, refuse_capture
from weft.optim.optimizer import Group, expect_modes, expect_range


class NAdam(FusedOptimizer):
    """NAdam (Dozat, "Incorporating Nesterov Momentum into Adam", 2016).

    As Adam, but the step looks ahead: it is made of the average and of the gradient itself, in
    shares that follow the schedule `mu(n) = beta1 * (1 - 0.96 ** (n * momentum_decay) / 2)`.

    Args:
        params: see `Optimizer`.
        lr: the learning rate.
        betas: how much of the two averages is kept in each step.
        eps: added to the divisor.
        weight_decay: the factor of an L2 penalty.
        momentum_decay: how fast the momentum rises to `betas[0]`.
        decoupled_weight_decay: shrink the parameters themselves, as `AdamW` does.
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
    >>> weft.optim.NAdam([p], lr=0.5).step()
    >>> round(p.item(), 4)
    0.4718
    """

    _rule = "nadam"
    _settings = ("lr", "betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay")
    _numbers = ("step", "mu_product")
    _buffers = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        expect_modes(lr, foreach, None, differentiable)
        expect_range("learning rate", lr, 0.0)
        expect_range("epsilon value", eps, 0.0)
        expect_betas(betas)
        expect_range("weight_decay value", weight_decay, 0.0)
        expect_range("momentum_decay value", momentum_decay, 0.0)
        refuse_capture(self, capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, group: Group, param: Tensor, state: State) -> None:
        state["step"] = weft.tensor(0.0)
        state["mu_product"] = weft.tensor(1.0)
        super()._start(group, param, state)

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        beta1, beta2 = group["betas"]
        lr, decay, n = group["lr"], group["momentum_decay"], state["step"].item()
        grad = decayed(group, param, grad)
        now, after = (beta1 * (1 - 0.5 * 0.96 ** (at * decay)) for at in (n, n + 1))
        state["mu_product"] *= now
        product = state["mu_product"].item()
        average = state["exp_avg"]
        state["exp_avg"] = average = average + (grad - average) * (1 - beta1)
        state["exp_avg_sq"] = square = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad * grad
        root = (square / (1 - beta2**n)).sqrt() + group["eps"]
        param.sub_(grad / root * (lr * (1 - now) / (1 - product)))
        param.sub_(average / root * (lr * after / (1 - product * after)))
