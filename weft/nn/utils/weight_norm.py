"""Weight normalisation in its older form: the weight is computed before each `forward`."""

from __future__ import annotations

from typing import Any

from weft.base.warn import warn
from weft.nn.module import Module
from weft.nn.parameter import Parameter
from weft.nn.shared_structure import changes
from weft.nn.utils.norms import norm_except, weighted

__all__ = ["remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook that sets a module's weight."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight from its length and its direction."""
        length, direction = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return weighted(direction, length, self.dim)

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _find(module: Module, name: str) -> tuple[Any, WeightNorm] | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            return key, hook
    return None


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into its length and its direction (Salimans and Kingma, 2016).

    The parameter is replaced by `<name>_g` and `<name>_v`. PyTorch deprecates this form: see
    `weft.nn.utils.parametrizations.weight_norm`.

    Args:
        module: has the parameter.
        name: the parameter.
        dim: the dimension along which there is a length for each index; None: one for all.

    Raises:
        RuntimeError: it has been done before.

    >>> import weft
    >>> net = weft.nn.utils.weight_norm(weft.nn.Linear(3, 2))
    >>> net.weight_g.shape, net.weight_v.shape
    (torch.Size([2, 1]), torch.Size([2, 3]))
    """
    warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    if _find(module, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    delattr(module, name)
    length = norm_except(weight.detach(), hook.dim)
    module.register_parameter(f"{name}_g", Parameter(length.clone()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again.

    Raises:
        ValueError: it is not normalised.

    >>> layer = weft.nn.utils.weight_norm(weft.nn.Linear(2, 2))
    >>> sorted(name for name, _ in weft.nn.utils.remove_weight_norm(layer).named_parameters())
    ['bias', 'weight']
    """
    found = _find(module, name)
    if found is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    key, hook = found
    weight = hook.compute_weight(module).detach()
    changes(module)
    delattr(module, name)
    del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
    setattr(module, name, Parameter(weight))
    del module._forward_pre_hooks[key]
    return module
