"""Reductions, order, running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft.onnx.builder import Builder
from weft.onnx.errors import NotOnnx
from weft.onnx.forms_shape import listed
from weft.onnx.graph import Value
from weft.onnx.records import apply, form, needs, records


def _dims(dim: Any) -> list[int] | None:
    return None if dim is None else needs(listed(dim), "dim")


def _truth(g: Builder, x: Value, dim: Any, keepdim: Any, name: str) -> Value:
    number = g.cast(g.truth(x), weft.int32)
    return g.truth(g.reduce(name, number, _dims(dim), needs(keepdim, "keepdim")))


@form("all", "all.dim")
def _all(g: Builder, self: Value, dim: Any = None, keepdim: Any = False) -> Value:
    return _truth(g, self, dim, keepdim, "ReduceMin" if _full(self) else "ReduceProd")


@form("any", "any.dim")
def _any(g: Builder, self: Value, dim: Any = None, keepdim: Any = False) -> Value:
    return _truth(g, self, dim, keepdim, "ReduceMax" if _full(self) else "ReduceSum")


def _full(x: Value) -> bool:
    """Surely not empty: ReduceMin and ReduceMax of nothing have no right value."""
    return x.sizes is not None and None not in x.sizes and 0 not in x.sizes


@form("nansum")
def _nansum(g: Builder, self: Value, dim: Any, keepdim: Any, dtype: Any) -> Value:
    if self.dtype.is_floating_point:
        self = g.op("Where", g.op("IsNaN", self), 0, self)
    return g.reduce(
        "ReduceSum", g.cast(self, g.result.dtype), _dims(dim), needs(keepdim, "keepdim")
    )


# ---- extremes


def extreme(g: Builder, x: Value, name: str, dims: Any, keepdim: bool) -> Value:
    """ReduceMax or ReduceMin; NaN where one of the elements is."""
    if x.dtype == weft.bool:
        return g.truth(g.reduce(name, g.cast(x, weft.int32), dims, keepdim))
    out = g.reduce(name, x, dims, keepdim)
    if not x.dtype.is_floating_point or not x.rank:
        return out
    nan = g.cast(g.op("IsNaN", x), weft.int32)
    return g.op("Where", g.truth(g.reduce("ReduceMax", nan, dims, keepdim)), math.nan, out)


def place_of_extreme(
    g: Builder, x: Value, name: str, dim: int, keepdim: bool, last_nan: bool = False
) -> Value:
    """ArgMax or ArgMin over a dimension; the place of the first or last NaN where there is one."""
    if x.dtype == weft.bool:
        x = g.cast(x, weft.int32)
    axis, keep = dim % x.rank, int(keepdim)
    out = g.op(name, x, axis=axis, keepdims=keep)
    if not x.dtype.is_floating_point:
        return out
    nan = g.cast(g.op("IsNaN", x), weft.int32)
    some = g.truth(g.op("ReduceMax", nan, g.ints([axis]), keepdims=keep))
    last = 1 if last_nan else None
    first = g.op("ArgMax", nan, axis=axis, keepdims=keep, select_last_index=last)
    return g.op("Where", some, first, out)


def _indexed(g: Builder, x: Value, name: str, dim: Any, keepdim: bool) -> Value:
    if dim is None:
        flat = place_of_extreme(g, g.reshape(x, [-1]), name, 0, False)
        return g.op("Reshape", flat, g.ints([1] * len(g.result.sizes or ()))) if keepdim else flat
    if not x.rank:
        return g.const(0, weft.int64)
    return place_of_extreme(g, x, name, needs(dim, "dim"), keepdim)


def _pair(
    g: Builder, x: Value, dim: Any, keepdim: Any, reduce: str, arg: str
) -> tuple[Value, Value]:
    keepdim = needs(keepdim, "keepdim")
    values = extreme(g, x, reduce, [needs(dim, "dim")], keepdim)
    at = _indexed(g, x, arg, dim, keepdim)
    return values, g.op("Identity", at) if at.known is not None else at


@form("max")
def _max(g: Builder, self: Value) -> Value:
    return extreme(g, self, "ReduceMax", None, False)


@form("min")
def _min(g: Builder, self: Value) -> Value:
    return extreme(g, self, "ReduceMin", None, False)


@form("max.other")
def _max_other(g: Builder, self: Value, other: Value) -> Value:
    into = g.result.dtype
    return _other(g, "maximum", self, other, into)


@form("min.other")
def _min_other(g: Builder, self: Value, other: Value) -> Value:
    return _other(g, "minimum", self, other, g.result.dtype)


def _other(g: Builder, name: str, a: Value, b: Value, into: Any) -> Value:
    out: Value = apply(g, records()[name], {"self": g.cast(a, into), "other": g.cast(b, into)})
    return out


@form("max.dim")
def _max_dim(g: Builder, self: Value, dim: Any, keepdim: Any) -> tuple[Value, Value]:
    return _pair(g, self, dim, keepdim, "ReduceMax", "ArgMax")


@form("min.dim")
def _min_dim(g: Builder, self: Value, dim: Any, keepdim: Any) -> tuple[Value, Value]:
    return _pair(g, self, dim, keepdim, "ReduceMin", "ArgMin")


@form("amax")
def _amax(g: Builder, self: Value, dim: Any, keepdim: Any) -> Value:
    return extreme(g, self, "ReduceMax", _dims(dim), needs(keepdim, "keepdim"))


@form("amin")
def _amin(g: Builder, self: Value, dim: Any, keepdim: Any) -> Value:
    return extreme(g, self, "ReduceMin", _dims(dim), needs(keepdim, "keepdim"))


@form("_extremes")
def _extremes(g: Builder, self: Value, dim: Any, keepdim: Any) -> tuple[Value, Value]:
    return _amin(g, self, dim, keepdim), _amax(g, self, dim, keepdim)


@form("argmax")
def _argmax(g: Builder, self: Value, dim: Any, keepdim: Any) -> Value:
    return _indexed(g, self, "ArgMax", dim, needs(keepdim, "keepdim"))


@form("argmin")
def _argmin(g: Builder, self: Value, dim: Any, keepdim: Any) -> Value:
    return _indexed(g, self, "ArgMin", dim, needs(keepdim, "keepdim"))


# ---- order


def _top(g: Builder, x: Value, k: Any, dim: Any, largest: bool) -> tuple[Value, Value]:
    if not x.rank:
        return g.op("Identity", x), g.op("Identity", g.const(0, weft.int64))
    plain = g.cast(x, weft.int32) if x.dtype == weft.bool else x
    axis = needs(dim, "dim") % x.rank
    out = g.several("TopK", plain, g.ints(k), axis=axis, largest=int(largest), sorted=1, outputs=2)
    return g.cast(out[0], x.dtype), Value(g.model, out[1].name, weft.int64)


@form("topk")
def _topk(
    g: Builder, self: Value, k: Any, dim: Any, largest: Any, sorted: Any
) -> tuple[Value, Value]:
    return _top(g, self, k, dim, needs(largest, "largest"))


@form("sort")
def _sort(g: Builder, self: Value, dim: Any, descending: Any, stable: Any) -> tuple[Value, Value]:
    n = g.size(self, needs(dim, "dim")) if self.rank else 1
    return _top(g, self, n, dim, needs(descending, "descending"))


@form("argsort")
def _argsort(g: Builder, self: Value, dim: Any, descending: Any, stable: Any) -> Value:
    n = g.size(self, needs(dim, "dim")) if self.rank else 1
    return _top(g, self, n, dim, needs(descending, "descending"))[1]


def _kth(g: Builder, x: Value, k: Any, dim: Any, keepdim: bool) -> tuple[Value, Value]:
    if not x.rank:
        return _top(g, x, 1, 0, False)
    axis = needs(dim, "dim") % x.rank
    n = g.size(x, axis)
    values, places = _top(g, x, n, axis, False)
    at = g.ints(k - 1 if isinstance(k, int) else k - 1)
    picked = [g.op("Gather", v, at, axis=axis) for v in (values, places)]
    if not keepdim:
        picked = [g.op("Squeeze", v, g.ints(axis)) for v in picked]
    return picked[0], picked[1]


@form("kthvalue")
def _kthvalue(g: Builder, self: Value, k: Any, dim: Any, keepdim: Any) -> tuple[Value, Value]:
    return _kth(g, self, k, dim, needs(keepdim, "keepdim"))


def _middle(g: Builder, x: Value, axis: int) -> Any:
    n = g.size(x, axis) if x.rank else 1
    return (n + 1) // 2


@form("median.dim")
def _median_dim(g: Builder, self: Value, dim: Any, keepdim: Any) -> tuple[Value, Value]:
    dim, keepdim = needs(dim, "dim"), needs(keepdim, "keepdim")
    values, places = _kth(g, self, _middle(g, self, dim), dim, keepdim)
    if not self.dtype.is_floating_point:
        return values, places
    # a NaN is the median, and its place the first such place
    nan = g.op("IsNaN", self)
    if not self.rank:
        return values, places
    number = g.cast(nan, weft.int32)
    axis = dim % self.rank
    some = g.truth(g.op("ReduceMax", number, g.ints(axis), keepdims=int(keepdim)))
    first = g.op("ArgMax", number, axis=axis, keepdims=int(keepdim))
    return g.op("Where", some, math.nan, values), g.op("Where", some, first, places)


@form("median")
def _median(g: Builder, self: Value) -> Value:
    flat = g.reshape(self, [g.numel(self)])
    if flat.sizes == (0,):
        if not self.dtype.is_floating_point:
            raise NotOnnx(f"the median of no elements of {self.dtype}")
        return g.op("Identity", g.const(math.nan, self.dtype))
    return _median_dim(g, flat, 0, False)[0]


@form("_nanmedian")
def _nanmedian(g: Builder, self: Value) -> Value:
    flat = g.reshape(self, [g.numel(self)])
    if flat.sizes == (0,) or not self.dtype.is_floating_point:
        return _median(g, self)
    nan = g.op("IsNaN", flat)
    values, _ = _top(g, g.op("Where", nan, math.inf, flat), g.size(flat, 0), 0, False)
    one = g.const(1, weft.int64)
    missing = g.op("ReduceSum", g.cast(nan, weft.int64), g.ints(0), keepdims=0)
    last = g.op("Sub", g.op("Sub", g.op("Size", flat), missing), one)
    at = g.op("Div", g.op("Max", last, g.const(0, weft.int64)), g.const(2, weft.int64))
    none = g.op("Equal", last, g.const(-1, weft.int64))
    return g.op("Where", none, math.nan, g.op("Gather", values, at, axis=0))


# ---- moments


def moments(g: Builder, x: Value, dim: Any, correction: Any, keepdim: Any) -> tuple[Value, Value]:
    """The variance and the mean over some dimensions, divided by n - correction."""
    dims, keepdim = _dims(dim), needs(keepdim, "keepdim")
    dims = None if not dims else [d % max(x.rank, 1) for d in dims]
    correction = 1 if correction is None else needs(correction, "correction")
    mean = g.reduce("ReduceMean", x, dims, True)
    square = g.reduce("ReduceSum", (x - mean) * (x - mean), dims, keepdim)
    n: Any = 1
    for d in dims if dims is not None and x.rank else range(x.rank):
        n = g.size(x, d) * n
    if isinstance(n, int):
        rest: Any = max(n - correction, 0)
    else:
        rest = g.op("Max", g.cast(n, x.dtype) - correction, 0)
    return square / rest, mean if keepdim else g.reduce("ReduceMean", x, dims, False)


def _correction(unbiased: Any) -> int:
    return int(needs(unbiased, "unbiased"))


@form("var")
def _var(g: Builder, self: Value, dim: Any, correction: Any, keepdim: Any) -> Value:
    return moments(g, self, dim, correction, keepdim)[0]


@form("var.unbiased")
def _var_unbiased(g: Builder, self: Value, unbiased: Any) -> Value:
    return moments(g, self, None, _correction(unbiased), False)[0]


@form("var.dim")
def _var_dim(g: Builder, self: Value, dim: Any, unbiased: Any, keepdim: Any) -> Value:
    return moments(g, self, dim, _correction(unbiased), keepdim)[0]


@form("std")
def _std(g: Builder, self: Value, dim: Any, correction: Any, keepdim: Any) -> Value:
    return g.op("Sqrt", _var(g, self, dim, correction, keepdim))


@form("std.unbiased")
def _std_unbiased(g: Builder, self: Value, unbiased: Any) -> Value:
    return g.op("Sqrt", _var_unbiased(g, self, unbiased))


@form("std.dim")
def _std_dim(g: Builder, self: Value, dim: Any, unbiased: Any, keepdim: Any) -> Value:
    return g.op("Sqrt", _var_dim(g, self, dim, unbiased, keepdim))


@form("var_mean", "_var_mean")
def _var_mean(
    g: Builder, self: Value, dim: Any, correction: Any, keepdim: Any
) -> tuple[Value, Value]:
    return moments(g, self, dim, correction, keepdim)


@form("var_mean.unbiased")
def _var_mean_unbiased(g: Builder, self: Value, unbiased: Any) -> tuple[Value, Value]:
    return moments(g, self, None, _correction(unbiased), False)


@form("var_mean.dim")
def _var_mean_dim(
    g: Builder, self: Value, dim: Any, unbiased: Any, keepdim: Any
) -> tuple[Value, Value]:
    return moments(g, self, dim, _correction(unbiased), keepdim)


@form("std_mean", "_std_mean")
def _std_mean(
    g: Builder, self: Value, dim: Any, correction: Any, keepdim: Any
) -> tuple[Value, Value]:
    variance, mean = moments(g, self, dim, correction, keepdim)
    return g.op("Sqrt", variance), mean


@form("std_mean.unbiased")
def _std_mean_unbiased(g: Builder, self: Value, unbiased: Any) -> tuple[Value, Value]:
    return _std_mean(g, self, None, _correction(unbiased), False)


@form("std_mean.dim")
def _std_mean_dim(
    g: Builder, self: Value, dim: Any, unbiased: Any, keepdim: Any
) -> tuple[Value, Value]:
    return _std_mean(g, self, dim, _correction(unbiased), keepdim)


# ---- norms


def _norm_of(g: Builder, x: Value, p: float, dims: Sequence[int] | None, keepdim: bool) -> Value:
    x = g.cast(x, g.result.dtype if g.results else x.dtype)
    size = g.op("Abs", x)
    if p == math.inf:
        return extreme(g, size, "ReduceMax", dims, keepdim)
    if p == -math.inf:
        return extreme(g, size, "ReduceMin", dims, keepdim)
    if p == 0:
        return g.reduce("ReduceSum", g.cast(g.truth(x), x.dtype), dims, keepdim)
    if p == 1:
        return g.reduce("ReduceSum", size, dims, keepdim)
    if p == 2:
        return g.op("Sqrt", g.reduce("ReduceSum", x * x, dims, keepdim))
    total = g.reduce("ReduceSum", g.op("Pow", size, float(p)), dims, keepdim)
    return g.op("Pow", total, 1.0 / p)


@form("linalg_vector_norm")
def _vector_norm(g: Builder, self: Value, ord: Any, dim: Any, keepdim: Any, dtype: Any) -> Value:
    return _norm_of(g, self, needs(ord, "ord"), _dims(dim), needs(keepdim, "keepdim"))


@form("norm")
def _norm(g: Builder, self: Value, p: Any, dim: Any, keepdim: Any, dtype: Any) -> Value:
    p = 2 if p is None else needs(p, "p")
    return _norm_of(g, self, p, _dims(dim), needs(keepdim, "keepdim"))


@form("norm.text")
def _norm_text(g: Builder, self: Value, p: str, dim: Any, keepdim: Any, dtype: Any) -> Value:
    if p != "fro":
        raise NotOnnx(f"a norm {p!r}, which needs singular values")
    return _norm_of(g, self, 2, _dims(dim), needs(keepdim, "keepdim"))


@form("logsumexp")
def _logsumexp(g: Builder, self: Value, dim: Any, keepdim: Any) -> Value:
    dims, keepdim = _dims(dim), needs(keepdim, "keepdim")
    self = g.cast(self, g.result.dtype)
    if self.sizes is not None and 0 in self.sizes:
        return g.op("Log", g.reduce("ReduceSum", g.op("Exp", self), dims, keepdim))
    high = g.reduce("ReduceMax", self, dims, True)
    high = g.op("Where", g.op("IsInf", high), 0, high)
    total = g.op("Log", g.reduce("ReduceSum", g.op("Exp", self - high), dims, keepdim))
    if not keepdim and self.rank:
        all_dims = [d % self.rank for d in dims] if dims else list(range(self.rank))
        high = g.squeeze(high, all_dims)
    return total + high


@form("_pair_distances")
def _pair_distances(g: Builder, a: Value, b: Value, p: Any) -> Value:
    gap = g.unsqueeze(a, [a.rank - 1]) - g.unsqueeze(b, [b.rank - 2])
    if p == math.inf and (gap.sizes or (0,))[-1] == 0:
        return g.reduce("ReduceSum", gap, [-1], False)
    return _norm_of(g, gap, needs(p, "p"), [-1], False)


# ---- running


def _running(g: Builder, x: Value, dim: int) -> tuple[Value, Value, Value]:
    """`x` [..., 1, n], the mask of what has come by then [n, n], and `dim` moved last."""
    moved = g.swap(x, dim, x.rank - 1) if x.rank else g.reshape(x, [1])
    n = g.size(moved, moved.rank - 1)
    i = g.arange(n)
    reached = i <= g.unsqueeze(i, [1])
    return g.unsqueeze(moved, [moved.rank - 1]), reached, moved


def _turned(g: Builder, out: Value, x: Value, dim: int) -> Value:
    if not x.rank:
        return g.reshape(out, [])
    perm = list(range(x.rank))
    perm[dim], perm[-1] = perm[-1], perm[dim]
    return g.op("Transpose", out, perm=perm)


@form("cumsum")
def _cumsum(g: Builder, self: Value, dim: Any, dtype: Any) -> Value:
    return _summed(g, g.cast(self, g.result.dtype), dim, None)


@form("_sum_of_rest")
def _sum_of_rest(g: Builder, self: Value, dim: Any) -> Value:
    return _summed(g, self, dim, 1)


def _summed(g: Builder, x: Value, dim: Any, reverse: int | None) -> Value:
    if not x.rank:
        return g.op("Identity", x)
    return g.op("CumSum", x, g.const(needs(dim, "dim") % x.rank, weft.int64), reverse=reverse)


@form("cumprod")
def _cumprod(g: Builder, self: Value, dim: Any, dtype: Any) -> Value:
    self = g.cast(self, g.result.dtype)
    dim = needs(dim, "dim") % max(self.rank, 1)
    row, reached, _ = _running(g, self, dim)
    out = g.op("ReduceProd", g.op("Where", reached, row, 1), g.ints([-1]), keepdims=0)
    return _turned(g, out, self, dim)


@form("logcumsumexp")
def _logcumsumexp(g: Builder, self: Value, dim: Any) -> Value:
    dim = needs(dim, "dim") % max(self.rank, 1)
    row, reached, _ = _running(g, self, dim)
    parts = g.op("Where", reached, row, -math.inf)
    high = g.op("ReduceMax", parts, g.ints([-1]), keepdims=1)
    high = g.op("Where", g.op("IsInf", high), 0, high)
    total = g.op("ReduceSum", g.op("Exp", parts - high), g.ints([-1]), keepdims=0)
    out = g.op("Log", total) + g.op("Squeeze", high, g.ints([-1]))
    return _turned(g, out, self, dim)


def _running_extreme(g: Builder, x: Value, dim: Any, largest: bool) -> tuple[Value, Value]:
    """The last of equal extremes: so the places are looked at from the end."""
    dim = needs(dim, "dim") % max(x.rank, 1)
    wide = x if x.dtype.is_floating_point else g.cast(x, weft.int64)
    row, reached, _ = _running(g, wide, dim)
    limits = weft.iinfo(weft.int64)
    ends = (-math.inf, math.inf) if wide.dtype.is_floating_point else (limits.min, limits.max)
    parts = g.op("Where", reached, row, ends[0] if largest else ends[1])
    values = extreme(g, parts, "ReduceMax" if largest else "ReduceMin", [-1], True)
    same = g.op("Equal", row, values)
    if wide.dtype.is_floating_point:
        same = g.op("Or", same, g.op("And", g.op("IsNaN", row), g.op("IsNaN", values)))
    found = g.cast(g.op("And", reached, same), weft.int32)
    at = g.op("ArgMax", found, axis=-1, keepdims=0, select_last_index=1)
    values = g.cast(g.op("Squeeze", values, g.ints([-1])), x.dtype)
    return _turned(g, values, x, dim), _turned(g, at, x, dim)


@form("cummax")
def _cummax(g: Builder, self: Value, dim: Any) -> tuple[Value, Value]:
    return _running_extreme(g, self, dim, True)


@form("cummin")
def _cummin(g: Builder, self: Value, dim: Any) -> tuple[Value, Value]:
    return _running_extreme(g, self, dim, False)
