"""`einsum`: equations that are one product run as that product, others step by step.

An equation is read once for operands of the same ranks, by functions of nothing else: so it is
read when a program is closed, and the program has the products. A step joins two operands: a
product without a sum is `mul`; one whose operands lie as `matmul` or `linear` want them is just
that, so that a weight is not copied (and autobatch makes one product of all examples' rows); others
permute. What a plan refuses (sizes of 1 that broadcast, wrong sizes) goes to `_steps`, which takes
everything and words the errors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import weft
from weft import _C
from weft._C import Tensor
from weft.base.forms import expect

__all__ = ["einsum"]

Product = Callable[[Tensor, Tensor], Tensor]

_PLANS_KEPT = 1024
_SMALL = 1 << 16  # elements up to which sums of products are cheaper than products of vectors


def einsum(equation: str | Tensor, *operands: Any) -> Tensor:
    """Sums of products by subscripts: 'ij,jk->ik' is a matrix product; '...' broadcasts.

    Contracts from left to right, each step one product. Subscripts may be numbers too, in a list
    after each operand: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

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
    if len(operands) == 1 and not isinstance(operands[0], Tensor):
        if not isinstance(operands[0], (list, tuple)):
            raise TypeError(f"[einsum] expected Tensors, got {type(operands[0]).__name__}")
        operands = tuple(operands[0])
        if not operands:
            raise ValueError("[einsum] expected at least one operand, got none")
    for k, t in enumerate(operands):
        expect("einsum", t, Tensor, f"a Tensor as operand {k}")
    found = tuple([t.dim() for t in operands])
    ranks = _ranks(equation) or found
    if ranks != found:
        raise RuntimeError(
            f"[einsum] expected operands with a subscript for every dimension, got others "
            f"({_misfit(ranks, found)})"
        )
    try:
        return _plan(equation, ranks)(*operands)
    except RuntimeError:
        return _steps(equation, ranks)(*operands)


def in_order(equation: str, operands: tuple[Tensor, ...]) -> Tensor:
    """The same by `_steps`, for all equations and sizes."""
    return _steps(equation, tuple([t.dim() for t in operands]))(*operands)


# ---- reading equations -------------------------------------------------------------------------


@functools.lru_cache(_PLANS_KEPT)
def _ranks(equation: str) -> tuple[int, ...]:
    """How many dimensions the operands have; () where '...' leaves that open."""
    left = equation.replace(" ", "").partition("->")[0]
    return () if "..." in equation else tuple([len(term) for term in left.split(",")])


def _letters(terms: list[str], ranks: tuple[int, ...]) -> str:
    """A letter for each dimension that the longest '...' stands for."""
    rest = [rank - len(s.replace("...", "")) for s, rank in zip(terms, ranks, strict=True)]
    width = max([r for r, s in zip(rest, terms, strict=True) if "..." in s], default=0)
    return "".join(chr(0x370 + k) for k in range(width))


