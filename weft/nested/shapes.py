"""Rules of functions that give the dense dimensions another order, number or size."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import weft
import weft.nested.parts as ps
from weft import _C, Tensor
from weft.nested.sizes import NestedInt
from weft.nested.tensor import Jagged, NestedTensor, like, nested, raw

__all__ = ["TABLE", "dim_of", "inner", "selected", "unsqueezed"]


def dim_of(name: str, x: NestedTensor, dim: int, more: int = 0) -> int:
    """A dim of `x`, counted from the first. Raises IndexError."""
    n = raw(lambda: x.dim()) + 1 + more
    if not -n <= dim < n:
        raise IndexError(
            f"[{name}] expected a dim in [{-n}, {n - 1}], got {dim} (Dimension out of range "
            f"(expected to be in range of [{-n}, {n - 1}], but got {dim}))"
        )
    return dim % n


def inner(name: str, x: NestedTensor, dim: int) -> int:
    """The dim of the values for a dense dim of `x`. Raises RuntimeError for the other two."""
    d = dim_of(name, x, dim)
    if d == 0 or d == x._ragged_idx:
        what = "dim=0" if d == 0 else "ragged dim"
        raise RuntimeError(
            f"[{name}] expected a dense dimension, got {dim} ({name}(): not supported for "
            f"NestedTensor on {what})"
        )
    return d - 1


# ---- order


def _permuted(x: NestedTensor, order: Sequence[int]) -> NestedTensor:
    moved = [d - 1 for d in order[1:]]
    return like(x, raw(lambda: x.permute(moved)), list(order).index(x._ragged_idx))


def _transpose(func: Any, x: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    a, b = dim_of("transpose", x, dim0), dim_of("transpose", x, dim1)
    if a == b:
        return like(x, raw(lambda: x.view_as(x)))
    if 0 in (a, b):
        raise ValueError(
            f"[transpose] expected dims after the first, got {dim0} and {dim1} (Transpose is not "
            "supported on the batch dimension for jagged NT)"
        )
    ragged = {a: b, b: a}.get(x._ragged_idx, x._ragged_idx)
    return like(x, raw(lambda: x.transpose(a - 1, b - 1)), ragged)


def _permute(func: Any, x: NestedTensor, *dims: Any) -> NestedTensor:
    given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [dim_of("permute", x, d) for d in given]
    if sorted(order) != list(range(x.dim())):
        raise ValueError(
            f"[permute] expected each of {x.dim()} dims once, got {list(given)} (permute(): number "
            f"of dimensions in the tensor input ({x.dim()}) does not match the length of the "
            f"desired ordering of dimensions ({len(order)}).)"
        )
    if order[0] != 0:
        raise ValueError(
            f"[permute] expected the first dim first, got {list(given)} (Permute is not supported "
            "on the batch dimension for jagged NT)"
        )
    return _permuted(x, order)


def _matrix_transpose(func: Any, x: NestedTensor) -> NestedTensor:
    return _transpose(func, x, -2, -1)


# ---- sizes


def _is_ragged(size: Any, x: NestedTensor) -> bool:
    return isinstance(size, NestedInt) and size == x._jagged.size


def _view(func: Any, x: NestedTensor, *shape: Any) -> NestedTensor:
    sizes = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
    if len(sizes) == 1 and isinstance(sizes[0], _C.dtype):
        return like(x, raw(lambda: x.view(sizes[0])))
    r, have = x._ragged_idx, raw(lambda: tuple(x.shape))
    before = (x._jagged.parts, *have[: r - 1])
    fits = (
        len(sizes) > r
        and all(s in (-1, b) for s, b in zip(sizes[:r], before, strict=True))
        and (sizes[r] == -1 or _is_ragged(sizes[r], x))
    )
    if not fits:
        from weft.nested.asked import sizes_of

        raise RuntimeError(
            f"[view] expected sizes that keep {before} and the ragged dimension, got {sizes} "
            f"(view(): cannot view shape {sizes_of(x)} as {sizes})"
        )
    after = _dense_sizes(sizes[r + 1 :], have[r:])
    wanted = (*have[:r], *after)
    if func.__name__ in ("reshape", "_reshape_alias"):
        return like(x, raw(lambda: x.reshape(wanted)))
    return like(x, raw(lambda: x.view(wanted)))


def _dense_sizes(sizes: list[int], have: tuple[int, ...]) -> list[int]:
    """With the size for a -1, by those that are there."""
    if -1 not in sizes:
        return sizes
    total, known = 1, 1
    for size in have:
        total *= size
    for size in sizes:
        known *= 1 if size == -1 else size
    return [total // max(known, 1) if s == -1 else s for s in sizes]


def _unflatten(func: Any, x: NestedTensor, dim: int, sizes: Any) -> NestedTensor:
    d = inner("unflatten", x, dim)
    ragged = x._ragged_idx + (len(sizes) - 1 if d < x._ragged_idx - 1 else 0)
    return like(x, raw(lambda: x.unflatten(d, tuple(sizes))), ragged)


def _flatten(func: Any, x: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    a, b = inner("flatten", x, start_dim), inner("flatten", x, end_dim)
    r = x._ragged_idx - 1
    if a < r < b:
        raise RuntimeError(
            "[flatten] expected dense dimensions, got the ragged one among them (flatten(): not "
            "supported for NestedTensor on ragged dim)"
        )
    if a == b:
        return x
    return like(x, raw(lambda: x.flatten(a, b)), x._ragged_idx - (b - a if b < r else 0))


def unsqueezed(x: NestedTensor, dim: int) -> NestedTensor:
    """With a dim of size 1 more."""
    d = dim_of("unsqueeze", x, dim, 1)
    if d == 0:
        raise RuntimeError(
            "[unsqueeze] expected a dim after the first, got 0 (unsqueeze(): not supported for "
            "NestedTensor on dim=0)"
        )
    return like(x, raw(lambda: x.unsqueeze(d - 1)), x._ragged_idx + (d <= x._ragged_idx))


def _squeeze(func: Any, x: NestedTensor, dim: Any = None) -> NestedTensor:
    if dim is None:
        raise NotImplementedError("[squeeze] expected a dim for a nested tensor, got none")
    d = inner("squeeze", x, dim)
    out = raw(lambda: x.squeeze(d))
    return like(x, out, x._ragged_idx - (d < x._ragged_idx - 1 and out.dim() < x.dim() - 1))


def selected(x: NestedTensor, dim: int, index: int) -> Any:
    """One index of a dense dimension, or one part."""
    if dim_of("select", x, dim) == 0:
        from weft.nested.asked import _of_part

        return _of_part(x, index, [])
    d = inner("select", x, dim)
    return like(x, raw(lambda: x.select(d, index)), x._ragged_idx - (d < x._ragged_idx - 1))


def _view_as(func: Any, x: NestedTensor, other: Tensor) -> NestedTensor:
    return x.view(other.shape)  # type: ignore[return-value]


def _movedim(func: Any, x: NestedTensor, source: int, destination: int) -> NestedTensor:
    a, b = dim_of("movedim", x, source), dim_of("movedim", x, destination)
    order = [d for d in range(x.dim()) if d != a]
    order.insert(b, a)
    return _permute(func, x, order)


def _expand(func: Any, x: NestedTensor, *shape: Any) -> NestedTensor:
    sizes = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
    sizes = [1] * (x.dim() - len(sizes)) + sizes
    r = x._ragged_idx
    fits = (
        len(sizes) == x.dim()
        and sizes[0] in (-1, 1, x._jagged.parts)
        and (sizes[r] in (-1, 1) or _is_ragged(sizes[r], x))
    )
    if not fits:
        from weft.nested.asked import sizes_of

        raise RuntimeError(
            f"[expand] expected sizes that keep the batch and the ragged dimension, got {sizes} "
            f"(expand(): cannot expand shape {sizes_of(x)} -> {sizes})"
        )
    wanted = [-1 if d == r else sizes[d] for d in range(1, len(sizes))]
    return like(x, raw(lambda: x.expand(wanted)))


# ---- pieces


def _pieces(name: str) -> Callable[..., Any]:
    def run(func: Any, x: NestedTensor, how: Any, dim: int = 0) -> tuple[NestedTensor, ...]:
        if name == "chunk" and dim_of(name, x, dim) == 0:
            return _chunks_of_batch(x, how)
        d = inner(name, x, dim)
        return tuple(like(x, v) for v in raw(lambda: getattr(x, name)(how, d)))

    return run


def _chunks_of_batch(x: NestedTensor, chunks: int) -> tuple[NestedTensor, ...]:
    x = ps.whole(x)
    d, out, first = x._ragged_idx - 1, [], 0
    for counts in weft.tensor(x._jagged.counts, dtype=_C.int64).chunk(chunks):
        offsets = weft.cat([weft.zeros(1, dtype=_C.int64), counts.cumsum(0)])
        rows = int(offsets[-1])
        values = raw(lambda at=first, n=rows: x.narrow(d, at, n))  # type: ignore[misc]
        out.append(nested(values, Jagged(offsets), x._ragged_idx, x._is_strided))
        first += rows
    return tuple(out)


def _narrow(func: Any, x: NestedTensor, dim: int, start: Any, length: int) -> NestedTensor:
    d = inner("narrow", x, dim)
    return like(x, raw(lambda: x.narrow(d, start, length)))


def _repeat_interleave(
    func: Any, x: NestedTensor, repeats: Any, dim: int | None = None, **kwargs: Any
) -> NestedTensor:
    if dim is None:
        raise NotImplementedError(
            "[repeat_interleave] expected a dim for a nested tensor, got none"
        )
    d = inner("repeat_interleave", x, dim)
    return like(x, raw(lambda: x.repeat_interleave(repeats, d, **kwargs)))


def _cat(func: Any, tensors: Sequence[Any], dim: int = 0) -> NestedTensor:
    from weft.nested.pointwise import beside

    first = next(t for t in tensors if isinstance(t, NestedTensor))
    d = inner("cat", first, dim)
    rows: list[Tensor] = []
    for t in tensors:
        if _is_cut_alike(first, t):  # of other offsets too, as in PyTorch
            rows.append(t)
            continue
        given: Tensor = beside(first, t, "cat")
        rows.append(raw(functools.partial(_expanded, given, first)))
    return like(first, raw(lambda: func(rows, d)))


def _is_cut_alike(x: NestedTensor, t: Any) -> bool:
    return (
        isinstance(t, NestedTensor)
        and t._ragged_idx == x._ragged_idx
        and t._jagged.counts == x._jagged.counts
    )


def _expanded(t: Tensor, x: Tensor) -> Tensor:
    return t.expand(x.shape)


def _stack(func: Any, tensors: Sequence[Any], dim: int = 0) -> NestedTensor:
    first = tensors[0]
    for t in tensors:
        if not isinstance(t, NestedTensor) or not isinstance(first, NestedTensor):
            raise RuntimeError(
                "[stack] expected nested tensors only, got a dense one (stack(): expected all "
                "nested tensors inputs)"
            )
        if t.dim() != first.dim():
            raise RuntimeError(
                f"[stack] expected {first.dim()} dims of each, got {t.dim()} (stack(): expected "
                "all nested tensors to have the same dim)"
            )
        if t._jagged.size != first._jagged.size or t._ragged_idx != first._ragged_idx:
            raise RuntimeError(
                f"[stack] expected one ragged dimension, got {first._jagged.size} and "
                f"{t._jagged.size} (stack(): expected all nested tensors to have the same nested "
                "structure)"
            )
    d = dim_of("stack", first, dim, 1)
    if d in (0, first._ragged_idx):
        what = "dim=0" if d == 0 else "ragged dim"
        raise RuntimeError(
            f"[stack] expected a dense dimension, got {dim} (stack(): not supported for "
            f"NestedTensor on {what})"
        )
    ragged = first._ragged_idx + (d < first._ragged_idx)
    return like(first, raw(lambda: func(list(tensors), d - 1)), ragged)


TABLE: dict[str, Callable[..., Any]] = {
    "transpose": _transpose,
    "swapaxes": _transpose,
    "swapdims": _transpose,
    "permute": _permute,
    "movedim": _movedim,
    "moveaxis": _movedim,
    "T.__get__": lambda func, x: _permute(func, x, list(range(x.dim()))[::-1]),
    "mT.__get__": _matrix_transpose,
    "adjoint": _matrix_transpose,
    "view": _view,
    "reshape": _view,
    "view_as": _view_as,
    "reshape_as": _view_as,
    "unflatten": _unflatten,
    "flatten": _flatten,
    "unsqueeze": lambda func, x, dim: unsqueezed(x, dim),
    "squeeze": _squeeze,
    "select": lambda func, x, dim, index: selected(x, dim, index),
    "expand": _expand,
    "broadcast_to": _expand,
    "chunk": _pieces("chunk"),
    "split": _pieces("split"),
    "split_with_sizes": _pieces("split_with_sizes"),
    "tensor_split": _pieces("tensor_split"),
    "repeat_interleave": _repeat_interleave,
    "narrow": _narrow,
    "cat": _cat,
    "concat": _cat,
    "concatenate": _cat,
    "stack": _stack,
}
