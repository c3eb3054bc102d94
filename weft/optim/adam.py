"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import weft
from weft import _C, Tensor
from weft.optim.optimizer import (
    Group,
    Optimizer,
    call_closure,
    expect_modes,
    expect_range,
    runs_plain,
)


class Adam(Optimizer):
    """Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014).

    With `g` the gradient plus `weight_decay * p`, `m` and `v` the running averages of `g` and
    `g²`, corrected for their start at 0: `p -= lr * m / (sqrt(v) + eps)`.

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
        expect_range("beta parameter at index 0", betas[0], 0.0, 1.0)
        expect_range("beta parameter at index 1", betas[1], 0.0, 1.0)
        expect_range("weight_decay value", weight_decay, 0.0)
        if capturable:
            name = type(self).__name__
            raise RuntimeError(
                f"[{name}] expected capturable=False, got True. Hint: there are no CUDA graphs "
                "on the CPU."
            )
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

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None if closure is None else call_closure(closure)
        for group in self.param_groups:
            if runs_plain(group):
                self._plain_step(group)
            else:
                self._fused_step(group)
        return loss

    def _fused_step(self, group: Group) -> None:
        amsgrad = group["amsgrad"]
        params, grads, averages, squares, maxima, steps = [], [], [], [], [], []
        states = self.state
        for param in group["params"]:
            if (grad := param.grad) is None:
                continue
            state = states[param]
            if not state or (amsgrad and "max_exp_avg_sq" not in state):
                _start(state, param, amsgrad)
            params.append(param)
            grads.append(grad)
            averages.append(state["exp_avg"])
            squares.append(state["exp_avg_sq"])
            steps.append(state["step"])
            if amsgrad:
                maxima.append(state["max_exp_avg_sq"])
        if not params:
            return
        beta1, beta2 = group["betas"]
        _C._fused_adam_(
            params,
            grads,
            averages,
            squares,
            maxima,
            steps,
            group["lr"],
            beta1,
            beta2,
            group["eps"],
            group["weight_decay"],
            group["decoupled_weight_decay"],
            amsgrad,
            group["maximize"],
        )

    def _plain_step(self, group: Group) -> None:
        """The step op by op: what the fused one is tested against, and what can be recorded."""
        beta1, beta2 = map(float, group["betas"])
        lr, weight_decay = group["lr"], group["weight_decay"]
        with weft.set_grad_enabled(group["differentiable"]):
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if not state or (group["amsgrad"] and "max_exp_avg_sq" not in state):
                    _start(state, param, group["amsgrad"])
                grad = -param.grad if group["maximize"] else param.grad
                if weight_decay and group["decoupled_weight_decay"]:
                    param.mul_(1 - lr * weight_decay)
                elif weight_decay:
                    grad = grad + weight_decay * param
                state["step"] += 1
                state["exp_avg"] = average = beta1 * state["exp_avg"] + (1 - beta1) * grad
                square = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad * grad
                state["exp_avg_sq"] = square
                if group["amsgrad"]:
                    square = weft.maximum(state["max_exp_avg_sq"], square)
                    state["max_exp_avg_sq"] = square
                n = state["step"].item()
                root = square.sqrt() / math.sqrt(1 - beta2**n) + group["eps"]
                param.sub_(average / root * (lr / (1 - beta1**n)))


def _start(state: dict[str, Any], param: Tensor, amsgrad: bool) -> None:
    """Make the state of a parameter at its first gradient, as far as it is missing."""
    if not state:
        state["step"] = weft.tensor(0.0)
        state["exp_avg"] = weft.zeros_like(param, requires_grad=False)
        state["exp_avg_sq"] = weft.zeros_like(param, requires_grad=False)
    if amsgrad:
        state["max_exp_avg_sq"] = weft.zeros_like(param, requires_grad=False)
