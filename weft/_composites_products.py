"""Products, made of the table's operators. PyTorch's semantics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft._modes import AUTOCAST

__all__ = [
    "addbmm", "addmv", "addr", "baddbmm", "chain_matmul", "cross", "einsum", "inner", "kron",
    "tensordot", "trace", "vdot",
]  # fmt: skip
METHODS = ["addbmm", "addmv", "addr", "baddbmm", "cross", "inner", "kron", "trace", "vdot"]
INPLACE = ["addbmm", "addmv", "addr", "baddbmm"]
OUT = [
    "addbmm", "addmv", "addr", "baddbmm", "chain_matmul", "cross", "inner", "kron", "tensordot",
    "vdot",
]  # fmt: skip


def _letters(equation: str, operands: tuple[Tensor, ...]) -> tuple[list[str], str]:
    """Subscripts of every operand and of the result; each dimension of '...' gets a letter."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(
            f"[einsum] expected an operand for each of {len(terms)} subscripts, got "
            f"{len(operands)} operands"
        )
    for term in (*terms, right):
        letters = term.replace("...", "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise RuntimeError(
                f"[einsum] expected letters and at most one '...' as subscripts, got '{term}'"
            )
    if len(set(right.replace("...", ""))) != len(right.replace("...", "")):
        raise RuntimeError(f"[einsum] expected each output subscript once, got '{right}'")
    rest = [t.dim() - len(s.replace("...", "")) for s, t in zip(terms, operands, strict=True)]
    width = max([r for r, s in zip(rest, terms, strict=True) if "..." in s], default=0)
    free = "".join(chr(0x370 + k) for k in range(width))
    out = []
    for term, r, t in zip(terms, rest, operands, strict=True):
        if r < 0 or (r > 0 and "..." not in term):
            raise RuntimeError(
                f"[einsum] expected a subscript for every dimension of {tuple(t.shape)}, "
                f"got '{term}'"
            )
        out.append(term.replace("...", free[width - r :]))
    if not arrow:
        joined = "".join(out)
        once = sorted(c for c in set(joined) if joined.count(c) == 1 and c not in free)
        return out, free + "".join(once)
    return out, right.replace("...", free)


def _diagonals(t: Tensor, term: str) -> tuple[Tensor, str]:
    """A repeated subscript takes the diagonal."""
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            i = term.index(c)
            j = term.index(c, i + 1)
            if t.shape[i] != t.shape[j]:
                raise RuntimeError(
                    f"[einsum] expected equal sizes for the repeated subscript '{c}', got "
                    f"{t.shape[i]} and {t.shape[j]}"
                )
            t = t.diagonal(0, i, j)
            term = term[:i] + term[i + 1 : j] + term[j + 1 :] + c
    return t, term


def _contract(a: Tensor, sa: str, b: Tensor, sb: str, keep: str) -> tuple[Tensor, str]:
    """One batched matrix product over the subscripts that a and b share and `keep` lacks."""
    sizes = dict(zip(sb, b.shape, strict=True))
    for c, n in zip(sa, a.shape, strict=True):
        if sizes.get(c, 1) == 1:
            sizes[c] = n
        elif n not in (1, sizes[c]):
            raise RuntimeError(
                f"[einsum] expected equal sizes for a subscript, got {n} and {sizes[c]}"
            )
    batch = [c for c in sa if c in sb and c in keep]
    summed = [c for c in sa if c in sb and c not in keep]
    rows = [c for c in sa if c not in sb]
    cols = [c for c in sb if c not in sa]

    def arranged(t: Tensor, term: str, groups: Sequence[list[str]]) -> Tensor:
        order = [c for group in groups for c in group]
        t = t.permute([term.index(c) for c in order]).expand([sizes[c] for c in order])
        counts = []
        for group in groups:
            n = 1
            for c in group:
                n *= sizes[c]
            counts.append(n)
        return t.reshape(counts)

    product = weft.bmm(
        arranged(a, sa, (batch, rows, summed)), arranged(b, sb, (batch, summed, cols))
    )
    names = [*batch, *rows, *cols]
    return product.reshape([sizes[c] for c in names]), "".join(names)


