"""Choosing by conditions. PyTorch's semantics."""

from __future__ import annotations

from typing import Any, Literal, cast, overload

import weft
from weft import _C
from weft._C import Tensor
from weft.base.forms import forms, method, write_out

__all__ = ["nonzero", "nonzero_static", "where"]


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Any, other: Any, *, out: Tensor | None = None) -> Tensor: ...
@overload
def where(condition: Tensor, *, self: Any, other: Any, out: Tensor | None = None) -> Tensor: ...
def where(
    condition: Tensor,
    input: Tensor | complex | None = None,
    other: Tensor | complex | None = None,
    *,
    self: Tensor | complex | None = None,
    out: Tensor | None = None,
) -> Any:
    """`input` where the condition holds, else `other`; with the condition alone, its true indices.

    The operands broadcast to the shape of the result; alone, one vector of int64 per dim.

    >>> weft.where(weft.tensor([True, False]), 1.0, 2.0)
    tensor([1., 2.])
    """
    value: Any = self if input is None else input
    if value is None and other is None:
        return nonzero(condition, as_tuple=True)
    if out is not None:
        return _C.ops.where(condition, value, cast(Any, other), out=out)
    return _C.ops.where(condition, value, cast(Any, other))


@overload
def nonzero(
    input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@method
def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """Indices of the elements that are not zero: [n, dim] int64, or a tuple of dim tensors [n].

    >>> weft.nonzero(weft.tensor([0, 3, 0, 5]))
    tensor([[1],
            [3]])
    """
    scalar = as_tuple and isinstance(input, Tensor) and input.dim() == 0
    found = _C.ops.nonzero(input.reshape(1) if scalar else input)
    if out is not None:
        return write_out("nonzero", out, found)
    return found.unbind(1) if as_tuple else found


@forms(method=True, out=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of `nonzero`, filled up with `fill_value`.

    >>> weft.nonzero_static(weft.tensor([0, 3]), size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"[nonzero_static] expected a size of at least 0, got {size}")
    found = _C.ops.nonzero(input)[:size]
    rest = weft.full(
        (size - found.shape[0], input.dim()), fill_value, dtype=_C.int64, device=input.device
    )
    return weft.cat([found, rest])
