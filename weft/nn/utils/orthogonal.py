"""Weights with orthonormal rows or columns, by a map from all matrices onto these."""

from __future__ import annotations

import weft
from weft import Tensor
from weft.nn.module import Module
from weft.nn.utils.parametrize import register_parametrization

_MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(Q: Tensor) -> bool:
    n, k = Q.shape[-2:]
    eye = weft.eye(k, dtype=Q.dtype, device=Q.device)
    return weft.allclose(Q.mH @ Q, eye, atol=10 * n * weft.finfo(Q.dtype).eps)


def _nearest(A: Tensor) -> Tensor:
    """The Q of A's QR decomposition for which R has a positive diagonal."""
    X, tau = weft.geqrf(A)
    return weft.linalg.householder_product(X, tau) * X.diagonal(0, -2, -1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """The map; `base` is what it is multiplied by, so that a training may start anywhere
    (Lezcano-Casado, "Trivializations for gradient-based optimization on manifolds", 2019)."""

    base: Tensor

    def __init__(self, weight: Tensor, map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and map == "householder":
            raise ValueError(
                "[orthogonal] expected a real weight for orthogonal_map='householder', got a "
                "complex one (The householder parametrization does not support complex tensors.)"
            )
        self.shape = weight.shape
        self.orthogonal_map = map
        if use_trivialization:
            self.register_buffer("base", None)

    def _of_skew(self, X: Tensor) -> Tensor:
        """The exponential or the Cayley transform of X's lower triangle minus its adjoint."""
        n, k = X.shape[-2:]
        X = X.tril()
        if n != k:
            X = weft.nn.functional.pad(X, (0, n - k))
        A = X - X.mH
        if self.orthogonal_map == "matrix_exp":
            Q = weft.linalg.matrix_exp(A)
        else:
            eye = weft.eye(n, dtype=A.dtype, device=A.device)
            Q = weft.linalg.solve(eye - A * 0.5, eye + A * 0.5)
        return Q if n == k else Q[..., :k]

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        X = X.mT if wide else X
        if self.orthogonal_map == "householder":
            A = X.tril(-1)
            tau = 2.0 / (1.0 + (A * A).sum(-2))
            Q = weft.linalg.householder_product(A, tau)
            Q = Q * X.diagonal(0, -2, -1).int().unsqueeze(-2)  # its signs
        else:
            Q = self._of_skew(X)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if wide else Q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """The matrix that maps to Q, or with a base to what is nearest to it."""
        if Q.shape != self.shape:
            raise ValueError(
                f"[orthogonal] expected a weight of shape {tuple(self.shape)} (Expected a matrix "
                f"or batch of matrices of shape {self.shape}.), got {tuple(Q.shape)}"
            )
        start = Q
        wide = Q.shape[-2] < Q.shape[-1]
        Q = Q.mT if wide else Q
        if hasattr(self, "base"):
            self.base = self._completed(Q)
            # the maps take minus one to one
            minus = weft.eye(*start.shape[-2:], dtype=start.dtype, device=start.device).neg()
            return minus.expand(start.shape).clone()
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "[orthogonal] expected use_trivialization=True or orthogonal_map='householder', "
                f"got {self.orthogonal_map!r} without it (It is not possible to assign to the "
                "matrix exponential or the Cayley parametrizations when use_trivialization=False.)"
            )
        A, tau = weft.geqrf(Q)
        signs = A.diagonal(0, -2, -1)
        with weft.no_grad():  # LAPACK leaves a reflection out by a factor of 0; forward does not
            signs.copy_(weft.where(tau == 0, -signs.sign(), signs.sign()))
        return A.mT if wide else A

    def _completed(self, Q: Tensor) -> Tensor:
        n, k = Q.shape[-2:]
        if n == k:
            return Q.clone() if _is_orthogonal(Q) else _nearest(Q)
        more = weft.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
        return _nearest(weft.cat([Q, more], -1))


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a weight's rows or columns, whichever are fewer, orthonormal.

    Args:
        module: has the parameter.
        name: the parameter, a matrix or a batch of them.
        orthogonal_map: `"matrix_exp"`, `"cayley"` or `"householder"`; by default the first for
            square and complex weights, else the last.
        use_trivialization: multiply by a fixed orthogonal matrix, so that the weight may start, and
            be assigned, anywhere.

    Raises:
        ValueError: no such parameter, no matrix, another map.

    >>> import weft
    >>> net = weft.nn.utils.parametrizations.orthogonal(weft.nn.Linear(4, 2))
    >>> bool(weft.dist(net.weight @ net.weight.T, weft.eye(2)) < 1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(
            f"[orthogonal] expected a matrix or a batch of matrices, got {weight.dim()} dimensions "
            "(Expected a matrix or batch of matrices.)"
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f"[orthogonal] expected an orthogonal_map of {', '.join(_MAPS)}, got "
            f'{orthogonal_map!r} (orthogonal_map has to be one of "matrix_exp", "cayley", '
            '"householder")'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)