def _read(equation: str, ranks: tuple[int, ...]) -> tuple[list[str], str]:
    """Subscripts of every operand and of the result; each dimension of '...' gets a letter."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise RuntimeError(
            f"[einsum] expected an operand for each of {len(terms)} subscripts, got "
            f"{len(ranks)} operands"
        )
    for term in (*terms, right):
        letters = term.replace("...", "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise RuntimeError(
                f"[einsum] expected letters and at most one '...' as subscripts, got '{term}'"
            )
    if len(set(right.replace("...", ""))) != len(right.replace("...", "")):
        raise RuntimeError(f"[einsum] expected each output subscript once, got '{right}'")
    free = _letters(terms, ranks) if "..." in equation else ""
    width = len(free)
    out = []
    for term, rank in zip(terms, ranks, strict=True):
        r = rank - len(term.replace("...", ""))
        if r < 0 or (r > 0 and "..." not in term):
            raise RuntimeError(
                f"[einsum] expected a subscript for every dimension of an operand of {rank}, "
                f"got '{term}'"
            )
        out.append(term.replace("...", free[width - r :]))
    joined = "".join(out)
    if arrow:
        result = right.replace("...", free)
    else:
        once = sorted(c for c in set(joined) if joined.count(c) == 1 and c not in free)
        result = free + "".join(once)
    for c in result:
        if c not in joined:
            raise RuntimeError(
                f"[einsum] expected subscripts of inputs, got another (einsum(): output subscript "
                f"{c} does not appear in the equation for any input operand)"
            )
    return out, result


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


# ---- step by step, for all equations -----------------------------------------------------------

Repeat = tuple[int, int, str]  # two places of a repeated subscript, and the subscript


class _Join(NamedTuple):
    """A product of two operands: their subscripts, and those by what becomes of them."""

    left: str
    right: str
    batch: str
    rows: str
    summed: str
    columns: str


@functools.lru_cache(_PLANS_KEPT)
def _steps(equation: str, ranks: tuple[int, ...]) -> Callable[..., Tensor]:
    """A function of the operands: from left to right, each step a batched product of copies."""
    terms, result = _read(equation, ranks)
    repeats = [_repeats(term)[0] for term in terms]
    singles = [_repeats(term)[1] for term in terms]
    have, joins, alone, rest = "", list[_Join | None](), list[list[int]](), list[list[int]]()
    for k, single in enumerate(singles):
        later = "".join(singles[k + 1 :]) + result
        alone.append([i for i, c in enumerate(single) if c not in later + have])
        term = "".join([c for c in single if c in later + have])
        join = _joined(have, term, later) if k else None
        joins.append(join)
        have = term if join is None else join.batch + join.rows + join.columns
        rest.append([i for i, c in enumerate(have) if c not in later])
        have = "".join([c for c in have if c in later])
    order = [have.index(c) for c in result]

    def run(*operands: Tensor) -> Tensor:
        out = operands[0]
        for k in range(len(operands)):
            t = _without(_diagonals(operands[k], repeats[k]), alone[k])
            join = joins[k]
            out = _without(t if join is None else _contracted(out, t, join), rest[k])
        return out.permute(order)

    return run


def _repeats(term: str) -> tuple[list[Repeat], str]:
    """The repeated subscripts, one after the other, and the subscripts of the diagonals."""
    out = []
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            i = term.index(c)
            j = term.index(c, i + 1)
            term = term[:i] + term[i + 1 : j] + term[j + 1 :] + c
            out.append((i, j, c))
    return out, term


def _diagonals(t: Tensor, repeats: list[Repeat]) -> Tensor:
    """A repeated subscript takes the diagonal."""
    for i, j, c in repeats:
        if t.shape[i] != t.shape[j]:
            raise RuntimeError(
                f"[einsum] expected equal sizes for the repeated subscript '{c}', got "
                f"{t.shape[i]} and {t.shape[j]}"
            )
        t = t.diagonal(0, i, j)
    return t


def _without(t: Tensor, alone: list[int]) -> Tensor:
    """Sums the dimensions that nobody asks for."""
    return t.sum(alone) if alone else t


def _joined(a: str, b: str, keep: str) -> _Join:
    """A batched matrix product over the subscripts that a and b share and `keep` lacks."""
    return _Join(
        a, b,
        "".join([c for c in a if c in b and c in keep]), "".join([c for c in a if c not in b]),
        "".join([c for c in a if c in b and c not in keep]), "".join([c for c in b if c not in a]),
    )  # fmt: skip


def _misfit(ranks: tuple[int, ...], found: tuple[int, ...]) -> str:
    """PyTorch's words for the first operand that has other dimensions than subscripts."""
    if len(ranks) != len(found):
        which = "fewer" if len(found) < len(ranks) else "more"
        return f"einsum(): {which} operands were provided than specified in the equation"
    k = 0
    while ranks[k] == found[k]:
        k += 1
    return (
        f"einsum(): the number of subscripts in the equation ({ranks[k]}) does not match the "
        f"number of dimensions ({found[k]}) for operand {k} and no ellipsis was given"
    )


def _contracted(a: Tensor, b: Tensor, join: _Join) -> Tensor:
    """One batched matrix product; sizes of 1 broadcast."""
    sizes = dict(zip(join.right, b.shape, strict=True))
    for c, n in zip(join.left, a.shape, strict=True):
        if sizes.get(c, 1) == 1:
            sizes[c] = n
        elif n not in (1, sizes[c]):
            raise RuntimeError(
                f"[einsum] expected equal sizes, got {n} and {sizes[c]} (einsum(): "
                f"subscript {c} has size {sizes[c]} for operand 1 which does not broadcast with "
                f"previously seen size {n})"
            )
    left = _arranged(a, join.left, (join.batch, join.rows, join.summed), sizes)
    right = _arranged(b, join.right, (join.batch, join.summed, join.columns), sizes)
    return weft.bmm(left, right).reshape([sizes[c] for c in join.batch + join.rows + join.columns])


