"""Adam over sparse gradients: what a gradient does not name stays as it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import weft
from weft import Tensor
from weft.optim.optimizer import Group, Optimizer, call_closure


class SparseAdam(Optimizer):
    """Adam (Kingma and Ba, 2014) for parameters whose gradients are sparse.

    A step updates the averages of the places that the gradient names, and the parameter there; the
    count of steps, by which averages are corrected, is that of the whole parameter.

    Parameters of any shapes; the state has their shapes. `lr` is a number or a 0-d tensor.

    Args:
        params: see `Optimizer`; dense tensors.
        lr: the learning rate.
        betas: the shares of the averages that are kept.
        eps: added to the divisor.
        maximize: go up instead of down.

    Raises:
        ValueError: a setting out of its range, or a parameter that is sparse itself or complex.
        RuntimeError: of `step`, a gradient that is dense.

    >>> import weft
    >>> table = weft.nn.Embedding(5, 1, sparse=True)
    >>> before = table.weight.detach().clone()
    >>> table(weft.tensor([3])).sum().backward()
    >>> weft.optim.SparseAdam(table.parameters(), lr=0.5).step()
    >>> (before - table.weight.detach()).round(decimals=4).view(-1).tolist()
    [0.0, 0.0, 0.0, 0.5, 0.0]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        flat = [p for group in self.param_groups for p in group["params"]]
        sparse = [i for i, p in enumerate(flat) if p.is_sparse]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )
        complex_params = [i for i, p in enumerate(flat) if p.is_complex()]
        if complex_params:
            raise ValueError(
                f"Complex params at indices {complex_params}: SparseAdam does not support complex "
                "parameters"
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None if closure is None else call_closure(closure)
        work = [
            (group, param)
            for group in self.param_groups
            for param in group["params"]
            if param.grad is not None
        ]
        if not all(param.grad.is_sparse for _, param in work):
            raise RuntimeError(
                "[SparseAdam] expected sparse gradients, got a dense one (SparseAdam does not "
                "support dense gradients, please consider Adam instead)"
            )
        with weft.no_grad():
            for group, param in work:
                self._update(group, param)
        return loss

    def _update(self, group: Group, param: Tensor) -> None:
        state = self.state[param]
        if not state:
            state["step"] = 0
            state["exp_avg"] = weft.zeros_like(param, requires_grad=False)
            state["exp_avg_sq"] = weft.zeros_like(param, requires_grad=False)
        state["step"] += 1
        grad: Any = param.grad
        grad = grad.coalesce()
        places, values = tuple(grad.indices()), grad.values()
        if group["maximize"]:
            values = -values
        beta1, beta2 = group["betas"]
        average, square = state["exp_avg"], state["exp_avg_sq"]
        average[places] = first = average[places] + (values - average[places]) * (1 - beta1)
        kept = square[places]
        square[places] = second = kept + (values * values - kept) * (1 - beta2)
        n = state["step"]
        rate = group["lr"] * math.sqrt(1 - beta2**n) / (1 - beta1**n)
        param[places] -= first / (second.sqrt() + group["eps"]) * rate
