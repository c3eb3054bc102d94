"""Sparse tensors added, scaled, joined and turned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import _C, Tensor
from weft.sparse import layouts
from weft.sparse import tensor as st
from weft.sparse.tensor import SparseTensor

__all__ = ["TABLE"]


def _is_number(value: Any) -> bool:
    return not isinstance(value, Tensor) or (
        not isinstance(value, SparseTensor) and value.dim() == 0
    )


def _expect_alike(name: str, a: SparseTensor, b: SparseTensor) -> None:
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(
            f"[{name}] expected operands of one shape, got two ({name}: expected sizes of 'self' "
            f"and 'other' to match, but {list(a.shape)} != {list(b.shape)})"
        )
    if a._parts.sparse_dim != b._parts.sparse_dim:
        raise RuntimeError(
            f"[{name}] expected operands with as many sparse dimensions, got two numbers ({name}: "
            "expected 'self' and 'other' to have same density, but 'self' has "
            f"{a._parts.sparse_dim} sparse dimensions while 'other' has {b._parts.sparse_dim} "
            "sparse dimensions)"
        )


# ---- sums


def _add(a: Any, b: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    if isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        kind = "a number" if not isinstance(b, Tensor) else "a dense one"
        raise RuntimeError(
            f"[add] expected two sparse tensors, got {kind} (add(sparse, dense) is not supported. "
            "Use add(dense, sparse) instead.)"
        )
    b = b if alpha == 1 else _scaled(b, alpha)
    if not isinstance(a, Tensor):
        return _add(b, a)
    result = _sum(a, b) if isinstance(a, SparseTensor) else _dense_sum(a, b)
    return _written(out, result)


def _sum(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    _expect_alike("add", a, b)
    x, y = st.as_coo(st.flat(a)), st.as_coo(st.flat(b))
    kind = weft.promote_types(x._parts.values.dtype, y._parts.values.dtype)
    if x._parts.same_places(y._parts):
        return st.like(a, st.with_values(x, st.elements(x).to(kind) + st.elements(y).to(kind)))
    values = weft.cat([st.elements(x).to(kind), st.elements(y).to(kind)])
    out = st.coo(weft.cat([st.places(x._parts), st.places(y._parts)], 1), values, x.shape)
    whole = x._parts.coalesced and y._parts.coalesced
    return st.like(a, st.coalesce(out) if whole else out)


def _dense_sum(a: Tensor, b: SparseTensor, in_place: bool = False) -> Tensor:
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(
            f"[add] expected operands of one shape, got two (add: expected 'self' and 'other' to "
            f"have same size, but self has size {list(a.shape)} while other has size "
            f"{list(b.shape)} (FYI: dense-sparse addition does not currently support broadcasting))"
        )
    b = st.flat(b)
    kind = weft.promote_types(a.dtype, b._parts.values.dtype)
    places = tuple(st.places(b._parts))
    if not places:
        return a.to(kind) + st.dense(b)
    put = a.index_put_ if in_place and kind == a.dtype else a.to(kind).index_put
    return put(places, st.elements(b).to(kind), accumulate=True)


def _add_to(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """`a.add_(b)`: of a dense `a` only the places that `b` names are touched."""
    if isinstance(a, SparseTensor) or not isinstance(b, SparseTensor):
        return _written_into(a, _add(a, b, alpha=alpha))
    result = _dense_sum(a, b if alpha == 1 else _scaled(b, alpha), in_place=True)
    return a if result is a else _written_into(a, result)


def _sub_from(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return _add_to(a, b if not isinstance(b, Tensor) else _scaled(b, -1), alpha=alpha)


def _sub(a: Any, b: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    return _add(a, b if not isinstance(b, Tensor) else _scaled(b, -1), alpha=alpha, out=out)


def _scaled(x: Any, by: Any) -> Any:
    return _linear(lambda v: v * by)(x) if isinstance(x, SparseTensor) else x * by


def _written(out: Any, result: Any) -> Any:
    if out is None:
        return result
    if isinstance(out, SparseTensor) and isinstance(result, SparseTensor):
        return layouts.write(out, result)
    if isinstance(out, SparseTensor) or isinstance(result, SparseTensor):
        raise RuntimeError("[out] expected an out of the result's layout, got another")
    return out.copy_(result)


def _written_into(x: Any, result: Any) -> Any:
    if isinstance(x, SparseTensor):
        return layouts.write(x, result)
    return x.copy_(st.dense(result) if isinstance(result, SparseTensor) else result)


def _in_place(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: _written_into(x, f(x, *args, **kwargs))


# ---- products of elements


def _mul(a: Any, b: Any, *, out: Any = None) -> Any:
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if _is_number(b):
        result = _linear(lambda v: v * b, 2)(a)
    elif isinstance(b, SparseTensor):
        result = _common(a, b)
    else:
        result = _by_dense(a, b)
    return _written(out, result)


def _by_dense(a: SparseTensor, b: Tensor) -> SparseTensor:
    shape = weft.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    if tuple(shape) != tuple(a.shape):
        raise NotImplementedError(
            f"[mul] expected a dense operand that broadcasts to {list(a.shape)}, got "
            f"{list(b.shape)} (mul(sparse, dense): the sparse operand is not broadcast here)"
        )
    scale = st.at(b.expand(shape), st.flat(a)._parts, shape)
    out: SparseTensor = _linear(lambda v: v * scale, 2)(a)
    return out


def _common(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """At the places that both have."""
    _expect_alike("mul", a, b)
    if a._parts.values.dim() != b._parts.values.dim():
        raise RuntimeError("[mul] expected operands with as many dense dimensions, got two numbers")
    x, y = st.coalesce(st.as_coo(a)), st.coalesce(st.as_coo(b))
    sizes = tuple(x.shape)[: x._parts.sparse_dim]
    left, right = st.keys(st.places(x._parts), sizes), st.keys(st.places(y._parts), sizes)
    at = weft.searchsorted(right, left).clamp(max=max(right.shape[0] - 1, 0))
    both = right[at] == left if right.shape[0] else weft.zeros_like(left, dtype=_C.bool)
    values = st.elements(x)[both] * st.elements(y)[at[both]]
    return st.like(a, st.coo(st.places(x._parts)[:, both], values, x.shape, True))


def _div(a: Any, b: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    if not isinstance(a, SparseTensor) or not _is_number(b):
        shape = list(b.shape) if isinstance(b, Tensor) else []
        raise RuntimeError(
            "[div] expected a sparse tensor and a number, got others (Sparse division requires a "
            f"scalar or zero-dim dense tensor divisor (got shape {shape} for divisor))"
        )
    f = _linear if rounding_mode is None else _pointwise
    return _written(out, f(lambda v: weft.div(v, b, rounding_mode=rounding_mode))(a))


def _linear(f: Callable[[Tensor], Tensor], one: int = 0) -> Callable[..., Any]:
    """Of a function that is linear: each value by itself, places as they are.

    A result of fewer places than `one` is coalesced.
    """

    def run(x: SparseTensor) -> SparseTensor:
        x = st.flat(x)
        values = f(st.elements(x))
        coalesced = x._parts.coalesced or values.shape[0] < one
        return st.build(x._parts._replace(coalesced=coalesced), values, x.shape)

    return run


def _pointwise(f: Callable[..., Tensor]) -> Callable[..., Any]:
    """Of a function that leaves 0 as it is."""

    def run(x: SparseTensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        x = st.coalesce(x)
        return _written(out, st.with_values(x, f(st.elements(x), *args, **kwargs)))

    return run


def _pow(x: Any, exponent: Any, *, out: Any = None) -> Any:
    if not isinstance(x, SparseTensor) or not _is_number(exponent) or not exponent > 0:
        raise NotImplementedError(
            f"[pow] expected a sparse tensor and an exponent above 0, got {exponent!r} (the others "
            "make 0 another number)"
        )
    return _pointwise(lambda v: v**exponent)(x, out=out)


# ---- places


def _transpose(x: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    order = list(range(x.dim()))
    a, b = _dim(dim0, x), _dim(dim1, x)
    order[a], order[b] = order[b], order[a]
    return _permute(x, order)


def _dim(dim: int, x: Tensor) -> int:
    n = max(x.dim(), 1)
    if not -n <= dim < n:
        raise IndexError(
            f"[sparse] expected a dim in [{-n}, {n - 1}], got {dim} (Dimension out of range "
            f"(expected to be in range of [{-n}, {n - 1}], but got {dim}))"
        )
    return dim % n


def _permute(x: SparseTensor, *dims: Any) -> SparseTensor:
    order = [_dim(d, x) for d in (dims[0] if len(dims) == 1 else dims)]
    if sorted(order) != list(range(x.dim())):
        raise RuntimeError(
            f"[permute] expected each dimension once, got {order} (permute(sparse_coo): number of "
            "dimensions in the tensor input does not match the length of the desired ordering)"
        )
    k = x._parts.sparse_dim
    if sorted(order[:k]) != list(range(k)):
        raise RuntimeError(
            f"[permute] expected sparse dimensions to stay before dense ones, got {order} "
            "(transpositions between sparse and dense dimensions are not allowed)"
        )
    if x._parts.layout in st.COMPRESSED and order[:2] == [1, 0] and order[2:] == sorted(order[2:]):
        return st.turned(x)
    y = st.as_coo(st.flat(x))
    values = st.elements(y).permute(0, *[d - k + 1 for d in order[k:]])
    shape = [x.shape[d] for d in order]
    kept = y._parts.coalesced and order[:k] == list(range(k))
    out = st.coo(st.places(y._parts)[weft.tensor(order[:k], dtype=_C.int64)], values, shape, kept)
    return st.like(x, out)


def _t(x: SparseTensor) -> SparseTensor:
    if x.dim() > 2:
        raise RuntimeError(
            f"[t] expected at most 2 dimensions (t() expects a tensor with <= 2 sparse and 0 dense "
            f"dimensions), got {x.dim()}"
        )
    return _transpose(x, 0, 1) if x.dim() == 2 else x


def _cat(tensors: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    if not all(isinstance(t, SparseTensor) for t in tensors):
        raise RuntimeError(
            "[cat] expected sparse tensors only, got a dense one (Concatenating sparse tensors, "
            "but a dense tensor was found)"
        )
    xs = [st.as_coo(st.flat(t)) for t in tensors]
    first, d = xs[0], _dim(dim, xs[0])
    for x in xs[1:]:
        rest = [[s for k, s in enumerate(t.shape) if k != d] for t in (first, x)]
        if rest[0] != rest[1] or x._parts.sparse_dim != first._parts.sparse_dim:
            raise RuntimeError(
                f"[cat] expected tensors that differ in dim {d} at most, got {list(first.shape)} "
                f"and {list(x.shape)} (All tensors must have the same shape)"
            )
    if d >= first._parts.sparse_dim:
        return _written(out, st.like(tensors[0], _cat_dense(xs, d)))
    shape, start, indices = list(first.shape), 0, []
    for x in xs:
        moved = st.places(x._parts).clone()
        moved[d] += start
        indices.append(moved)
        start += x.shape[d]
    shape[d] = start
    joined = st.coo(weft.cat(indices, 1), weft.cat([st.elements(x) for x in xs]), shape)
    return _written(out, st.like(tensors[0], joined))


def _cat_dense(xs: list[SparseTensor], d: int) -> SparseTensor:
    """Along a dense dimension: each one's rows are zero where the others' are."""
    at = d - xs[0]._parts.sparse_dim + 1
    total = sum(x.shape[d] for x in xs)
    rows, start = [], 0
    for x in xs:
        values = st.elements(x)
        before, after = list(values.shape), list(values.shape)
        before[at], after[at] = start, total - start - x.shape[d]
        rows.append(weft.cat([values.new_zeros(before), values, values.new_zeros(after)], at))
        start += x.shape[d]
    shape = list(xs[0].shape)
    shape[d] = total
    return st.coo(weft.cat([st.places(x._parts) for x in xs], 1), weft.cat(rows), shape)


def _stack(tensors: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    n = tensors[0].dim() + 1
    return _cat([_unsqueeze(t, dim % n if -n <= dim < n else dim) for t in tensors], dim, out=out)


def _unsqueeze(x: SparseTensor, dim: int) -> SparseTensor:
    n, k = x.dim() + 1, x._parts.sparse_dim
    if not -n <= dim < n:
        raise IndexError(f"[unsqueeze] expected a dim in [{-n}, {n - 1}], got {dim}")
    d = dim % n
    y = st.as_coo(st.flat(x))
    shape = [*x.shape[:d], 1, *x.shape[d:]]
    indices, values = st.places(y._parts), st.elements(y)
    if d > k:
        return st.coo(indices, values.unsqueeze(d - k + 1), shape, y._parts.coalesced)
    zeros = weft.zeros(1, indices.shape[1], dtype=_C.int64)
    return st.coo(weft.cat([indices[:d], zeros, indices[d:]]), values, shape)


def _index_select(x: SparseTensor, dim: int, index: Tensor, *, out: Any = None) -> SparseTensor:
    d, y = _dim(dim, x), st.as_coo(st.flat(x))
    size, k = x.shape[d], y._parts.sparse_dim
    index = index.reshape(-1).long()
    if index.numel() and not (-size <= int(index.min()) and int(index.max()) < size):
        raise IndexError(
            f"[index_select] expected indices below {size}, got {index.tolist()} (index_select(): "
            "index contains an out-of-bounds value for tensor of size "
            f"{list(x.shape)} at dimension {d})"
        )
    shape = list(x.shape)
    shape[d] = index.shape[0]
    indices, values = st.places(y._parts), st.elements(y)
    if d >= k:
        picked = st.coo(indices, values.index_select(d - k + 1, index), shape, y._parts.coalesced)
        return st.like(x, picked)
    # each wanted index with each element that has it, by the order of the elements along the dim
    order = weft.argsort(indices[d], stable=True)
    sorted_ = indices[d][order]
    wanted = index % max(size, 1)
    low = weft.searchsorted(sorted_, wanted)
    counts = weft.searchsorted(sorted_, wanted, right=True) - low
    new = weft.arange(index.shape[0]).repeat_interleave(counts)
    within = weft.arange(new.shape[0]) - (counts.cumsum(0) - counts)[new]
    source = order[low[new] + within]
    moved = indices[:, source].clone()
    moved[d] = new
    return st.like(x, st.coo(moved, values[source], shape, False))


def _select(x: SparseTensor, dim: int, index: int) -> Any:
    d = _dim(dim, x)
    size, k = x.shape[d], x._parts.sparse_dim
    if not -size <= index < size:
        raise IndexError(
            f"[select] expected an index in [{-size}, {size - 1}], got {index} (select(): index "
            f"{index} out of range for tensor of size {list(x.shape)} at dimension {d})"
        )
    y = st.as_coo(st.flat(x))
    shape = [*x.shape[:d], *x.shape[d + 1 :]]
    indices, values = st.places(y._parts), st.elements(y)
    if d >= k:
        return st.coo(indices, values.select(d - k + 1, index), shape, y._parts.coalesced)
    kept = indices[d] == index % size
    if k == 1:
        return values[kept].sum(0)
    rest = weft.cat([indices[:d], indices[d + 1 :]])
    return st.coo(rest[:, kept], values[kept], shape, y._parts.coalesced or None)


def _narrow(x: SparseTensor, dim: int, start: int, length: int) -> SparseTensor:
    d = _dim(dim, x)
    size, k = x.shape[d], x._parts.sparse_dim
    begin = start + size if start < 0 else start
    if length < 0 or begin < 0 or begin + length > size:
        raise RuntimeError(
            f"[narrow] expected a range within {size}, got start {start}, length {length} (start "
            f"({start}) + length ({length}) exceeds dimension size ({size}).)"
        )
    y = st.as_coo(st.flat(x))
    shape = list(x.shape)
    shape[d] = length
    indices, values = st.places(y._parts), st.elements(y)
    if d >= k:
        part = values.narrow(d - k + 1, begin, length)
        return st.like(x, st.coo(indices, part, shape, y._parts.coalesced))
    kept = (indices[d] >= begin) & (indices[d] < begin + length)
    moved = indices[:, kept].clone()
    moved[d] -= begin
    return st.like(x, st.coo(moved, values[kept], shape, y._parts.coalesced))


def _getitem(x: SparseTensor, key: Any) -> Any:
    """Ints along the first dimensions; slices and `...` are PyTorch's errors."""
    for k in key if isinstance(key, tuple) else (key,):
        if isinstance(k, bool) or not isinstance(k, int):
            raise NotImplementedError(
                f"[__getitem__] expected ints, got {k!r} (Could not run 'aten::as_strided' with "
                "arguments from the 'SparseCPU' backend.). Hint: index_select and narrow take "
                "sparse tensors"
            )
        x = _select(x, 0, k)
    return x