def _arranged(t: Tensor, term: str, groups: tuple[str, str, str], sizes: dict[str, int]) -> Tensor:
    """A dimension for each group of subscripts."""
    order = [c for group in groups for c in group]
    t = t.permute([term.index(c) for c in order]).expand([sizes[c] for c in order])
    return t.reshape([math.prod([sizes[c] for c in group]) for group in groups])


# ---- plans -------------------------------------------------------------------------------------


@functools.lru_cache(_PLANS_KEPT)
def _plan(equation: str, ranks: tuple[int, ...]) -> Callable[..., Tensor]:
    """A function of the operands. It raises RuntimeError for sizes that are not equal."""
    terms, result = _read(equation, ranks)
    singles = ["".join(dict.fromkeys(term)) for term in terms]
    steps: list[Product] = []
    prepare: list[tuple[list[Repeat], list[int]]] = []  # diagonals, dims that nobody asks for
    have = ""
    for k, term in enumerate(terms):
        later = "".join(singles[k + 1 :]) + result
        repeats, kept = _repeats(term)
        alone = [i for i, c in enumerate(kept) if c not in later and c not in have]
        prepare.append((repeats, alone))
        kept = "".join(c for i, c in enumerate(kept) if i not in alone)
        if k == 0:
            have = kept
            continue
        wanted = result if k + 1 == len(terms) else _natural(have, kept, later)
        steps.append(_product(have, kept, wanted))
        have = wanted
    if len(terms) == 2 and not any(repeats or alone for repeats, alone in prepare):
        return steps[0]
    order = [have.index(c) for c in result]

    def run(*operands: Tensor) -> Tensor:
        out = operands[0]
        for k in range(len(operands)):
            t = _without(_diagonals(operands[k], prepare[k][0]), prepare[k][1])
            out = steps[k - 1](out, t) if k else t
        return out if steps else out.permute(order)

    return run


def _natural(a: str, b: str, later: str) -> str:
    """Subscripts of a product in the order in which it comes about: shared ones, a's, b's."""
    kept = [c for c in a + b if c in later]
    shared = [c for c in kept if c in a and c in b]
    return "".join(dict.fromkeys(shared + kept))


def _product(a: str, b: str, result: str) -> Product:
    """The product of operands with subscripts `a` and `b`, none of them in one operand alone."""
    if all(c in result for c in a + b):
        return _multiplied(a, b, result)
    if not any(c in result for c in a if c in b):
        flat = _flat(a, b, result)
        if flat is not None:
            return flat
        flat = _flat(b, a, result)
        if flat is not None:
            return lambda x, y: flat(y, x)
    return _batched(a, b, result)


def _order(term: str, wanted: str) -> list[int] | None:
    """How to permute `term` to the order of `wanted`; None if it has it."""
    return None if term == wanted else [term.index(c) for c in wanted]


def _multiplied(a: str, b: str, result: str) -> Product:
    """No sum: each operand gets dims of size 1 for the other's subscripts."""

    def fitting(term: str) -> Callable[[Tensor], Tensor] | None:
        order = _order(term, "".join(c for c in result if c in term))
        first = min([result.index(c) for c in term], default=0)
        missing = [d - first for d, c in enumerate(result) if d > first and c not in term]
        if order is None and (not missing or not term):
            return None

        def fit(t: Tensor) -> Tensor:
            if order is not None:
                t = t.permute(order)
            for d in missing:
                t = t.unsqueeze(d)
            return t

        return fit

    fit_a, fit_b = fitting(a), fitting(b)
    if fit_a is None and fit_b is None:
        return weft.mul

    def multiply(x: Tensor, y: Tensor) -> Tensor:
        return (x if fit_a is None else fit_a(x)) * (y if fit_b is None else fit_b(y))

    return multiply


