"""Stochastic gradient descent."""

from __future__ import annotations

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


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum (Sutskever et al., 2013) if wanted.

    With `g` the gradient plus `weight_decay * p`: the momentum is `b = momentum * b +
    (1 - dampening) * g`, starting with `g`, and the step is `p -= lr * b`, or
    `lr * (g + momentum * b)` with `nesterov`.

    Args:
        params: see `Optimizer`.
        lr: the learning rate.
        momentum: the share of the last step's direction that is kept.
        dampening: taken off the gradient's share.
        weight_decay: the factor of an L2 penalty.
        nesterov: look ahead; needs a momentum and no dampening.
        maximize: go up instead of down.
        foreach: `False` runs the step op by op; other values mean the same fast step.
        differentiable: record the step, so that one can go backward through it.
        fused: a hint for speed in PyTorch; the fast step here.

    Raises:
        ValueError: a setting out of its range.
        RuntimeError: `fused` with `differentiable` or `foreach`.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.ones(2))
    >>> p.grad = weft.tensor([1.0, 2.0])
    >>> weft.optim.SGD([p], lr=0.25).step()
    >>> p.tolist()
    [0.75, 0.5]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        expect_modes(lr, foreach, fused, differentiable)
        expect_range("learning rate", lr, 0.0)
        expect_range("momentum value", momentum, 0.0)
        expect_range("weight_decay value", weight_decay, 0.0)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
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
        params, grads, buffers = [], [], []  # parameters with momentum, or all without it
        fresh, fresh_grads = [], []  # parameters whose momentum starts now
        if group["momentum"]:
            state = self.state
            for param in group["params"]:
                if (grad := param.grad) is None:
                    continue
                buffer = state[param].get("momentum_buffer")
                if buffer is None:
                    fresh.append(param)
                    fresh_grads.append(grad)
                else:
                    params.append(param)
                    grads.append(grad)
                    buffers.append(buffer)
        else:
            for param in group["params"]:
                if (grad := param.grad) is not None:
                    params.append(param)
                    grads.append(grad)
        if params:
            _fused(group, params, grads, buffers, False)
        if fresh:
            buffers = [weft.empty_like(param, requires_grad=False) for param in fresh]
            _fused(group, fresh, fresh_grads, buffers, True)
            for param, buffer in zip(fresh, buffers):
                self.state[param]["momentum_buffer"] = buffer

    def _plain_step(self, group: Group) -> None:
        """The step op by op: what the fused one is tested against, and what can be recorded."""
        lr, momentum, weight_decay = group["lr"], group["momentum"], group["weight_decay"]
        differentiable = group["differentiable"]
        with weft.set_grad_enabled(differentiable):
            for param in group["params"]:
                if param.grad is None:
                    continue
                step = -param.grad if group["maximize"] else param.grad
                if weight_decay:
                    step = step + weight_decay * param
                if momentum:
                    state = self.state[param]
                    buffer = state.get("momentum_buffer")
                    if buffer is None:
                        buffer = step.clone()
                    else:
                        buffer = momentum * buffer + (1 - group["dampening"]) * step
                    state["momentum_buffer"] = buffer
                    step = step + momentum * buffer if group["nesterov"] else buffer
                param.sub_(step * lr)


def _fused(
    group: Group,
    params: list[Tensor],
    grads: list[Tensor],
    buffers: list[Tensor],
    first_step: bool,
) -> None:
    _C._fused_sgd_(
        params,
        grads,
        buffers,
        group["lr"],
        group["momentum"],
        group["dampening"],
        group["weight_decay"],
        group["nesterov"],
        group["maximize"],
        first_step,
    )
