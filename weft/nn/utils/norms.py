"""What weight and spectral normalisation have in common, in their old and in their new form."""

from __future__ import annotations

import weft
from weft import Tensor
from weft.nn import functional as F


def norm_except(v: Tensor, dim: int | None) -> Tensor:
    """The norm over all dimensions but one, which keeps the others as 1; None: over all."""
    if dim is None or dim == -1:
        return v.norm()
    dim %= max(v.dim(), 1)
    rest = [d for d in range(v.dim()) if d != dim]
    return weft._C.ops.linalg_vector_norm(v, 2, rest, True) if rest else v.abs()


def weighted(v: Tensor, g: Tensor, dim: int | None) -> Tensor:
    """`v` scaled to the length `g`."""
    return v * (g / norm_except(v, dim))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """`weight` with one dimension as rows, and all others as columns."""
    if dim:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.shape[0], -1)


def start_vectors(matrix: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Random unit vectors to begin a power iteration with."""
    rows, columns = matrix.shape
    made = [matrix.new_empty(n).normal_(0, 1) for n in (rows, columns)]
    u, v = (F.normalize(x, dim=0, eps=eps) for x in made)
    return u, v
