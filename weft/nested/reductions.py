"""Rules of functions along dimensions: sums and the like, and those that keep the dimension.

Along a dense dimension they are the values' own. Along the ragged one each part is a call of its
own among the parts of one (`over_parts`); over the batch and the ragged one, all rows are one part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import weft
import weft.nested.parts as ps
from weft import Tensor
from weft.nested.shapes import dim_of
from weft.nested.tensor import NestedTensor, alias, like, raw

__all__ = ["TABLE"]


class Reduction(NamedTuple):
    """A function that takes dimensions away."""

    op: str | None  # the record that runs by parts; None: a call for each part
    several: bool = True  # whether it takes several dims


_REDUCTIONS = {
    "sum": Reduction("sum.dim"),
    "nansum": Reduction(None),
    "mean": Reduction("mean.dim"),
    "prod": Reduction("prod.dim", False),
    "amax": Reduction("amax"),
    "amin": Reduction("amin"),
    "max": Reduction("max.dim", False),
    "min": Reduction("min.dim", False),
    "argmax": Reduction("argmax", False),
    "argmin": Reduction("argmin", False),
    "any": Reduction("any.dim", False),
    "all": Reduction("all.dim", False),
    "logsumexp": Reduction(None),
    "var": Reduction(None),
    "std": Reduction(None),
    "norm": Reduction(None),
    "vector_norm": Reduction(None),
    "median": Reduction(None, False),
    "nanmedian": Reduction(None, False),
    "count_nonzero": Reduction(None),
}


def _over_all(func: Callable[..., Any], x: NestedTensor, keepdim: bool, **more: Any) -> Any:
    """Over all elements."""
    values = alias(ps.whole(x))
    out = func(values, **more)
    return out.view((1,) * x.dim()) if keepdim else out


def _split_dims(name: str, x: NestedTensor, dim: Any) -> tuple[list[int], bool, bool]:
    """The dims that are dense, whether the ragged one is among them, and whether the first is."""
    given = [dim] if isinstance(dim, int) else list(dim)
    dims = [dim_of(name, x, d) for d in given]
    r = x._ragged_idx
    return sorted(d for d in dims if d not in (0, r)), r in dims, 0 in dims


def _reduce(name: str, how: Reduction) -> Callable[..., Any]:
    def run(
        func: Callable[..., Any], x: NestedTensor, dim: Any = None, keepdim: bool = False,
        *, axis: Any = None, **more: Any,
    ) -> Any:  # fmt: skip
        dim = axis if dim is None else dim
        if isinstance(dim, NestedTensor):  # max(a, b)
            from weft.nested.pointwise import elementwise

            return elementwise(func, x, dim)
        if dim is None or (not isinstance(dim, int) and len(dim) == 0):
            return _over_all(func, x, keepdim, **more)
        dense, ragged, batch = _split_dims(name, x, dim)
        if batch and not ragged:
            raise RuntimeError(
                f"[{name}] expected the ragged dim beside the first, got {dim} ({name}(): reducing "
                "along the batch dimension but not the ragged dimension is not supported for "
                "nested tensors)"
            )
        if not how.several and len(dense) + ragged + batch > 1 and not batch:
            raise TypeError(f"[{name}] expected one dim, got {dim}")
        if not ragged:
            return _over_dense(func, x, dense, keepdim, isinstance(dim, int), more)
        if batch:
            return _over_rows(func, x, dense, keepdim, how, more)
        return _over_ragged(name, func, x, dense, keepdim, how, more)

    return run


def _over_dense(
    func: Any, x: NestedTensor, dense: list[int], keepdim: bool, one: bool, more: Any
) -> Any:
    dims = [d - 1 for d in dense]
    out = raw(lambda: func(x, dim=dims[0] if one else dims, keepdim=keepdim, **more))
    gone = 0 if keepdim else sum(d < x._ragged_idx for d in dense)
    return ps.mapped(out, lambda t: like(x, t, x._ragged_idx - gone))


def _over_rows(
    func: Any, x: NestedTensor, dense: list[int], keepdim: bool, how: Reduction, more: Any
) -> Any:
    """Over the batch and the ragged dim, which are one dim of the values."""
    values = alias(ps.whole(x))
    dims: Any = [x._ragged_idx - 1, *[d - 1 for d in dense]]
    out = func(values, dim=dims if how.several else dims[0], keepdim=keepdim, **more)
    return ps.mapped(out, lambda t: t.unsqueeze(0)) if keepdim else out


def _over_ragged(
    name: str, func: Any, x: NestedTensor, dense: list[int], keepdim: bool, how: Reduction,
    more: Any,
) -> Any:  # fmt: skip
    """Each part by itself: `(batch, ...)` without the ragged dim."""
    x = ps.whole(x)
    rows, r = ps.rows(x), x._ragged_idx
    # rows have the ragged dim before those that it stood behind
    dims = [0, *[d if d < r else d - 1 for d in dense]]
    rest = [n for d, n in enumerate(rows.shape) if d not in dims]
    dim: Any = dims if how.several else dims[0]
    if how.op is None:
        results = [func(t, dim=dim, **more) for t in rows.split(x._jagged.counts)]
        out: Any = _stacked(results)
    else:
        shapes = [ps.sizes(x._jagged, tuple(rows.shape[1:]))]
        found = ps.over_parts(how.op, shapes, rows, dim, **more)
        made = [t.view(x._jagged.parts, *rest) for t in found]
        out = made[0] if len(made) == 1 else getattr(weft.return_types, name)(made)
    if not keepdim:
        return out

    def kept(t: Tensor) -> Tensor:
        for d in sorted([r, *dense]):
            t = t.unsqueeze(d)
        return t

    return ps.mapped(out, kept)


def _stacked(results: list[Any]) -> Any:
    if isinstance(results[0], Tensor):
        return weft.stack(results)
    kind = type(results[0])
    return kind([weft.stack(of) for of in zip(*results, strict=True)])


# ---- what keeps the dimension


class Along(NamedTuple):
    """A function along one dimension, which stays."""

    op: str | None
    before: int = 0  # how many arguments stand before the dim
    default: int | None = None
    keeps_size: bool = True


_ALONG = {
    "softmax": Along("softmax"),
    "log_softmax": Along("log_softmax"),
    "softmin": Along(None),
    "cumsum": Along("cumsum"),
    "cumprod": Along("cumprod"),
    "logcumsumexp": Along("logcumsumexp"),
    "cummax": Along(None),
    "cummin": Along(None),
    "flip": Along(None),
    "sort": Along(None, 0, -1),
    "argsort": Along(None, 0, -1),
    "normalize": Along(None, 1, 1),
    "glu": Along(None, 0, -1, False),
    "topk": Along(None, 1, -1, False),
    "roll": Along(None, 1),
    "diff": Along(None, 1, -1, False),
}


def _along(name: str, how: Along) -> Callable[..., Any]:
    def run(func: Callable[..., Any], x: NestedTensor, *args: Any, **kwargs: Any) -> Any:
        key = next((k for k in ("dim", "dims", "axis") if k in kwargs), None)
        given = list(args)
        if key is not None:
            dim = kwargs.pop(key)
        elif len(given) > how.before:
            dim = given.pop(how.before)
        else:
            dim = how.default
        if isinstance(dim, (tuple, list)) and len(dim) == 1:
            dim = dim[0]
        if not isinstance(dim, int):
            raise RuntimeError(
                f"[{name}] expected one dim, got {dim!r} ({name}(): not supported for dimensions "
                f"of type '{type(dim).__name__}' for NestedTensor)"
            )
        d, kwargs_ = dim_of(name, x, dim), {k: v for k, v in kwargs.items() if k != "_stacklevel"}
        if d == 0:
            raise RuntimeError(
                f"[{name}] expected a dim of the parts, got {dim} ({name}(): not supported when "
                "reducing across the batch dimension for NestedTensor)"
            )
        word = "dims" if name in ("flip", "roll") else "dim"

        def one(t: Tensor, at: int) -> Any:
            return func(t, *given, **{word: at}, **kwargs_)

        if d != x._ragged_idx:
            out = raw(lambda: one(x, d - 1))
            return ps.mapped(out, lambda t: like(x, t))
        return _along_ragged(name, how, x, one, kwargs_)

    return run


def _along_ragged(
    name: str, how: Along, x: NestedTensor, one: Callable[..., Any], more: dict[str, Any]
) -> Any:
    x = ps.whole(x)
    rows = ps.rows(x)
    if how.op is not None:
        shapes = [ps.sizes(x._jagged, tuple(rows.shape[1:]))]
        found = ps.over_parts(how.op, shapes, rows, 0, **more)
        return ps.from_rows(x, found[0].view(rows.shape))
    results = [one(t, 0) for t in rows.split(x._jagged.counts)]
    if isinstance(results[0], Tensor):
        return _together(x, results, how)
    kind = type(results[0])
    return kind([_together(x, list(of), how) for of in zip(*results, strict=True)])


def _together(x: NestedTensor, results: list[Tensor], how: Along) -> NestedTensor:
    """The results of all parts, rows first: of the lengths of `x`, or of others."""
    if how.keeps_size:
        return ps.from_rows(x, weft.cat(results))
    moved = [t.movedim(0, x._ragged_idx - 1) for t in results]
    return ps.joined(moved, x._ragged_idx, x._is_strided)


TABLE: dict[str, Callable[..., Any]] = {
    **{name: _reduce(name, how) for name, how in _REDUCTIONS.items()},
    **{name: _along(name, how) for name, how in _ALONG.items()},
}
