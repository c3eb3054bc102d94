"""Products, made of the table's operators. PyTorch's semantics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.forms import expect, forms, function_of, method
from weft.composites.einsum import einsum

__all__ = [
    "addbmm", "addmv", "addmv_", "addr", "baddbmm", "chain_matmul", "cross", "einsum", "inner",
    "kron", "tensordot", "trace", "vdot",
]  # fmt: skip


@method
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal.

    [n, m] gives a 0-d tensor. RuntimeError for other shapes.

    >>> weft.trace(weft.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    if input.dim() != 2:
        raise RuntimeError(
            f"[trace] expected two dimensions, got {input.dim()} (trace: expected a matrix, but "
            f"got tensor with dim {input.dim()})"
        )
    return input.diagonal().sum()


def _wrapped(t: Tensor, dims: Any) -> list[int]:
    """The dims counted from the front."""
    if not isinstance(dims, (list, tuple)) or any(type(d) is not int for d in dims):
        raise TypeError(f"[tensordot] expected ints as dims, got {dims}")
    bound = max(t.dim(), 1)
    if not all(-bound <= d < bound for d in dims):
        raise IndexError(f"[tensordot] expected dims in [{-bound}, {bound - 1}], got {dims}")
    return [d % bound for d in dims]


@forms(out=True)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over dims of both: the last `dims` of a with the first of b, or two lists.

    Raises: RuntimeError for sizes that differ.

    >>> weft.tensordot(weft.ones(2, 3), weft.ones(3, 2), 1)
    tensor([[3., 3.],
            [3., 3.]])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if not isinstance(dims, (int, list, tuple)) or (not isinstance(dims, int) and len(dims) != 2):
        raise RuntimeError(
            f"[tensordot] expected dims to be an int or a pair of lists, got {dims} (tensordot "
            "expects dims to be int or tuple[list[int], list[int]])"
        )
    counted = isinstance(dims, int)
    if isinstance(dims, int):
        if dims < 0 or dims > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"[tensordot] expected dims in [0, {min(a.dim(), b.dim())}], got {dims}"
            )
        left, right = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        left, right = _wrapped(a, dims[0]), _wrapped(b, dims[1])
    if len(left) != len(right):
        raise RuntimeError(
            f"[tensordot] expected as many dims of a as of b, got {len(left)} and {len(right)}"
        )
    count = 1
    for i, j in zip(left, right, strict=True):
        m, n = a.shape[i], b.shape[j]
        if m == 1 or n == 1:  # a dimension of size 1 broadcasts
            a = a.sum(i, True, dtype=a.dtype) if n == 1 else a
            b = b.sum(j, True, dtype=b.dtype) if m == 1 else b
        elif m != n:
            raise RuntimeError(
                f"[tensordot] expected equal sizes, got {m} and {n} (contracted dimensions need to "
                f"match, but first has size {m} in dim {i - a.dim() if counted else i} and second "
                f"has size {n} in dim {j})"
            )
        count *= a.shape[i]
    rows = [d for d in range(a.dim()) if d not in left]
    columns = [d for d in range(b.dim()) if d not in right]
    height = [a.shape[d] for d in rows]
    width = [b.shape[d] for d in columns]
    flat_a = a.permute(rows + left).reshape(_size(height), count)
    flat_b = b.permute(right + columns).reshape(count, _size(width))
    return (flat_a @ flat_b).reshape(height + width)


def _size(sizes: Sequence[int]) -> int:
    out = 1
    for n in sizes:
        out *= n
    return out


@forms(method=True, out=True)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors along `dim` (default: the first of size 3).

    >>> weft.cross(weft.tensor([1, 0, 0]), weft.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    if dim is None:
        threes = [d for d, n in enumerate(input.shape) if n == 3]
        if not threes:
            raise RuntimeError(
                f"[cross] expected vectors, got {tuple(input.shape)} (no dimension of size 3 in "
                "input)"
            )
        dim = threes[0]
    return weft.linalg.cross(input, other, dim=dim)


@forms(out=True)
def chain_matmul(*matrices: Tensor | Sequence[Tensor]) -> Tensor:
    """The product of several matrices, in the order that takes the fewest multiplications.

    [a, b], [b, c], ... [y, z] give [a, z].

    >>> weft.chain_matmul(weft.ones(1, 2), weft.ones(2, 3), weft.ones(3, 1))
    tensor([[6.]])
    """
    if len(matrices) == 1 and not isinstance(matrices[0], Tensor):
        matrices = tuple(matrices[0])
    if not matrices:
        raise RuntimeError("[chain_matmul] expected one or more matrices, got none")
    factors: list[Any] = list(matrices)
    for k, t in enumerate(factors):
        expect("chain_matmul", t, Tensor, f"a Tensor as element {k}")
        if t.dim() != 2:
            raise RuntimeError(
                f"[chain_matmul] expected matrices, got shape {tuple(t.shape)} (Tensor dimension "
                f"is {t.dim()}, expected 2 instead.)"
            )
    sizes = [m.shape[0] for m in factors] + [factors[-1].shape[-1]]

    def best(i: int, j: int, known: dict[tuple[int, int], tuple[int, int]]) -> tuple[int, int]:
        if (i, j) not in known:
            known[i, j] = min(
                (best(i, k, known)[0] + best(k, j, known)[0] + sizes[i] * sizes[k] * sizes[j], k)
                for k in range(i + 1, j)
            )
        return known[i, j]

    known = {(i, i + 1): (0, 0) for i in range(len(matrices))}

    def product(i: int, j: int) -> Any:
        if j == i + 1:
            return matrices[i]
        k = best(i, j, known)[1]
        return product(i, k) @ product(k, j)

    out: Tensor = product(0, len(matrices))
    return out


@forms(method=True, out=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products summed over the last dimension of both.

    [*, n] and [..., n] give [*, ...]; with a 0-d tensor it is the product.

    >>> weft.inner(weft.tensor([1, 2]), weft.tensor([3, 4]))
    tensor(11)
    """
    if input.dim() == 0 or other.dim() == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"[inner] expected equal last sizes, got {input.shape[-1]} and {other.shape[-1]}"
        )
    return tensordot(input, other, dims=([-1], [-1]))


