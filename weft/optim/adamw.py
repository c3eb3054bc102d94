"""AdamW: Adam with a weight decay that is not part of the gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft import Tensor
from weft.optim.adam import Adam


class AdamW(Adam):
    """AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2017).

    Before Adam's step, `p *= 1 - lr * weight_decay`.

    Parameters of any shapes; the state has their shapes. `lr` is a number or a 0-d tensor.

    Args:
        params, lr, betas, eps, amsgrad: see `Adam`.
        weight_decay: the rate at which parameters shrink.
        maximize, foreach, capturable, differentiable, fused: see `Adam`.

    Raises:
        ValueError, RuntimeError: see `Adam`.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.ones(1))
    >>> p.grad = weft.zeros(1)
    >>> weft.optim.AdamW([p], lr=0.5, weight_decay=0.5).step()
    >>> p.item()
    0.75
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # A state from before PyTorch's AdamW was an Adam does not say so.
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
