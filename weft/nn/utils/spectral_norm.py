"""Spectral normalisation in its older form: the weight is computed before each `forward`."""

from __future__ import annotations

from typing import Any

import weft
from weft.nn import functional as F
from weft.nn.module import Module
from weft.nn.utils.norms import as_matrix, start_vectors

__all__ = ["remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook that divides a module's weight by its greatest singular value."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Module, iterate: bool) -> Any:
        """The weight over its norm; `iterate`: bring the vectors nearer to the singular ones."""
        name = self.name
        weight, u, v = (getattr(module, f"{name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if iterate:
            with weft.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.T.mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def _find(module: Module, name: str) -> tuple[Any, SpectralNorm] | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            return key, hook
    return None


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its greatest singular value (Miyato et al., 2018).

    The value is found by a power iteration, which goes on with each `forward` in training. The
    parameter is replaced by `<name>_orig` and the buffers `<name>_u` and `<name>_v`.

    Args:
        module: has the parameter.
        name: the parameter.
        n_power_iterations: in each `forward`.
        eps: the least divisor of a unit vector.
        dim: the dimension of the outputs; by default 0, and 1 for transposed convolutions.

    Raises:
        RuntimeError: it has been done before.
        ValueError: no iterations.

    >>> import weft
    >>> net = weft.nn.utils.spectral_norm(weft.nn.Linear(3, 2))
    >>> sorted(net.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    if _find(module, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = getattr(module, name)
    with weft.no_grad():
        u, v = start_vectors(as_matrix(weight, dim), eps)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.data)
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the normalised weight a parameter.

    Raises:
        ValueError: it is not normalised.

    >>> layer = weft.nn.utils.spectral_norm(weft.nn.Linear(2, 2))
    >>> sorted(name for name, _ in weft.nn.utils.remove_spectral_norm(layer).named_parameters())
    ['bias', 'weight']
    """
    found = _find(module, name)
    if found is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    key, hook = found
    with weft.no_grad():
        weight = hook.compute_weight(module, False)
    for attribute in (name, f"{name}_u", f"{name}_v", f"{name}_orig"):
        delattr(module, attribute)
    module.register_parameter(name, weft.nn.Parameter(weight.detach()))
    del module._forward_pre_hooks[key]
    return module