@forms(method=True, out=True)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The dot product of two vectors, the first conjugated.

    [n] and [n] give a 0-d tensor.

    >>> weft.vdot(weft.tensor([1 + 2j]), weft.tensor([3 - 1j]))
    tensor(1.-7.j)
    """
    return weft.dot(input.conj(), other)


def _mixed(who: str, input: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """beta * input + alpha * product; the factors are whole for integers."""
    if weft.is_floating_point(input) and _C.is_autocast_cpu_enabled():
        input = input.to(product.dtype)
    if not (product.dtype.is_floating_point or product.dtype.is_complex):
        beta, alpha = int(beta), int(alpha)
    fits = input.dim() <= product.dim() and all(
        m in (1, n) for m, n in zip(reversed(input.shape), reversed(product.shape))
    )
    if not fits:
        raise RuntimeError(
            f"[{who}] expected an input that expands to the product's shape "
            f"{tuple(product.shape)}, got {tuple(input.shape)}"
        )
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else (input if beta == 1 else input * beta) + product


def _expect_batches(who: str, batch1: Tensor, batch2: Tensor) -> None:
    """The sizes that the result has, of the dims where PyTorch asks for them."""
    if batch1.dim() < 2 or batch2.dim() < 3:
        raise IndexError(
            f"[{who}] expected batches of matrices, got tensors of {batch1.dim()} and "
            f"{batch2.dim()} dims (Dimension out of range)"
        )


@forms(method=True, inplace=True, out=True)
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), batches of matrices [b, n, m] @ [b, m, p].

    The result is [b, n, p]; the input may broadcast to it.

    >>> weft.baddbmm(weft.tensor(1.0), weft.ones(2, 1, 3), weft.ones(2, 3, 1)).flatten()
    tensor([4., 4.])
    """
    _expect_batches("baddbmm", batch1, batch2)
    product = weft.bmm(batch1, batch2)
    return _mixed("baddbmm", input, product, beta, alpha)


@forms(method=True, inplace=True, out=True)
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * the sum over the batch of batch1 @ batch2.

    [n, m], or what broadcasts to it, and batches [b, n, k] @ [b, k, m] give [n, m].

    >>> weft.addbmm(weft.tensor(1.0), weft.ones(3, 1, 2), weft.ones(3, 2, 1))
    tensor([[7.]])
    """
    _expect_batches("addbmm", batch1, batch2)
    product = weft.bmm(batch1, batch2).sum(0)
    return _mixed("addbmm", input, product, beta, alpha)


@forms(method=True, inplace=True, out=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec).

    [n], or what broadcasts to it, and [n, m] @ [m] give [n].

    >>> weft.addmv(weft.ones(2), weft.ones(2, 3), weft.ones(3), alpha=2)
    tensor([7., 7.])
    """
    product = weft.mv(mat, vec)
    return _mixed("addmv", input, product, beta, alpha)


addmv_ = function_of("addmv_")


@forms(method=True, inplace=True, out=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * the outer product of two vectors.

    [n, m], or what broadcasts to it, and vectors [n] and [m] give [n, m].

    >>> weft.addr(weft.zeros(2, 2), weft.tensor([1.0, 2.0]), weft.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    alike = input.dtype is vec1.dtype is vec2.dtype and weft.is_floating_point(input)
    sizes = (*vec1.shape, *vec2.shape)
    if alike and input.shape == sizes and not _C.is_autocast_cpu_enabled():
        column, row = vec1.unsqueeze(1), vec2.unsqueeze(0)
        return weft.addmm(input, column, row, beta=beta, alpha=alpha)
    return _mixed("addr", input, weft.outer(vec1, vec2), beta, alpha)


@forms(method=True, out=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product.

    [a, b] and [c, d] give [a c, b d]; fewer dimensions count as 1 in front.

    >>> weft.kron(weft.eye(2), weft.tensor([1.0, 2.0]))
    tensor([[1., 2., 0., 0.],
            [0., 0., 1., 2.]])
    """
    width = max(input.dim(), other.dim())
    a = input.reshape([1] * (width - input.dim()) + list(input.shape))
    b = other.reshape([1] * (width - other.dim()) + list(other.shape))
    left = [n for size in a.shape for n in (size, 1)]
    right = [n for size in b.shape for n in (1, size)]
    sizes = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    out: Tensor = _C.ops._relaid(a.reshape(left) * b.reshape(right), sizes)
    return out
