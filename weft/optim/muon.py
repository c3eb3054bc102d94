"""Muon: momentum made orthogonal, for the matrices of hidden layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import weft
from weft import Tensor
from weft.optim.fused import refuse_kinds
from weft.optim.optimizer import Group, Optimizer, call_closure

#: How the learning rate is scaled by the sides of a matrix.
_ADJUSTMENTS: dict[str, Callable[[int, int], float]] = {
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


class Muon(Optimizer):
    """Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024).

    The running average of the gradient is made nearly orthogonal by Newton and Schulz's iteration,
    in bfloat16: all its singular values come near 1. The parameter moves by that.
    Updates agree with PyTorch's as far as products of bfloat16, summed in another order, do.

    Parameters are matrices [n, m]; the state has their shapes.

    Args:
        params: see `Optimizer`; matrices only. Biases and embeddings go to another optimizer.
        lr: the learning rate.
        weight_decay: the parameter is multiplied by `1 - lr * weight_decay` first.
        momentum: how much of the average is kept in each step.
        nesterov: look ahead: take the gradient's share once more.
        ns_coefficients: the three coefficients of the iteration's polynomial.
        eps: the least norm by which the average is divided.
        ns_steps: iterations, fewer than 100.
        adjust_lr_fn: "original" (also None) scales `lr` by `sqrt(max(1, rows / columns))`,
            "match_rms_adamw" by `0.2 * sqrt(max(rows, columns))`.

    Raises:
        ValueError: a setting out of its range, a parameter that is no matrix; of `step`,
            `ns_steps` or `ns_coefficients` that do not fit.
        RuntimeError: of `step`, a parameter that is complex or a gradient that is sparse.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.zeros(2, 2))
    >>> p.grad = weft.tensor([[3.0, 0.0], [0.0, -0.5]])
    >>> weft.optim.Muon([p], lr=1.0).step()
    >>> p.detach().round().tolist()
    [[-1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not 0.0 <= momentum:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn is not None and adjust_lr_fn not in _ADJUSTMENTS:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def _expect_param(self, param: Any) -> None:
        super()._expect_param(param)
        if param.dim() != 2:
            raise ValueError(
                "Muon only supports 2D parameters whereas we found a parameter with size: "
                f"{param.size()}"
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None if closure is None else call_closure(closure)
        with weft.no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                if params:
                    _expect_iteration(group)
                for param in params:
                    refuse_kinds(self, param)
                for param in params:
                    self._update(group, param)
        return loss

    def _update(self, group: Group, param: Tensor) -> None:
        lr, momentum = float(group["lr"]), group["momentum"]
        grad: Any = param.grad
        state = self.state[param]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = weft.zeros_like(grad, requires_grad=False)
        average = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        ahead = grad.lerp(average, momentum) if group["nesterov"] else average
        update = _orthogonal(ahead, group)
        scale = _ADJUSTMENTS[group["adjust_lr_fn"] or "original"](*param.shape)
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(update, alpha=-lr * scale)


def _expect_iteration(group: Group) -> None:
    if group["ns_steps"] >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(group["ns_coefficients"]) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")


def _orthogonal(matrix: Tensor, group: Group) -> Tensor:
    """The matrix with singular values near 1, in bfloat16."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.bfloat16()
    x = x.T if tall else x
    x = x / x.norm().clamp(min=group["eps"])
    a, b, c = group["ns_coefficients"]
    for _ in range(group["ns_steps"]):
        gram = x @ x.T
        x = weft.addmm(x, weft.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
