"""Norms, powers and products of matrices: made of other ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import weft
from weft import _C, Tensor
from weft.linalg.checks import expect_matrix
from weft.linalg.decompositions import eigvalsh, svdvals
from weft.linalg.systems import inv

matmul = weft.matmul


def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The p-norm of vectors, over all dimensions or those of `dim`.

    >>> weft.linalg.vector_norm(weft.tensor([3., 4.]))
    tensor(5.)
    """
    x = x.abs() if x.is_complex() else x
    return weft._C.ops.linalg_vector_norm(x, ord, dim, keepdim, dtype=dtype)


def matrix_norm(
    A: Tensor,
    ord: complex | str = "fro",
    dim: int | Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: _C.dtype | None = None,
) -> Tensor:
    """A norm of matrices: `"fro"`, `"nuc"`, 1, -1, 2, -2, inf or -inf.

    Args:
        A: at least two dimensions.
        ord: 2 and -2 are the greatest and the least singular value, 1 and -1 the same of the sums
            of columns, inf and -inf of rows, `"nuc"` the sum of all singular values.
        dim: the two dimensions of the matrices.
        keepdim: keep them as 1.
        dtype: compute in it.

    Raises:
        RuntimeError: no matrix, an unknown norm, one dimension twice.

    >>> weft.linalg.matrix_norm(weft.tensor([[3., 0.], [0., 4.]]))
    tensor(5.)
    """
    A = A if dtype is None else A.to(dtype)
    expect_matrix("linalg.matrix_norm", A)
    dims: Any = dim
    kind: Any = ord
    bound = A.dim()
    if not isinstance(dims, (list, tuple)) or not all(-bound <= d < bound for d in dims):
        raise IndexError(
            f"[linalg.matrix_norm] expected dims in [{-bound}, {bound - 1}], got {dim}"
        )
    rows, columns = (d % bound for d in dims)
    if rows == columns:
        raise RuntimeError(
            f"[linalg.matrix_norm] expected two dimensions, got {tuple(dims)} (dims must be "
            "different)"
        )
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if (
        isinstance(ord, str)
        and ord != "nuc"
        or (not isinstance(ord, str) and abs(kind) not in (1, 2, math.inf))
    ):
        raise RuntimeError(
            f"[linalg.matrix_norm] expected 'fro', 'nuc', ±1, ±2 or ±inf, got {ord!r} (Order {ord} "
            "not supported.)"
        )
    rest = [d for d in range(A.dim()) if d not in (rows, columns)]
    moved = A.permute(*rest, rows, columns)
    if ord in ("nuc", 2, -2):
        values = svdvals(moved)
        out = values.sum(-1) if ord == "nuc" else values[..., 0 if ord == 2 else -1]
    else:
        sums = moved.abs().sum(-2 if abs(kind) == 1 else -1)
        out = sums.amax(-1) if kind > 0 else sums.amin(-1)
    for d in sorted((rows, columns)) if keepdim else ():
        out = out.unsqueeze(d)
    return out