def _flat(a: str, b: str, result: str) -> Product | None:
    """A product of matrices that are the operands as they lie, with `result` = rows, columns."""
    summed = "".join(c for c in a if c in b)
    rows = "".join(c for c in a if c not in b)
    columns = "".join(c for c in b if c not in a)
    if result != rows + columns or b not in (summed + columns, columns + summed):
        return None
    one = len(summed) == 1
    if a != rows + summed:
        if not (a == summed + rows and one and len(rows) == 1):
            return None
        turned = _flat(rows + summed, b, result)
        return turned and (lambda x, y: turned(x.t(), y))
    last = b == columns + summed  # as in a linear layer's weight
    if one and not columns:
        return weft.matmul
    if one and not rows and (last or len(columns) == 1):  # mv takes each example's own matrix
        return lambda x, y: weft.matmul(y if last else y.t(), x)
    if one and len(columns) == 1:
        return _C.linear if last else weft.matmul
    k = len(summed)

    def flattened(x: Tensor, y: Tensor) -> Tensor:
        height, width = x.shape[:-k], y.shape[:-k] if last else y.shape[k:]
        sizes = x.shape[-k:]
        if sizes != (y.shape[-k:] if last else y.shape[:k]):
            raise RuntimeError("[einsum] expected equal sizes")
        n = math.prod(sizes)
        x = x.reshape(*height, n)
        if not columns:
            return weft.matmul(x, y.reshape(n))
        m = math.prod(width)
        if last:
            out = _C.linear(x, y.reshape(m, n))
        else:
            out = weft.matmul(x, y.reshape(n, m))
        return out if len(columns) == 1 else out.view(*height, *width)

    return flattened


def _batched(a: str, b: str, result: str) -> Product:
    """Matrix products side by side, of permuted operands."""
    batch = "".join(c for c in result if c in a and c in b)
    summed = "".join(c for c in a if c in b and c not in batch)
    rows = "".join(c for c in result if c not in b)
    columns = "".join(c for c in result if c not in a)
    if max(len(rows), len(columns), len(summed)) > 1:
        return _by_steps(a, b, result)
    if rows and columns and result == batch + columns + rows:
        turned = _batched(b, a, result)
        return lambda x, y: turned(y, x)
    order_a, order_b = _order(a, batch + rows + summed), _order(b, batch + summed + columns)
    order = _order(batch + rows + columns, result)
    multiply: Callable[[Tensor, Tensor], Tensor]
    multiply = weft.bmm if len(batch) == 1 else weft.matmul
    if not rows and not columns:
        multiply = _dots
    elif not columns:
        multiply = _times_vectors
    elif not rows:
        multiply = _vectors_times
    if order_a is None and order_b is None and order is None:
        return multiply

    def product(x: Tensor, y: Tensor) -> Tensor:
        if order_a is not None:
            x = x.permute(order_a)
        if order_b is not None:
            y = y.permute(order_b)
        out = multiply(x, y)
        return out if order is None else out.permute(order)

    return product


def _times_vectors(x: Tensor, y: Tensor) -> Tensor:
    return weft.matmul(x, y.unsqueeze(-1)).squeeze(-1)


def _vectors_times(x: Tensor, y: Tensor) -> Tensor:
    return weft.matmul(x.unsqueeze(-2), y).squeeze(-2)


def _dots(x: Tensor, y: Tensor) -> Tensor:
    """Vectors with vectors. Narrow floats are added in float32, as products of matrices do it."""
    wide = x.dtype in (weft.float32, weft.float64) and x.dtype == y.dtype
    if wide and x.numel() <= _SMALL and x.shape == y.shape and not _C.is_autocast_cpu_enabled():
        return (x * y).sum(-1)
    return _times_vectors(x.unsqueeze(-2), y).squeeze(-1)


def _by_steps(a: str, b: str, result: str) -> Product:
    """The same with several subscripts as the rows, as the columns or as what is summed."""
    batch = "".join(c for c in result if c in a and c in b)
    summed = "".join(c for c in a if c in b and c not in batch)
    rows = "".join(c for c in a if c not in b)
    columns = "".join(c for c in b if c not in a)
    order_a, order_b = _order(a, batch + rows + summed), _order(b, batch + summed + columns)
    order = _order(batch + rows + columns, result)
    i, j, k = len(batch), len(batch) + len(rows), len(batch) + len(summed)

    def product(x: Tensor, y: Tensor) -> Tensor:
        x = x if order_a is None else x.permute(order_a)
        y = y if order_b is None else y.permute(order_b)
        height, width = x.shape, y.shape
        if height[:i] != width[:i] or height[j:] != width[i:k]:
            raise RuntimeError("[einsum] expected equal sizes")
        n, inner = math.prod(height[:i]), math.prod(height[j:])
        left = x.reshape(n, math.prod(height[i:j]), inner)
        out = weft.bmm(left, y.reshape(n, inner, math.prod(width[k:])))
        out = out.view(height[:j] + width[k:])
        return out if order is None else out.permute(order)

    return product