def _from_lists(parts: tuple[Any, ...]) -> tuple[str, tuple[Tensor, ...]]:
    """The equation and the operands of `a, [0, 1], b, [1, 2], [0, 2]`."""

    def term(places: Any) -> str:
        out = ""
        for k in places:
            if k is ...:
                out += "..."
            elif isinstance(k, int) and 0 <= k < 52:
                out += chr(ord("A") + k) if k < 26 else chr(ord("a") + k - 26)
            else:
                raise ValueError(
                    f"[einsum] expected subscripts from 0 to 51, got {k!r} (not within the valid "
                    "range [0, 52))"
                )
        return out

    operands, lists = parts[: len(parts) // 2 * 2 : 2], parts[1::2]
    equation = ",".join(term(places) for places in lists)
    return equation + ("->" + term(parts[-1]) if len(parts) % 2 else ""), operands


def einsum(equation: str | Tensor, *operands: Any) -> Tensor:
    """Sums of products by subscripts: 'ij,jk->ik' is a matrix product; '...' broadcasts.

    Contracts from left to right, each step one batched matrix product. Subscripts may be numbers
    too, in a list after each operand: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

    Raises: RuntimeError for subscripts that do not fit the operands.

    >>> weft.einsum("ij->ji", weft.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    if isinstance(equation, Tensor):
        equation, operands = _from_lists((equation, *operands))
    if not isinstance(equation, str):
        raise TypeError(f"[einsum] expected an equation, got {type(equation).__name__}")
    if not operands:
        raise ValueError("[einsum] expected at least one operand, got none")
    tensors = (
        tuple(operands[0])
        if len(operands) == 1 and not isinstance(operands[0], Tensor)
        else operands
    )
    terms, result = _letters(equation, tensors)
    for c in result:
        if not any(c in term for term in terms):
            raise RuntimeError(f"[einsum] expected output subscripts that inputs have, got '{c}'")
    pairs = [_diagonals(t, term) for t, term in zip(tensors, terms, strict=True)]
    out, have = pairs[0]
    for k in range(len(pairs)):
        later = "".join(term for _, term in pairs[k + 1 :]) + result
        if k:
            t, term = pairs[k]
            alone = [i for i, c in enumerate(term) if c not in later and c not in have]
            if alone:
                t, term = t.sum(alone), "".join(c for i, c in enumerate(term) if i not in alone)
            out, have = _contract(out, have, t, term, later)
        gone = [i for i, c in enumerate(have) if c not in later]
        if gone:
            out, have = out.sum(gone), "".join(c for i, c in enumerate(have) if i not in gone)
    return out.permute([have.index(c) for c in result])


def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    if input.dim() != 2:
        raise RuntimeError(f"[trace] expected a matrix, got {input.dim()} dimensions")
    return input.diagonal().sum()


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over dims of both: the last `dims` of a with the first of b, or two lists.

    Raises: RuntimeError for sizes that differ.

    >>> weft.tensordot(weft.ones(2, 3), weft.ones(3, 2), 1)
    tensor([[3., 3.],
            [3., 3.]])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0 or dims > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"[tensordot] expected dims in [0, {min(a.dim(), b.dim())}], got {dims}"
            )
        left, right = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        left = [d % max(a.dim(), 1) for d in dims[0]]
        right = [d % max(b.dim(), 1) for d in dims[1]]
    if len(left) != len(right):
        raise RuntimeError(
            f"[tensordot] expected as many dims of a as of b, got {len(left)} and {len(right)}"
        )
    count = 1
    for i, j in zip(left, right, strict=True):
        m, n = a.shape[i], b.shape[j]
        if m == 1 or n == 1:  # a dimension of size 1 broadcasts
            a = a.sum(i, True) if n == 1 else a
            b = b.sum(j, True) if m == 1 else b
        elif m != n:
            raise RuntimeError(f"[tensordot] expected equal sizes, got {m} and {n}")
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


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors along `dim` (default: the first of size 3).

    >>> weft.cross(weft.tensor([1, 0, 0]), weft.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    a, b = weft.broadcast_tensors(input, other)
    if dim is None:
        threes = [d for d, n in enumerate(a.shape) if n == 3]
        if not threes:
            raise RuntimeError(f"[cross] expected a dimension of size 3, got {tuple(a.shape)}")
        dim = threes[0]
    if a.shape[dim] != 3:
        raise RuntimeError(f"[cross] expected size 3 along dim {dim}, got {a.shape[dim]}")
    first, second, third = (a.select(dim, k) for k in range(3))
    x, y, z = (b.select(dim, k) for k in range(3))
    return weft.stack([second * z - third * y, third * x - first * z, first * y - second * x], dim)


def chain_matmul(*matrices: Any) -> Tensor:
    """The product of several matrices, in the order that takes the fewest multiplications."""
    if len(matrices) == 1 and not isinstance(matrices[0], Tensor):
        matrices = tuple(matrices[0])
    if not matrices:
        raise RuntimeError("[chain_matmul] expected one or more matrices, got none")
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[-1]]

    def best(i: int, j: int, known: dict[tuple[int, int], tuple[int, int]]) -> tuple[int, int]:
        if (i, j) not in known:
            known[i, j] = min(
                (best(i, k, known)[0] + best(k, j, known)[0] + sizes[i] * sizes[k] * sizes[j], k)
                for k in range(i + 1, j)
            )
        return known[i, j]

    known = {(i, i + 1): (0, 0) for i in range(len(matrices))}

    def product(i: int, j: int) -> Tensor:
        if j == i + 1:
            return matrices[i]
        k = best(i, j, known)[1]
        return product(i, k) @ product(k, j)

    return product(0, len(matrices))


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products summed over the last dimension of both."""
    if input.dim() == 0 or other.dim() == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"[inner] expected equal last sizes, got {input.shape[-1]} and {other.shape[-1]}"
        )
    return tensordot(input, other, dims=([-1], [-1]))


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The dot product of two vectors."""
    return weft.dot(input, other)


def _mixed(input: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """beta * input + alpha * product; the factors are whole for integers."""
    if weft.is_floating_point(input) and _C._mode() & AUTOCAST:
        input = input.to(product.dtype)
    if not (product.dtype.is_floating_point or product.dtype.is_complex):
        beta, alpha = int(beta), int(alpha)
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else (input if beta == 1 else input * beta) + product


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), batches of matrices [b, n, m] @ [b, m, p]."""
    product = weft.bmm(batch1, batch2)
    return _mixed(input, product, beta, alpha)


def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * the sum over the batch of batch1 @ batch2."""
    product = weft.bmm(batch1, batch2).sum(0)
    return _mixed(input, product, beta, alpha)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    product = weft.mv(mat, vec)
    return _mixed(input, product, beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * the outer product of two vectors."""
    product = weft.outer(vec1, vec2)
    return _mixed(input, product, beta, alpha)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product."""
    width = max(input.dim(), other.dim())
    a = input.reshape([1] * (width - input.dim()) + list(input.shape))
    b = other.reshape([1] * (width - other.dim()) + list(other.shape))
    left = [n for size in a.shape for n in (size, 1)]
    right = [n for size in b.shape for n in (1, size)]
    sizes = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    return (a.reshape(left) * b.reshape(right)).reshape(sizes)
