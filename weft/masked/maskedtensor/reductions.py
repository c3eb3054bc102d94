"""Functions of masked tensors whose gradients depend on the mask: reductions and `where`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.autograd import Function
from weft.base.names import sparse_coo, sparse_csr, strided
from weft.base.subclasses import raw
from weft.masked import _ops
from weft.masked.maskedtensor.core import (
    MaskedTensor,
    cells_of,
    in_layout_of,
    is_masked_tensor,
    made,
    masked_of,
)  # fmt: skip
from weft.masked.maskedtensor.places import flat_place

__all__ = ["OVER_DIMS", "parts", "reduced", "rule_of"]

Rule = Callable[..., Any]


def reduced(
    name: str, input: MaskedTensor, dim: Any = None, keepdim: bool = False, **given: Any
) -> MaskedTensor:
    """A function of `weft.masked` over dims, or all; hidden where it saw nothing."""
    values, mask = _read(name, input, dim)
    data: Tensor = getattr(_ops, name)(values, dim, keepdim=keepdim, mask=mask, **given)
    if name.startswith("arg"):
        data = flat_place(input._masked_data, data).to(data.dtype)
    return masked_of(data, _seen(mask, dim, keepdim))


def _read(name: str, input: MaskedTensor, dim: Any) -> tuple[Tensor, Tensor]:
    """What a reduction reads: elements and whether they count."""
    if input.is_sparse and dim not in (None, ()):
        raise TypeError(
            f"[{name}] expected no dim of a sparse masked tensor, got {dim} (The sparse version of "
            f"{name} is not implemented in reductions.). Hint: to_dense()"
        )
    return cells_of(input)


def _seen(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Whether the mask shows anything along `dim`."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim or range(mask.dim()))
    return mask.any(dims, keepdim) if dims else mask


def _over_dims(name: str) -> Rule:
    def rule(
        input: MaskedTensor, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> MaskedTensor:
        return reduced(name, input, dim, keepdim, dtype=dtype)

    return rule


def _spread(name: str) -> Rule:
    def rule(
        input: MaskedTensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
        *, correction: Any = None,
    ) -> MaskedTensor:  # fmt: skip
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        return reduced(name, input, dim, keepdim, unbiased=unbiased, correction=correction)

    return rule


def _norm(
    input: MaskedTensor, p: Any = 2.0, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> MaskedTensor:
    order = 2.0 if p in (None, "fro") else p
    values, mask = _read("norm", input, dim)
    data = _ops.norm(values, order, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return masked_of(data, _seen(mask, dim, keepdim))


def _truth(name: str) -> Rule:
    """`all` and `any`, in which what is hidden changes nothing."""

    def rule(input: MaskedTensor, dim: Any = None, keepdim: bool = False) -> MaskedTensor:
        values, mask = _read(name, input, dim)
        filled = values.detach().masked_fill(~mask, name == "all")
        return made(getattr(weft, name)(filled, dim, keepdim), _seen(mask, dim, keepdim))

    return rule


class _Where(Function):
    """`where` of masked tensors of one shape: what was not taken gets a hidden gradient."""

    @staticmethod
    def forward(ctx: Any, condition: Tensor, x: MaskedTensor, y: MaskedTensor) -> Tensor:
        ctx.condition = condition
        return made(
            weft.where(condition, x._masked_data, y._masked_data),
            weft.where(condition, x._masked_mask, y._masked_mask),
        )

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        data, mask = parts(grad)
        taken = ctx.condition
        return None, made(data, mask & taken), made(data, mask & ~taken)


def parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """Data and mask; a dense tensor shows all."""
    if is_masked_tensor(x):
        return x._masked_data, x._masked_mask
    return x, weft.ones_like(x, dtype=weft.bool)


def _where(condition: Any, input: Any, other: Any) -> MaskedTensor:
    if any(is_masked_tensor(x) and x.is_sparse for x in (input, other)):
        raise NotImplementedError(
            "[where] expected dense masked tensors, got a sparse one. Hint: to_dense()"
        )
    if is_masked_tensor(condition):
        raise RuntimeError(
            "[where] expected a dense condition beside masked tensors, got a MaskedTensor. Hint: "
            "get_data() or to_tensor(False) gives one"
        )
    like = input if is_masked_tensor(input) else other
    both = [
        x if isinstance(x, Tensor) else weft.full((), x, dtype=like.dtype) for x in (input, other)
    ]
    kind = weft.promote_types(both[0].dtype, both[1].dtype)
    shape = weft.broadcast_shapes(condition.shape, both[0].shape, both[1].shape)

    def taken(x: Tensor) -> Tensor:
        x = x.to(kind).expand(shape)
        if is_masked_tensor(x):
            return x
        return masked_of(x, weft.ones(shape, dtype=weft.bool), dense=False)

    out: MaskedTensor = raw(
        lambda: _Where.apply(condition.expand(shape), taken(both[0]), taken(both[1]))
    )
    return out


def _where_method(input: Any, condition: Any, other: Any) -> MaskedTensor:
    return _where(condition, input, other)


OVER_DIMS = ("amax", "amin", "argmax", "argmin", "mean", "prod", "sum")
_REDUCTIONS: dict[str, Rule] = {
    **{name: _over_dims(name) for name in OVER_DIMS},
    "std": _spread("std"),
    "var": _spread("var"),
    "norm": _norm,
    "all": _truth("all"),
    "any": _truth("any"),
}


@functools.cache
def _rules() -> dict[Any, Rule]:
    """By function of weft's and method."""
    table: dict[Any, Rule] = {weft.where: _where, Tensor.where: _where_method}
    for name, rule in _REDUCTIONS.items():
        table[getattr(weft, name)] = table[getattr(Tensor, name)] = rule
    layouts = {
        Tensor.to_dense: strided, Tensor.to_sparse: sparse_coo,
        Tensor.to_sparse_coo: sparse_coo, Tensor.to_sparse_csr: sparse_csr,
    }  # fmt: skip
    return table | {f: functools.partial(_in_layout, wanted) for f, wanted in layouts.items()}


def _in_layout(wanted: Any, input: MaskedTensor) -> MaskedTensor:
    return in_layout_of(input, wanted)


def rule_of(func: Rule) -> Rule | None:
    """What answers a function of weft's or a method; None for those that are operators."""
    return _rules().get(func)
