"""Distances and similarities; `weft.nn.functional` offers them."""

from __future__ import annotations

import weft
from weft import _C, Tensor

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return the p-norm of `x1 - x2 + eps` along the last dimension.

    >>> weft.pairwise_distance(weft.tensor([[3.0, 0.0]]), weft.tensor([[0.0, 4.0]]))
    tensor([5.])
    """
    return _C.ops.linalg_vector_norm(x1 - x2 + eps, p, -1, keepdim)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return `x1 · x2 / (|x1| |x2|)` along `dim`; no length counts as less than `eps`.

    >>> import weft
    >>> x = weft.tensor([[3.0, 4.0]])
    >>> weft.nn.functional.cosine_similarity(x, 2 * x)
    tensor([1.])
    """
    kind = weft.promote_types(x1.dtype, x2.dtype)
    if not kind.is_floating_point:
        raise RuntimeError(
            f"[cosine_similarity] expected floating inputs, got {kind} (expected common dtype to "
            "be floating point)"
        )
    if not eps >= 0:
        raise RuntimeError(f"[cosine_similarity] expected eps to be non-negative, got {eps}")
    x1, x2 = weft.broadcast_tensors(x1.to(kind), x2.to(kind))
    lengths = []
    for x in (x1, x2):
        norm = _C.ops.linalg_vector_norm(x, 2, dim, True)
        floor = weft.where(norm.detach() < eps, eps - norm.detach(), 0)
        lengths.append(norm + floor)  # the gradient is that of the norm also below eps
    return ((x1 / lengths[0]) * (x2 / lengths[1])).sum(dim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the p-norm of the difference of each pair of rows, `(n, m)` to `(n (n - 1) / 2)`.

    >>> weft.pdist(weft.tensor([[0.0], [1.0], [3.0]]))
    tensor([1., 3., 2.])
    """
    if input.dim() != 2:
        raise RuntimeError(f"[pdist] expected a matrix, got {input.dim()} dimensions")
    if not p >= 0:
        raise RuntimeError(f"[pdist] expected p of at least 0, got {p}")
    rows, columns = weft.triu_indices(input.shape[0], input.shape[0], 1)
    return _C.ops.linalg_vector_norm(input[rows] - input[columns], p, -1)