def norm(
    A: Tensor,
    ord: complex | str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: _C.dtype | None = None,
) -> Tensor:
    """A norm of vectors or of matrices, as `ord` and `dim` say; see `vector_norm`, `matrix_norm`.

    A of any shape gives it without `dim`, which has size 1 with `keepdim`.

    >>> weft.linalg.norm(weft.tensor([3., 4.]))
    tensor(5.)
    """
    if isinstance(dim, Sequence) and len(dim) not in (1, 2):
        raise RuntimeError(
            f"[linalg.norm] expected one dim or two, got {len(dim)} (linalg.norm: If dim is "
            f"specified, it must be of length 1 or 2. Got {list(dim)})"
        )
    if ord is None:
        if dim is None:
            out = vector_norm(A.reshape(-1), 2, dtype=dtype)
            return out.reshape([1] * A.dim()) if keepdim else out
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    pair = isinstance(dim, Sequence) and len(dim) == 2
    if dim is None and A.dim() not in (1, 2):
        raise RuntimeError(
            f"[linalg.norm] expected 1 or 2 dimensions without dim, got {A.dim()} (linalg.norm: If "
            "dim is not specified but ord is, the input must be 1D or 2D.)"
        )
    if pair or (dim is None and (A.dim() == 2 or isinstance(ord, str))):
        return matrix_norm(A, ord, cast(Any, dim) if pair else (-2, -1), keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A: Tensor, p: complex | str | None = None) -> Tensor:
    """The condition number in the norm `p` (see `matrix_norm`); None is the 2-norm.

    [..., m, n] gives [...].

    >>> weft.linalg.cond(weft.tensor([[4., 0.], [0., 2.]]))
    tensor(2.)
    """
    expect_matrix("linalg.cond", A, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        values = svdvals(A)
        if values.shape[-1] == 0:
            return values.sum(-1)
        ends = values[..., 0], values[..., -1]
        return ends[1] / ends[0] if p == -2 else ends[0] / ends[1]
    return matrix_norm(A, p) * matrix_norm(inv(A), p)


def matrix_rank(
    A: Tensor,
    tol: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """How many singular values exceed max(atol, rtol * greatest); the defaults are `pinv`'s.

    `tol` is atol by another name; tolerances as tensors broadcast with the batch of matrices.

    >>> weft.linalg.matrix_rank(weft.ones(3, 3))
    tensor(1)
    """
    expect_matrix("linalg.matrix_rank", A, square=hermitian)
    atol = tol if tol is not None else atol
    least = weft.as_tensor(0.0 if atol is None else atol, dtype=weft.float64)
    if rtol is None:
        rtol = weft.where(least > 0, 0.0, max(A.shape[-2:]) * weft.finfo(A.dtype).eps)
    with weft.no_grad():
        values = eigvalsh(A).abs() if hermitian else svdvals(A)
        if not values.shape[-1]:
            return weft.zeros(A.shape[:-2], dtype=weft.int64, device=A.device)
        least = weft.maximum(values.amax(-1) * rtol, least)
        return (values > least.unsqueeze(-1)).sum(-1)


def matrix_power(A: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices; a negative one is of the inverse.

    [..., n, n] gives [..., n, n]. RuntimeError for others.

    >>> weft.linalg.matrix_power(weft.tensor([[2.]]), 3)
    tensor([[8.]])
    """
    expect_matrix("linalg.matrix_power", A, square=True)
    if n < 0:
        A, n = inv(A), -n
    if n == 0:
        eye = weft.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        return eye + A.masked_fill(
            weft.ones(A.shape, dtype=weft.bool, device=A.device), 0
        )  # in the graph
    result: Tensor | None = None
    while n:
        if n & 1:
            result = A if result is None else result @ A
        n >>= 1
        A = A @ A if n else A
    assert result is not None
    return result.clone() if result is A else result


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of a chain of matrices in the order of the fewest multiplications.

    Args:
        tensors: two or more; the first and the last may be vectors.

    Raises:
        RuntimeError: fewer than two, or another number of dimensions.

    >>> weft.linalg.multi_dot([weft.ones(2, 3), weft.ones(3, 1), weft.ones(1)])
    tensor([3., 3.])
    """
    chain = list(tensors)
    if len(chain) < 2:
        raise RuntimeError(
            "[linalg.multi_dot] expected at least 2 tensors, got fewer (multi_dot(): expected at "
            f"least 2 tensors but got {len(chain)})"
        )
    for i, t in enumerate(chain):
        if t.dim() != 2 and not (t.dim() == 1 and i in (0, len(chain) - 1)):
            raise RuntimeError(
                f"[linalg.multi_dot] expected matrices, got {t.dim()} dimensions at {i} "
                f"(multi_dot(): tensor {i} must be 2D)"
            )
    if len(chain) == 3 and all(t.dim() == 2 for t in chain):
        a, b, c = chain
        m, n = a.shape
        k, p = c.shape
        return a @ (b @ c) if (m + k) * n * p <= (n + p) * m * k else a @ b @ c
    row, column = chain[0].dim() == 1, chain[-1].dim() == 1
    chain[0] = chain[0].unsqueeze(0) if row else chain[0]
    chain[-1] = chain[-1].unsqueeze(1) if column else chain[-1]
    sizes = [t.shape[0] for t in chain] + [chain[-1].shape[1]]
    count = len(chain)
    cost = [[0] * count for _ in range(count)]
    cut = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i][j], cut[i][j] = min(options)

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return chain[i]
        return product(i, cut[i][j]) @ product(cut[i][j] + 1, j)

    out = product(0, count - 1)
    out = out.squeeze(0) if row else out
    return out.squeeze(-1) if column else out


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product of vectors of 3 elements along `dim`.

    >>> weft.linalg.cross(weft.tensor([1., 0., 0.]), weft.tensor([0., 1., 0.]))
    tensor([0., 0., 1.])
    """
    if input.dim() != other.dim():
        raise RuntimeError(
            "[linalg.cross] expected as many dimensions, got "
            f"{input.dim()} and {other.dim()} (inputs must have the same number of dimensions.)"
        )
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"[linalg.cross] expected 3 elements along {dim}, got {input.shape[dim]} and "
            f"{other.shape[dim]} (linalg.cross: inputs dimension {dim} must have length 3. Got "
            f"{input.shape[dim]} and {other.shape[dim]})"
        )
    a, b = input.unbind(dim), other.unbind(dim)
    parts = [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]
    return weft.stack(parts, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices.

    [..., m, n] gives [..., k].

    >>> weft.linalg.diagonal(weft.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return A.diagonal(offset, dim1, dim2)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The product of vectors along a dimension.

    >>> weft.linalg.vecdot(weft.ones(2, 3), weft.ones(3))
    tensor([3., 3.])
    """
    if x.dim() == y.dim() == 1 and len(x) != len(y):
        raise RuntimeError(
            f"[linalg.vecdot] expected vectors of one size, got {len(x)} and {len(y)} "
            "(inconsistent tensor size, expected the same number of elements)"
        )
    return (x.conj() * y).sum(dim)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Rows of the powers 0 to N - 1 of the elements of x.

    >>> weft.linalg.vander(weft.tensor([2., 3.]), N=3)
    tensor([[1., 2., 4.],
            [1., 3., 9.]])
    """
    x = (x if x.dim() else x.reshape(1)).unsqueeze(-1)
    n = x.shape[-2] if N is None else N
    if n <= 1:
        raise RuntimeError(
            f"[linalg.vander] expected N greater than 1, got {n} (N must be greater than 1.)"
        )
    powers = x.expand(*x.shape[:-1], n - 1).cumprod(-1)
    return weft.cat((weft.ones_like(x, dtype=powers.dtype), powers), -1)
