"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import weft
from weft import Tensor
from weft.optim.fused import FusedOptimizer, State, decayed, expect_betas, refuse_capture
from weft.optim.optimizer import Group, expect_modes, expect_range


class Adam(FusedOptimizer):
    """Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014).

    With `g` the gradient plus `weight_decay * p`, `m` and `v` the running averages of `g` and
    `g²`, corrected for their start at 0: `p -= lr * m / (sqrt(v) + eps)`.

    Parameters of any shapes; the state has their shapes. `lr` is a number or a 0-d tensor.

    Args:
        params: see `Optimizer`.
        lr: the learning rate.
        betas: how much of the two averages is kept in each step.
        eps: added to the divisor.
        weight_decay: the factor of an L2 penalty.
        amsgrad: divide by the greatest `v` so far (Reddi et al., 2018).
        foreach: `False` runs the step op by op; other values mean the same fast step.
        maximize: go up instead of down.
        capturable: has to be false: there are no CUDA graphs here.
        differentiable: record the step, so that one can go backward through it.
        fused: a hint for speed in PyTorch; the fast step here.
        decoupled_weight_decay: shrink the parameters themselves, as `AdamW` does.

    Raises:
        ValueError: a setting out of its range.
        RuntimeError: `capturable`, or `fused` with `differentiable` or `foreach`.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.ones(1))
    >>> p.grad = weft.tensor([5.0])
    >>> weft.optim.Adam([p], lr=0.5).step()
    >>> round(p.item(), 4)
    0.5
    """

    _rule = "adam"
    _settings = (
        "lr", "betas", "eps", "weight_decay", "decoupled_weight_decay", "amsgrad"
    )  # fmt: skip
    _buffers = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and foreach:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        expect_modes(lr, foreach, fused, differentiable)
        expect_range("learning rate", lr, 0.0)
        expect_range("epsilon value", eps, 0.0)
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        expect_betas(betas)
        expect_range("weight_decay value", weight_decay, 0.0)
        refuse_capture(self, capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _state_names(self, group: Group) -> tuple[str | None, ...]:
        if group["amsgrad"]:
            return ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        return ("step", "exp_avg", "exp_avg_sq", None)

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        beta1, beta2 = map(float, group["betas"])
        grad = decayed(group, param, grad)
        state["exp_avg"] = average = beta1 * state["exp_avg"] + (1 - beta1) * grad
        state["exp_avg_sq"] = square = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad * grad
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = square = weft.maximum(state["max_exp_avg_sq"], square)
        n = state["step"].item()
        root = square.sqrt() / math.sqrt(1 - beta2**n) + group["eps"]
        param.sub_(average / root * (group["lr"] / (1 - beta1**n)))
