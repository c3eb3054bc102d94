"""The standard's linear algebra: weft's, where only names of arguments differ with those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import weft.linalg
from weft import Tensor, dtype
from weft.array_api.operands import Axes, alike, expect_array
from weft.array_api.statistics import sum as _sum
from weft.linalg import (
    cholesky,
    det,
    diagonal,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    matrix_power,
    qr,
    slogdet,
    svd,
    svdvals,
)

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The vector products of vectors of 3 elements along `axis`; the other sizes broadcast.

    >>> from weft import array_api as xp
    >>> xp.linalg.cross(xp.asarray([1, 0, 0]), xp.asarray([0, 1, 0]))
    tensor([0, 0, 1])
    """
    a, b = alike("linalg.cross", x1, x2)
    a, b = weft.broadcast_tensors(a, b)
    return weft.linalg.cross(a, b, dim=axis)


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices `(..., n, k)` and `(..., k, m)`, or vectors, in their common dtype.

    >>> from weft import array_api as xp
    >>> xp.matmul(xp.ones((2, 3)), xp.ones(3))
    tensor([3., 3.])
    """
    a, b = alike("matmul", x1, x2)
    return weft.matmul(a, b)


def matrix_norm(
    x: Tensor,
    /,
    *,
    keepdims: bool = False,
    ord: float | Literal["fro", "nuc"] | None = "fro",  # noqa: A002
) -> Tensor:
    """A norm of matrices `(..., m, n)`, see `weft.linalg.matrix_norm`; None is "fro".

    >>> from weft import array_api as xp
    >>> xp.linalg.matrix_norm(xp.asarray([[3.0, 4.0]]))
    tensor(5.)
    """
    kind = "fro" if ord is None else ord
    return weft.linalg.matrix_norm(x, kind, keepdim=keepdims)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values of matrices `(..., m, n)` exceed `rtol` times the greatest.

    >>> from weft import array_api as xp
    >>> xp.linalg.matrix_rank(xp.ones((2, 2)))
    tensor(1)
    """
    return weft.linalg.matrix_rank(x, rtol=rtol)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """A view of matrices `(..., m, n)` as `(..., n, m)`.

    >>> from weft import array_api as xp
    >>> xp.matrix_transpose(xp.ones((4, 2, 3))).shape
    torch.Size([4, 3, 2])
    """
    expect_array("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(f"[matrix_transpose] expected 2 dimensions or more, got {x.ndim}")
    return x.transpose(-1, -2)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of each element of a vector with each of another.

    >>> from weft import array_api as xp
    >>> xp.linalg.outer(xp.asarray([1, 2]), xp.asarray([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    a, b = alike("linalg.outer", x1, x2)
    return weft.outer(a, b)


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudoinverse of matrices `(..., m, n)`; singular values of at most `rtol` times the
    greatest count as 0.

    >>> from weft import array_api as xp
    >>> xp.linalg.pinv(xp.asarray([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return weft.linalg.pinv(x, rtol=rtol)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solutions of x1 @ y = x2.

    Args:
        x1: `(..., n, n)`.
        x2: one vector `(n,)`, or matrices `(..., n, k)`; other sizes broadcast.

    >>> from weft import array_api as xp
    >>> xp.linalg.solve(xp.asarray([[2., 0.], [0., 4.]]), xp.asarray([2., 4.]))
    tensor([1., 1.])
    """
    a, b = alike("linalg.solve", x1, x2)
    if b.ndim == 1:
        return weft.linalg.solve(a, b.unsqueeze(-1)).squeeze(-1)
    while b.ndim < a.ndim:  # as many dimensions are matrices to weft, one less vectors
        b = b.unsqueeze(0)
    return weft.linalg.solve(a, b)


def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """The sums of products over the last `axes` of x1 with the first of x2, or over those named.

    [*, k] and [k, ...] give [*, ...] with one axis.

    >>> from weft import array_api as xp
    >>> xp.tensordot(xp.ones((2, 3)), xp.ones((3, 2)), axes=1)
    tensor([[3., 3.],
            [3., 3.]])
    """
    a, b = alike("tensordot", x1, x2)
    return weft.tensordot(a, b, axes)


def trace(x: Tensor, /, *, offset: int = 0, dtype: dtype | None = None) -> Tensor:
    """The sum of the diagonal of matrices `(..., m, n)`, `offset` columns to the right.

    >>> from weft import array_api as xp
    >>> xp.linalg.trace(xp.asarray([[1, 2], [3, 4]]))
    tensor(5)
    """
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The products of vectors along `axis`, the first ones conjugated; the other sizes broadcast.

    >>> from weft import array_api as xp
    >>> xp.vecdot(xp.ones((2, 3)), xp.ones(3))
    tensor([3., 3.])
    """
    a, b = alike("vecdot", x1, x2)
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(
            f"[vecdot] expected one size along {axis}, got {a.shape[axis]} and {b.shape[axis]}"
        )
    return _sum(weft.conj(a) * b, axis=axis, dtype=a.dtype)


def vector_norm(
    x: Tensor,
    /,
    *,
    axis: Axes = None,
    keepdims: bool = False,
    ord: float = 2,  # noqa: A002
) -> Tensor:
    """The norm of order `ord` of all elements, or of vectors along `axis`.

    >>> from weft import array_api as xp
    >>> xp.linalg.vector_norm(xp.asarray([3.0, 4.0]))
    tensor(5.)
    """
    if axis == ():
        return weft.linalg.vector_norm(x.unsqueeze(-1), ord, -1)
    return weft.linalg.vector_norm(x, ord, axis, keepdims)
