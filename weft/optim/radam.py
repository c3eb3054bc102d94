"""RAdam: Adam that waits until its average square can be trusted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft import Tensor
from weft.optim.fused import FusedOptimizer, State, decayed, expect_betas, refuse_capture
from weft.optim.optimizer import Group, expect_modes, expect_range


class RAdam(FusedOptimizer):
    """RAdam (Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2019).

    As Adam, times a factor that grows to 1 with the number of squares in the average. As long as
    that number is at most 5, `p -= lr * m`.

    Parameters of any shapes; the state has their shapes. `lr` is a number or a 0-d tensor.

    Args:
        params: see `Optimizer`.
        lr: the learning rate.
        betas: how much of the two averages is kept in each step.
        eps: added to the divisor.
        weight_decay: the factor of an L2 penalty.
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
    >>> weft.optim.RAdam([p], lr=0.5).step()
    >>> round(p.item(), 4)
    -1.5
    """

    _rule = "radam"
    _settings = ("lr", "betas", "eps", "weight_decay", "decoupled_weight_decay")
    _buffers = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
        refuse_capture(self, capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        beta1, beta2 = group["betas"]
        n = state["step"].item()
        grad = decayed(group, param, grad)
        average = state["exp_avg"]
        state["exp_avg"] = average = average + (grad - average) * (1 - beta1)
        state["exp_avg_sq"] = square = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad * grad
        step = average * (group["lr"] / (1 - beta1**n))
        limit, power = 2 / (1 - beta2) - 1, beta2**n
        length = limit - 2 * n * power / (1 - power)
        if length > 5:
            share = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            step = step * ((1 - power) * share) ** 0.5 / (square.sqrt() + group["eps"])
        param.sub_(step)
