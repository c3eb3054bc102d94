"""Rules of what a nested tensor is asked for: sizes, parts, items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
import weft.nested.parts as ps
import weft.nested.shapes as shapes
from weft import Tensor
from weft.nested.tensor import NestedTensor, alias, like, raw

__all__ = ["TABLE", "sizes_of"]


def sizes_of(x: NestedTensor) -> tuple[Any, ...]:
    """The sizes, that of the ragged dimension a `NestedInt`."""
    inner, d = raw(lambda: tuple(x.shape)), x._ragged_idx - 1
    return (x._jagged.parts, *inner[:d], x._jagged.size, *inner[d + 1 :])


def _shape(func: Any, x: NestedTensor) -> weft.Size:
    if x._is_strided:
        raise RuntimeError(
            "[shape] expected a tensor whose parts have one shape, got a nested one of layout "
            "torch.strided (Internal error: NestedTensorImpl doesn't support sizes. Please file an "
            "issue.). Hint: size(dim), or layout=weft.jagged"
        )
    return weft.Size(sizes_of(x))


def _size(func: Any, x: NestedTensor, dim: int | None = None) -> Any:
    if dim is None:
        return _shape(func, x)
    d = shapes.dim_of("size", x, dim)
    if x._is_strided and d == x._ragged_idx:
        if x._jagged.shortest() == x._jagged.longest():
            return x._jagged.longest()
        raise RuntimeError(
            f"[size] expected a dim of one size, got {dim} (Given dimension {d} is irregular and "
            "does not have a size.)"
        )
    return sizes_of(x)[d]


def _stride(func: Any, x: NestedTensor, dim: int | None = None) -> Any:
    inner, d = raw(lambda: x.stride()), x._ragged_idx - 1
    all_ = (x._jagged.size * inner[d], *inner)
    return all_ if dim is None else all_[shapes.dim_of("stride", x, dim)]


def _numel(func: Any, x: NestedTensor) -> int:
    inner, d = raw(lambda: x.shape), x._ragged_idx - 1
    one = 1
    for k, size in enumerate(inner):
        one *= 1 if k == d else size
    return one * (inner[d] if x._jagged.lengths is None else sum(x._jagged.counts))


def _is_contiguous(func: Any, x: NestedTensor, memory_format: Any = None) -> bool:
    if memory_format is weft.preserve_format:
        return x._jagged.lengths is None
    given = {} if memory_format is None else {"memory_format": memory_format}
    return x._jagged.lengths is None and bool(raw(lambda: func(x, **given)))


def _values(func: Any, x: NestedTensor) -> Tensor:
    return alias(x).reshape(-1) if x._is_strided else alias(x)


def _unbind(func: Any, x: NestedTensor, dim: int = 0) -> Any:
    if shapes.dim_of("unbind", x, dim) != 0:
        raise RuntimeError(
            f"[unbind] expected dim=0, got {dim} (unbind(): only supported for NestedTensor on "
            "dim=0)"
        )
    return ps.parts(x)


def _refuse_export(what: str) -> Callable[..., Any]:
    def refuse(func: Any, x: NestedTensor, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"[{what}] expected a tensor whose parts have one shape, got a nested one (.{what}() "
            "is not supported for tensor subclasses, got NestedTensor). Hint: unbind() gives the "
            "parts, values() their elements, to_padded_tensor(0.0) one dense tensor"
        )

    return refuse


# ---- items


def _item(func: Any, x: NestedTensor, key: Any) -> Any:
    keys = list(key) if isinstance(key, tuple) else [key]
    if Ellipsis in [k for k in keys if not isinstance(k, Tensor)]:
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        named = sum(k is not None for k in keys) - 1
        keys[at : at + 1] = [slice(None)] * (x.dim() - named)
    if keys and isinstance(keys[0], int) and not isinstance(keys[0], bool):
        return _of_part(x, keys[0], keys[1:])
    out, d = x, 0
    for k in keys:
        out, d = _step(out, d, k)
    return out


def _set_item(func: Any, x: NestedTensor, key: Any, value: Any) -> None:
    """Writes into the view that the same key shows."""
    shown = _item(func, x, key)
    if isinstance(shown, NestedTensor):
        from weft.nested.pointwise import beside

        given = beside(shown, value, "__setitem__")
        raw(lambda: shown.__setitem__(..., given))
    else:
        shown[...] = value


def _of_part(x: NestedTensor, index: int, rest: list[Any]) -> Tensor:
    n = x._jagged.parts
    if not -n <= index < n:
        raise IndexError(
            f"[select] expected an index in [{-n}, {n - 1}], got {index} (select(): index {index} "
            f"out of range for tensor of size {list(sizes_of(x))} at dimension 0)"
        )
    found = ps.part(x, index % n)
    return found[tuple(rest)] if rest else found


def _step(x: NestedTensor, d: int, key: Any) -> tuple[NestedTensor, int]:
    """One key applied at dim `d`, and the dim of the next one."""
    if key is None:
        return shapes.unsqueezed(x, d), d + 1
    if isinstance(key, slice):
        if key == slice(None):
            return x, d + 1
        at = shapes.inner("slice", x, d)
        index = (slice(None),) * at + (key,)
        return like(x, raw(lambda: x[index])), d + 1
    if isinstance(key, int) and not isinstance(key, bool):
        return shapes.selected(x, d, key), d
    raise NotImplementedError(
        f"[index] expected integers, slices, ... and None for a nested tensor, got "
        f"{type(key).__name__}. Hint: unbind() gives the parts, values() their elements"
    )


TABLE: dict[str, Callable[..., Any]] = {
    "shape.__get__": _shape,
    "size": _size,
    "stride": _stride,
    "dim": lambda func, x: raw(lambda: x.dim()) + 1,
    "ndimension": lambda func, x: raw(lambda: x.dim()) + 1,
    "ndim.__get__": lambda func, x: raw(lambda: x.dim()) + 1,
    "numel": _numel,
    "nelement": _numel,
    "__len__": lambda func, x: x._jagged.parts,
    "__iter__": lambda func, x: iter(ps.parts(x)),
    "__contains__": lambda func, x, value: value in alias(ps.whole(x)),
    "layout.__get__": lambda func, x: weft.strided if x._is_strided else weft.jagged,
    "is_nested.__get__": lambda func, x: True,
    "is_contiguous": _is_contiguous,
    "values": _values,
    "unbind": _unbind,
    "tolist": _refuse_export("tolist"),
    "numpy": _refuse_export("numpy"),
    "__array__": _refuse_export("numpy"),
    "__getitem__": _item,
    "__setitem__": _set_item,
}
