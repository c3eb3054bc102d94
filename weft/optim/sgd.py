"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft import Tensor
from weft.optim.fused import FusedOptimizer, State, decayed
from weft.optim.optimizer import Group, expect_modes, expect_range


class SGD(FusedOptimizer):
    """Stochastic gradient descent, with momentum (Sutskever et al., 2013) if wanted.

    With `g` the gradient plus `weight_decay * p`: the momentum is `b = momentum * b +
    (1 - dampening) * g`, starting with `g`, and the step is `p -= lr * b`, or
    `lr * (g + momentum * b)` with `nesterov`.

    Parameters of any shapes; the state has their shapes. `lr` is a number or a 0-d tensor.

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

    _rule = "sgd"
    _settings = ("lr", "momentum", "dampening", "weight_decay", "nesterov")
    _numbers = ()
    _buffers = ("momentum_buffer",)

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

    def _state_names(self, group: Group) -> tuple[str | None, ...]:
        return ("momentum_buffer",) if group["momentum"] else (None,)

    def _expect_rows(self, group: Group) -> None:
        if group["weight_decay"]:
            raise RuntimeError(
                "[SGD] expected weight_decay=0 with sparse gradients, got "
                f"{group['weight_decay']} (add(sparse, dense) is not supported. Use add(dense, "
                "sparse) instead.)"
            )

    def _step_rows(self, group: Group, param: Tensor, grad: Any, state: State) -> None:
        if momentum := group["momentum"]:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = grad.clone()
            else:
                buffer = buffer * momentum + grad * (1 - group["dampening"])
            state["momentum_buffer"] = buffer
            grad = grad + buffer * momentum if group["nesterov"] else buffer
        param.add_(grad, alpha=-float(group["lr"]))

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        step = decayed(group, param, grad)
        if momentum := group["momentum"]:
            if fresh:
                buffer = step.clone()
            else:
                buffer = momentum * state["momentum_buffer"] + (1 - group["dampening"]) * step
            state["momentum_buffer"] = buffer
            step = step + momentum * buffer if group["nesterov"] else buffer
        lr = group["lr"]
        if isinstance(lr, Tensor):  # a step that is recorded goes backward to it
            param.sub_(step * lr)
        else:
            param.sub_(step, alpha=lr)
