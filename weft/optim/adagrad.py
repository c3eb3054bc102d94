"""Adagrad: steps scaled by the sum of all squared gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft
from weft import Tensor
from weft.optim.fused import FusedOptimizer, State, decayed, filled_like
from weft.optim.optimizer import Group, expect_modes, expect_range


class Adagrad(FusedOptimizer):
    """Adagrad (Duchi, Hazan and Singer, "Adaptive Subgradient Methods", 2011).

    With `g` the gradient plus `weight_decay * p` and `s` the sum of `g²` over all steps, which
    starts at `initial_accumulator_value`: `p -= rate * g / (sqrt(s) + eps)`, where the rate of the
    n-th step is `lr / (1 + (n - 1) * lr_decay)`.

    Parameters of any shapes; the state has their shapes.

    Args:
        params: see `Optimizer`.
        lr: the learning rate.
        lr_decay: how fast the rate falls.
        weight_decay: the factor of an L2 penalty.
        initial_accumulator_value: where the sums start.
        eps: added to the divisor.
        fused: a hint for speed in PyTorch; the fast step here.
        foreach: `False` runs the step op by op; other values mean the same fast step.
        maximize: go up instead of down.
        differentiable: record the step, so that one can go backward through it.

    Raises:
        ValueError: a setting out of its range.
        RuntimeError: `fused` with `differentiable` or `foreach`.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.ones(1))
    >>> p.grad = weft.tensor([5.0])
    >>> weft.optim.Adagrad([p], lr=0.5).step()
    >>> round(p.item(), 4)
    0.5
    """

    _rule = "adagrad"
    _settings = ("lr", "lr_decay", "weight_decay", "eps")
    _buffers = ("sum",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        expect_modes(lr, foreach, fused, differentiable)
        expect_range("learning rate", lr, 0.0)
        expect_range("lr_decay value", lr_decay, 0.0)
        expect_range("weight_decay value", weight_decay, 0.0)
        expect_range("initial_accumulator_value value", initial_accumulator_value, 0.0)
        expect_range("epsilon value", eps, 0.0)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                self._start(group, param, self.state[param])

    def _start(self, group: Group, param: Tensor, state: State) -> None:
        state["step"] = weft.tensor(0.0)
        start = self.defaults["initial_accumulator_value"]
        state["sum"] = filled_like(param, start)

    def _expect_rows(self, group: Group) -> None:
        if group["weight_decay"]:
            raise RuntimeError(
                "[Adagrad] expected weight_decay=0 with sparse gradients, got "
                f"{group['weight_decay']} (weight_decay option is not compatible with sparse "
                "gradients)"
            )

    def _step_rows(self, group: Group, param: Tensor, grad: Any, state: State) -> None:
        state["step"] += 1
        rate = group["lr"] / (1 + (state["step"].item() - 1) * group["lr_decay"])
        places, values = tuple(grad.indices()), grad.values()
        total = state["sum"][places] + values * values
        state["sum"][places] = total
        param[places] -= values / (total.sqrt() + group["eps"]) * rate

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        grad = decayed(group, param, grad)
        rate = group["lr"] / (1 + (state["step"].item() - 1) * group["lr_decay"])
        state["sum"] = total = state["sum"] + grad * grad
        param.sub_(grad / (total.sqrt() + group["eps"]) * rate)