#: Functions of one element that leave 0 as it is.
_ZERO_KEPT = """abs angle asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isnan isinf
    log1p nan_to_num rad2deg relu round sgn sign sin sinh sqrt tan tanh trunc""".split()

TABLE: dict[str, Any] = {
    "add": _add,
    "sub": _sub,
    "__rsub__": lambda x, other: _sub(other, x),
    "mul": _mul,
    "div": _div,
    "neg": lambda x, out=None: _written(out, _scaled(x, -1)),
    "positive": lambda x: x,
    "pow": _pow,
    "square": _pointwise(weft.square),
    "conj": _linear(weft.conj),
    "add_": _add_to,
    "sub_": _sub_from,
    "mul_": _in_place(_mul),
    "div_": _in_place(_div),
    "neg_": _in_place(lambda x: _scaled(x, -1)),
    "pow_": _in_place(_pow),
    "transpose": _transpose,
    "swapaxes": _transpose,
    "permute": _permute,
    "t": _t,
    "T": _t,
    "mT": lambda x: _transpose(x, -2, -1),
    "cat": _cat,
    "stack": _stack,
    "unsqueeze": _unsqueeze,
    "index_select": _index_select,
    "select": _select,
    "narrow": _narrow,
    "narrow_copy": _narrow,
    "__getitem__": _getitem,
    **{name: _pointwise(getattr(weft, name)) for name in _ZERO_KEPT},
    **{name + "_": _in_place(_pointwise(getattr(weft, name))) for name in _ZERO_KEPT},
}
