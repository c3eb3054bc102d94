"""Copies of what others give as views. PyTorch's semantics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.forms import forms, with_out

__all__ = [
    "alias_copy", "as_strided_copy", "diagonal_copy", "expand_copy", "narrow_copy", "permute_copy",
    "select_copy", "slice_copy", "split_copy", "split_with_sizes_copy", "squeeze_copy", "t_copy",
    "transpose_copy", "unbind_copy", "unfold_copy", "unsqueeze_copy", "view_copy",
]  # fmt: skip


@forms(method=True, out=True)
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `narrow`: size n of `dim` becomes `length`.

    >>> weft.narrow_copy(weft.arange(5), 0, 1, 2)
    tensor([1, 2])
    """
    return input.narrow(dim, start, length).clone()


@forms(out=True)
def alias_copy(input: Tensor) -> Tensor:
    """A copy, row-major, of the input's shape and dtype.

    >>> weft.alias_copy(weft.arange(2))
    tensor([0, 1])
    """
    return input.clone(memory_format=weft.contiguous_format)


def _copying(name: str) -> Callable[..., Any]:
    view = getattr(_C.ops, name)

    def copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        out = view(input, *args, **kwargs)
        if isinstance(out, Tensor):
            return out.clone(memory_format=weft.contiguous_format)
        return tuple(t.clone(memory_format=weft.contiguous_format) for t in out)

    copy.__name__ = copy.__qualname__ = name + "_copy"
    doc = (view.__doc__ or "").replace(f"weft.{name}(", f"weft.{name}_copy(")
    copy.__doc__ = f"A copy of `{name}`, which is a view.\n\n{doc}"
    return with_out(name + "_copy", copy)


as_strided_copy = _copying("as_strided")
diagonal_copy = _copying("diagonal")
expand_copy = _copying("expand")
permute_copy = _copying("permute")
select_copy = _copying("select")
slice_copy = _copying("slice")
split_copy = _copying("split")
split_with_sizes_copy = _copying("split_with_sizes")
squeeze_copy = _copying("squeeze")
t_copy = _copying("t")
transpose_copy = _copying("transpose")
unbind_copy = _copying("unbind")
unfold_copy = _copying("unfold")
unsqueeze_copy = _copying("unsqueeze")
view_copy = _copying("view")
