"""Functions made of the table's operators, and so differentiable to any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor

__all__ = [
    "addbmm", "addmv", "addr", "aminmax", "baddbmm", "bincount", "diff", "dist", "einsum", "inner",
    "kron", "logaddexp", "tensor_split", "trace", "unique", "vdot",
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


def einsum(equation: str, *operands: Any) -> Tensor:
    """Sums of products by subscripts: 'ij,jk->ik' is a matrix product; '...' broadcasts.

    Contracts from left to right, each step one batched matrix product.

    Raises: RuntimeError for subscripts that do not fit the operands.

    >>> weft.einsum("ij->ji", weft.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
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


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products summed over the last dimension of both."""
    if input.dim() == 0 or other.dim() == 0:
        return input * other
    return (
        weft.tensordot(input, other, dims=([-1], [-1]))
        if hasattr(weft, "tensordot")
        else (input.reshape(-1, input.shape[-1]) @ other.reshape(-1, other.shape[-1]).t()).reshape(
            *input.shape[:-1], *other.shape[:-1]
        )
    )


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The dot product of two vectors."""
    return weft.dot(input, other)


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), batches of matrices [b, n, m] @ [b, m, p]."""
    product = weft.bmm(batch1, batch2)
    scaled = product if alpha == 1 else product * alpha
    return scaled if beta == 0 else (input if beta == 1 else input * beta) + scaled


def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * the sum over the batch of batch1 @ batch2."""
    product = weft.bmm(batch1, batch2).sum(0)
    scaled = product if alpha == 1 else product * alpha
    return scaled if beta == 0 else (input if beta == 1 else input * beta) + scaled


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    product = weft.mv(mat, vec)
    scaled = product if alpha == 1 else product * alpha
    return scaled if beta == 0 else (input if beta == 1 else input * beta) + scaled


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * the outer product of two vectors."""
    product = weft.outer(vec1, vec2)
    scaled = product if alpha == 1 else product * alpha
    return scaled if beta == 0 else (input if beta == 1 else input * beta) + scaled


def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The smallest and the largest element, of all or along `dim`."""
    if dim is None:
        return input.amin(), input.amax()
    return input.amin(dim, keepdim), input.amax(dim, keepdim)


def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)) without overflow."""
    top = weft.maximum(input, other).detach()
    top = weft.where(weft.isfinite(top), top, weft.zeros_like(top))
    return ((input - top).exp() + (other - top).exp()).log() + top


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference."""
    return (input - other).norm(p)


def diff(input: Tensor, n: int = 1, dim: int = -1) -> Tensor:
    """The n-th difference of neighbours along `dim`.

    >>> weft.diff(weft.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    for _ in range(n):
        size = input.shape[dim]
        after, before = input.narrow(dim, 1, size - 1), input.narrow(dim, 0, size - 1)
        input = after ^ before if input.dtype is _C.bool else after - before
    return input


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product."""
    width = max(input.dim(), other.dim())
    a = input.reshape([1] * (width - input.dim()) + list(input.shape))
    b = other.reshape([1] * (width - other.dim()) + list(other.shape))
    left = [n for size in a.shape for n in (size, 1)]
    right = [n for size in b.shape for n in (1, size)]
    sizes = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    return (a.reshape(left) * b.reshape(right)).reshape(sizes)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts along `dim`: that many of about equal size, or cut before the indices."""
    size = input.shape[dim]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(
                f"[tensor_split] expected a positive number of sections, got {indices_or_sections}"
            )
        small, more = divmod(size, indices_or_sections)
        sizes = [small + (k < more) for k in range(indices_or_sections)]
        return tuple(input.split(sizes, dim))
    cuts = [0]
    parts = []
    for cut in [*map(int, indices_or_sections), size]:
        start, _, _ = slice(cuts[-1], None).indices(size)
        _, stop, _ = slice(None, cut).indices(size)
        parts.append(input.narrow(dim, start, max(stop - start, 0)))
        cuts.append(cut)
    return tuple(parts)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number occurs in a vector of ints of at least 0, or the sums of its weights.

    >>> weft.bincount(weft.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    if (
        input.dim() != 1
        or input.dtype.is_floating_point
        or (input.numel() and bool((input < 0).any()))
    ):
        raise RuntimeError(
            "[bincount] expected a vector of ints of at least 0, got "
            f"{input.dtype} {tuple(input.shape)}"
        )
    size = max(minlength, int(input.max()) + 1 if input.numel() else 0)
    if weights is None:
        weights = weft.ones_like(input, dtype=_C.int64)
    elif weights.dtype is not _C.float32:
        weights = weights.double()
    return weft.zeros(size, dtype=weights.dtype).index_add(0, input, weights)


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct values in ascending order; also where each element went, and how often each is.

    >>> weft.unique(weft.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    if dim is not None:
        raise NotImplementedError("[unique] expected dim=None, got a dimension")
    flat = input.detach().reshape(-1)
    values, order = flat.sort()
    new = weft.ones(values.shape, dtype=_C.bool)
    if len(values) > 1:
        new[1:] = values[1:] != values[:-1]
    found = [values[new]]
    if return_inverse:
        ranks = new.long().cumsum(0) - 1
        found.append(weft.empty_like(ranks).scatter(0, order, ranks).reshape(input.shape))
    if return_counts:
        starts = weft.cat([new.nonzero().reshape(-1), weft.tensor([len(values)])])
        found.append(starts[1:] - starts[:-1])
    return found[0] if len(found) == 1 else tuple(found)
