"""The steps of optimizers as functions of lists, which optimizers that extend them call.

>>> p, average = weft.ones(1), weft.zeros(1)
>>> from weft.optim._functional import sgd
>>> sgd([p], [weft.ones(1)], [None], weight_decay=0, momentum=0, lr=0.5, dampening=0,
...     nesterov=False, maximize=False)
>>> p
tensor([0.5000])
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from weft import no_grad
from weft.optim.adadelta import Adadelta
from weft.optim.adagrad import Adagrad
from weft.optim.adam import Adam
from weft.optim.adamax import Adamax
from weft.optim.adamw import AdamW
from weft.optim.nadam import NAdam
from weft.optim.optimizer import Optimizer
from weft.optim.radam import RAdam
from weft.optim.rmsprop import RMSprop
from weft.optim.rprop import Rprop
from weft.optim.sgd import SGD

__all__ = [
    "adadelta", "adagrad", "adam", "adamax", "adamw", "nadam", "radam", "rmsprop", "rprop", "sgd",
]  # fmt: skip

#: What the functions take for the sake of other devices and of graphs; here there is one way.
_HINTS = (
    "foreach", "capturable", "differentiable", "fused", "grad_scale", "found_inf", "has_complex",
    "has_sparse_grad",
)  # fmt: skip

#: The lists of each function behind parameters and gradients: what the optimizer's state calls
#: them, in order; "step" counts. The lists that a setting leaves out are empty.
_LISTS: dict[type[Optimizer], str] = {
    Adadelta: "square_avg acc_delta step",
    Adagrad: "sum step",
    Adam: "exp_avg exp_avg_sq max_exp_avg_sq step",
    AdamW: "exp_avg exp_avg_sq max_exp_avg_sq step",
    Adamax: "exp_avg exp_inf step",
    NAdam: "exp_avg exp_avg_sq mu_product step",
    RAdam: "exp_avg exp_avg_sq step",
    RMSprop: "square_avg grad_avg momentum_buffer step",
    Rprop: "prev step_size step",
    SGD: "momentum_buffer",
}


_PLURALS = {
    "step": "state_steps", "sum": "state_sums", "momentum_buffer": "momentum_buffer_list",
}  # fmt: skip


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function as the optimizer has them: betas and etas are pairs."""
    kept = {name: value for name, value in given.items() if name not in _HINTS}
    for pair, first, second in (
        ("betas", "beta1", "beta2"), ("etas", "etaminus", "etaplus"),
        ("step_sizes", "step_size_min", "step_size_max"),
    ):  # fmt: skip
        if first in kept:
            kept[pair] = (kept.pop(first), kept.pop(second))
    return kept


def _function(kind: type[Optimizer]) -> Callable[..., None]:
    names = _LISTS[kind].split()
    grads = "d_p_list" if kind is SGD else "grads"
    order = ("params", grads, *(_PLURALS.get(name, f"{name}s") for name in names))

    @no_grad()
    def step(*lists: Any, **given: Any) -> None:
        for k, name in enumerate(order):
            if name in given:
                lists = (*lists[:k], given.pop(name), *lists[k:])
        params, grads, *lists = lists[: len(order)]  # type: ignore[assignment]  # hints may follow
        stand_ins = [param.detach() for param in params]  # of the same memory
        optimizer = kind(stand_ins, **_settings(given))
        states = []
        for k, (stand_in, grad) in enumerate(zip(stand_ins, grads)):
            stand_in.grad = grad.detach()
            rows = {name: values[k] for name, values in zip(names, lists) if len(values) > k}
            states.append({name: value for name, value in rows.items() if value is not None})
            optimizer.state[stand_in].update(states[-1])
        optimizer.step()
        for k, (stand_in, before) in enumerate(zip(stand_ins, states)):
            for name, values in zip(names, lists):
                after = optimizer.state[stand_in].get(name)
                if name not in before and len(values) > k:
                    values[k] = after
                elif name in before and after is not before[name]:
                    before[name].copy_(after)

    step.__name__ = step.__qualname__ = kind.__name__.lower()
    step.__doc__ = (
        f"One step of {kind.__name__}, which changes the lists {', '.join(order)} but not the "
        f"second. The settings are `{kind.__name__}`'s, a number each."
    )
    return step


adadelta = _function(Adadelta)
adagrad = _function(Adagrad)
adam = _function(Adam)
adamax = _function(Adamax)
adamw = _function(AdamW)
nadam = _function(NAdam)
radam = _function(RAdam)
rmsprop = _function(RMSprop)
rprop = _function(Rprop)
sgd = _function(SGD)

for _name in __all__:  # `torch.optim.adam.adam` is the function, too
    vars(sys.modules[f"weft.optim.{_name}"])[_name] = globals()[_name]
