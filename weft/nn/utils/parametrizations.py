"""Parametrizations that are ready to use: orthogonal weights, weight and spectral normalisation."""

from __future__ import annotations

import weft
from weft import Tensor
from weft.nn import functional as F
from weft.nn.module import Module
from weft.nn.utils.norms import as_matrix, norm_except, start_vectors, weighted
from weft.nn.utils.orthogonal import orthogonal
from weft.nn.utils.parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weighted(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Length and direction of a weight."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into its length and its direction (Salimans and Kingma, 2016).

    They are `parametrizations.<name>.original0` and `original1`.

    Args:
        module: has the parameter.
        name: the parameter.
        dim: the dimension along which there is a length for each index; None: one for all.

    >>> import weft
    >>> net = weft.nn.utils.parametrizations.weight_norm(weft.nn.Linear(3, 2))
    >>> net.parametrizations.weight.original0.shape
    torch.Size([2, 1])
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.dim()
        if not -ndim <= dim < ndim:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{ndim}, {ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            with weft.no_grad():
                matrix = as_matrix(weight, self.dim)
                u, v = start_vectors(matrix, eps)
                self.register_buffer("_u", u)
                self.register_buffer("_v", v)
                self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with weft.no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.T.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / u.dot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself: its norm is taken to be 1."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its greatest singular value (Miyato et al., 2018).

    The value is found by a power iteration, which goes on with each reading in training.

    Args:
        module: has the parameter.
        name: the parameter.
        n_power_iterations: in each reading.
        eps: the least divisor of a unit vector.
        dim: the dimension of the outputs; by default 0, and 1 for transposed convolutions.

    Raises:
        ValueError: no such parameter, or no iterations.
        IndexError: no such dimension.

    >>> layer = weft.nn.utils.parametrizations.spectral_norm(weft.nn.Linear(2, 2))
    >>> layer.weight.shape
    torch.Size([2, 2])
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    parametrization = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, parametrization)
