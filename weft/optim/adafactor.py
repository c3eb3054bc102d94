"""Adafactor: Adam's second moments kept as one row and one column of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import weft
from weft import Tensor
from weft.optim.fused import refuse_kinds
from weft.optim.optimizer import Group, Optimizer, call_closure


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern, 2018), with a learning rate that bounds the relative step.

    The average square of a gradient of two dimensions or more is kept as its means over the last
    dimension and over the one before; their outer product, divided by the mean of the rows, stands
    for it. In step `t` the parameter moves by `max(eps[1], rms(p)) * min(lr, 1 / sqrt(t))` times
    the gradient over that root, which is scaled down where its root mean square is above `d`.

    Args:
        params: see `Optimizer`.
        lr: the largest relative step, and the rate of the weight decay.
        beta2_decay: the average square keeps `1 - t ** beta2_decay`; at most 0.
        eps: the least root of an average square (None: the dtype's `finfo.eps`), and the least
            root mean square of a parameter.
        d: the largest root mean square of an update, at least 1.
        weight_decay: the parameter is multiplied by `1 - lr * weight_decay` first.
        foreach: any value means the same step.
        maximize: go up instead of down.

    Raises:
        ValueError: a setting out of its range.
        RuntimeError: of `step`, a parameter that is complex or a gradient that is sparse.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.ones(2, 3))
    >>> p.grad = weft.full((2, 3), 5.0)
    >>> opt = weft.optim.Adafactor([p], lr=0.5)
    >>> opt.step()
    >>> p.tolist()
    [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]
    >>> [opt.state[p][name].shape for name in ("row_var", "col_var")]
    [torch.Size([2, 1]), torch.Size([1, 3])]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for fits, text in [
            (0.0 <= lr, f"Learning rate should be >= 0 but is: {lr}"),
            (beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
            (eps[0] is None or 0.0 <= eps[0], f"epsilon1 should be >= 0 but is: {eps[0]}"),
            (0.0 <= eps[1], f"epsilon2 should be >= 0 but is: {eps[1]}"),
            (1.0 <= d, f"Clipping threshold d should be >= 1 but is: {d}"),
            (0.0 <= weight_decay, f"weight_decay should be >= 0 but is: {weight_decay}"),
        ]:
            if not fits:
                raise ValueError(text)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None if closure is None else call_closure(closure)
        with weft.no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                for param in params:
                    refuse_kinds(self, param)
                for param in params:
                    self._update(group, param, params[0].dtype)
        return loss

    def _update(self, group: Group, param: Tensor, dtype: Any) -> None:
        """One parameter's step; `dtype` says the least root where none is given."""
        lr, (eps, least_rms) = float(group["lr"]), group["eps"]
        eps = weft.finfo(dtype).eps if eps is None else eps
        grad: Any = param.grad
        state = self.state[param]
        if not state:
            self._start(state, grad)
        grad = -grad if group["maximize"] else grad
        state["step"] += 1
        t = state["step"].item()
        rate = max(least_rms, _rms(param)) * min(lr, 1 / t**0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        square = _averaged(state, grad, t ** group["beta2_decay"], eps)
        update = square.clamp_(min=eps * eps).rsqrt_().mul_(grad)
        param.add_(update, alpha=-rate / max(1.0, _rms(update) / group["d"]))

    @staticmethod
    def _start(state: dict[str, Any], grad: Tensor) -> None:
        state["step"] = weft.tensor(0.0)
        if grad.dim() > 1:
            *outer, rows, columns = grad.shape
            state["row_var"] = grad.new_zeros((*outer, rows, 1))
            state["col_var"] = grad.new_zeros((*outer, 1, columns))
        else:
            state["variance"] = weft.zeros_like(grad, requires_grad=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)


def _averaged(state: dict[str, Any], grad: Tensor, share: float, eps: float) -> Tensor:
    """The average square of the gradient, after this one has its share in it; memory of its own."""
    if grad.dim() <= 1:
        variance: Tensor = state["variance"].lerp_(grad * grad, share)
        return variance.clone()
    rows, columns = state["row_var"], state["col_var"]
    for kept, dim in ((rows, -1), (columns, -2)):
        mean = weft.norm(grad, dim=dim, keepdim=True).square_().div_(grad.shape[dim])
        kept.lerp_(mean, share)
    product: Tensor = rows @ columns
    return product.div_(rows.mean(dim=-2, keepdim=True).clamp_(min=eps))


def _rms(x: Tensor) -> float:
    return float(x.norm(2).item()) / float(x.numel()) ** 0.5
