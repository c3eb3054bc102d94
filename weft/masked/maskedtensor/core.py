"""`MaskedTensor`: a tensor with a mask that tells which of its elements count.

Note [Masked tensors]
A masked tensor is data and a mask of bools of the same shape, and an object of a class with
`__torch_dispatch__` (Note [Dispatch]): the graph holds the object, whose operators run on the data
and, where they move elements, on the mask (weft/masked/maskedtensor/_ops_refs.py). So gradients
are masked tensors too. Reductions and `where`, whose gradients depend on the mask, are answered by
`__torch_function__` instead (reductions.py): `values_of` leads from the graph of masked tensors to
one of dense ones, `masked_of` back, and between the two the rules are those of `weft.masked`.
Sparse data and mask have the same places (places.py), and operators run on their values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from weft import _C, Tensor
from weft.autograd import Function
from weft.base.names import layout as layout_type
from weft.base.names import sparse_coo, sparse_csr, strided
from weft.base.subclasses import lends_memory, raw
from weft.base.warn import warn
from weft.masked.maskedtensor.places import (
    cells,
    in_layout,
    layout_of,
    like,
    on_places_of,
    same_places,
    to_strided,
)  # fmt: skip
from weft.sparse.tensor import SparseTensor

__all__ = [
    "MaskedTensor", "cells_of", "in_layout_of", "is_masked_tensor", "made", "masked_of", "parted",
    "values_of",
]  # fmt: skip

_DTYPES = {
    _C.float16, _C.float32, _C.float64, _C.bool, _C.int8, _C.int16, _C.int32, _C.int64,
}  # fmt: skip


class MaskedTensor(Tensor):
    """Data and a mask of its shape: what is False there is skipped and prints as `--`.

    Args:
        data: a tensor of any shape, dense, COO or CSR; float16, float32, float64, bool or signed
            integers.
        mask: bools of the same shape and layout, True for what counts. Both are copied.
        requires_grad: whether the tensor wants a gradient, which is a MaskedTensor too.

    Raises:
        TypeError: no tensors; a mask of another dtype or layout; data of other dtypes.
        ValueError: shapes, or the places of sparse ones, that differ.

    >>> x = weft.masked.MaskedTensor(weft.tensor([1.0, 2.0]), weft.tensor([True, False]))
    >>> x + 1
    MaskedTensor(
      [  2.0000,       --]
    )
    >>> x.sum()
    MaskedTensor(  1.0000, True)
    """

    _masked_data: Tensor
    _masked_mask: Tensor

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
        for name, given in (("data", data), ("mask", mask)):
            if not isinstance(given, Tensor) or is_masked_tensor(given):
                raise TypeError(
                    f"[MaskedTensor] expected a tensor as {name}, got a "
                    f"{type(given).__name__} ({name} must be a Tensor)"
                )
        data, mask = _fitted(data, mask)
        if data.requires_grad:
            warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()"
            )
        out = made(like(data, cells(data).detach().clone()), like(mask, cells(mask).clone()))
        if requires_grad:
            raw(lambda: out.requires_grad_())
        return out

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from weft.masked.maskedtensor.reductions import rule_of

        rule = rule_of(func)
        if rule is not None:
            return rule(*args, **(kwargs or {}))
        return raw(lambda: func(*args, **(kwargs or {})))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from weft.masked.maskedtensor._ops_refs import run

        return run(func, args, kwargs or {})

    def get_data(self) -> Tensor:
        """The data with what the mask hides; gradients go to the masked tensor.

        >>> weft.masked.masked_tensor(weft.ones(2), weft.tensor([True, False])).get_data()
        tensor([1., 1.])
        """
        return values_of(self)

    def get_mask(self) -> Tensor:
        """The mask: bools of the tensor's shape.

        >>> weft.masked.masked_tensor(weft.ones(2), weft.tensor([True, False])).get_mask()
        tensor([ True, False])
        """
        return self._masked_mask

    def to_tensor(self, value: float) -> Tensor:
        """The data with `value` in the place of what the mask hides, dense.

        >>> weft.masked.masked_tensor(weft.ones(2), weft.tensor([True, False])).to_tensor(0)
        tensor([1., 0.])
        """
        dense = in_layout_of(self, strided)
        return dense.get_data().masked_fill(~dense._masked_mask, value)

    @property
    def layout(self) -> layout_type:
        """That of data and mask."""
        return layout_of(self._masked_data)

    @property
    def is_sparse(self) -> bool:
        """Whether data and mask are COO or CSR."""
        return layout_of(self._masked_data) is not strided

    def is_sparse_coo(self) -> bool:
        """Whether data and mask are COO."""
        return layout_of(self._masked_data) is sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether data and mask are CSR."""
        return layout_of(self._masked_data) is sparse_csr

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = to_strided(self._masked_data), to_strided(self._masked_mask)
        if not data.dim():
            shown = bool(mask)
            return f"MaskedTensor({_element(data.item()) if shown else '--'}, {shown})"
        text = _text(data.tolist(), mask.tolist(), data.dim())
        return f"MaskedTensor(\n{_indented(text)}\n)"

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)


def is_masked_tensor(obj: Any, /) -> TypeGuard[MaskedTensor]:
    """Whether `obj`, a tensor of any shape or something else, is a MaskedTensor.

    >>> weft.masked.is_masked_tensor(weft.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)


def _fitted(data: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Data and mask with the same places. Raises for those of other layouts."""
    kinds = layout_of(data), layout_of(mask)
    if kinds[0] is not kinds[1]:
        raise TypeError(
            f"[MaskedTensor] expected data and mask of one layout, got {kinds[0]} and {kinds[1]} "
            "(data and mask must have the same layout.)"
        )
    known = kinds[0] in (sparse_coo, sparse_csr) or lends_memory(data)
    if not known or not (lends_memory(mask) or isinstance(mask, SparseTensor)):
        raise TypeError(
            f"[MaskedTensor] expected data and mask that are dense, COO or CSR, got {data.layout} "
            f"(data layout of {data.layout} is not supported.)"
        )
    if data.shape == mask.shape:
        data, mask = on_places_of(mask, data)
        if not same_places(data, mask):
            coo = kinds[0] is sparse_coo
            words = "do not have the same" if coo else "do not share either crow or col"
            raise ValueError(
                "[MaskedTensor] expected data and mask of the same places, got others (data and "
                f"mask are both sparse {'COO' if coo else 'CSR'} tensors but {words} indices.)"
            )
    _check(data, mask)
    return data, mask


def _check(data: Tensor, mask: Tensor) -> None:
    """Raises for data and a mask of one layout that make no masked tensor."""
    if mask.dtype != _C.bool:
        raise TypeError(
            f"[MaskedTensor] expected a mask of bools, got {mask.dtype} (mask must have dtype "
            "bool.). Hint: mask.bool()"
        )
    if data.dtype not in _DTYPES:
        raise TypeError(
            "[MaskedTensor] expected data of float16, float32, float64, bool or signed integers, "
            f"got {data.dtype} ({data.dtype} is not supported in MaskedTensor.)"
        )
    for asked in ("dim", "size"):
        if getattr(data, asked)() != getattr(mask, asked)():
            raise ValueError(
                f"[MaskedTensor] expected a mask of the data's shape {tuple(data.shape)}, got "
                f"{tuple(mask.shape)} (data.{asked}() must equal mask.{asked}())"
            )


def made(data: Tensor, mask: Tensor) -> MaskedTensor:
    """The masked tensor of data that nobody else needs and a mask, as they are."""
    _check(data, mask)
    cls: Any = MaskedTensor
    out: MaskedTensor = Tensor._make_wrapper_subclass(
        cls,
        data.shape,
        strides=data.stride() if layout_of(data) is strided else None,
        dtype=data.dtype,
        device=data.device,
    )
    out._masked_data, out._masked_mask = data, mask
    return out


class GetData(Function):
    @staticmethod
    def forward(ctx: Any, x: MaskedTensor) -> Tensor:
        ctx.mask = x._masked_mask
        return like(x._masked_data, cells(x._masked_data).detach())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        if is_masked_tensor(grad):
            return grad
        wanted = layout_of(ctx.mask)
        if layout_of(grad) is not wanted or not same_places(grad, ctx.mask):
            dense = to_strided(grad), to_strided(ctx.mask)
            return made(*in_layout(*dense, wanted, grad.shape))
        return made(grad, ctx.mask)


class Cells(Function):
    """From a sparse masked tensor to the values of its data."""

    @staticmethod
    def forward(ctx: Any, x: MaskedTensor) -> Tensor:
        ctx.data, ctx.mask = x._masked_data, x._masked_mask
        return cells(x._masked_data).detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return made(like(ctx.data, grad), ctx.mask)


class Relaid(Function):
    """A masked tensor in another layout."""

    @staticmethod
    def forward(ctx: Any, x: MaskedTensor, wanted: layout_type) -> Tensor:
        ctx.layout = layout_of(x._masked_data)
        return made(*in_layout(x._masked_data, x._masked_mask, wanted, x.shape))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple[Tensor, None]:
        data, mask = grad._masked_data, grad._masked_mask
        return made(*in_layout(data, mask, ctx.layout, grad.shape)), None


class Constructor(Function):
    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor, dense: bool) -> Tensor:
        ctx.dense = dense
        return made(data.detach(), mask)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        hides = ctx.dense and is_masked_tensor(grad)
        return grad.to_tensor(0) if hides else grad, None, None  # type: ignore[attr-defined]


def values_of(x: MaskedTensor) -> Tensor:
    """The data, dense; its gradient becomes one of the masked tensor, under its mask."""
    out: Tensor = raw(lambda: GetData.apply(x))
    return out


def masked_of(data: Tensor, mask: Tensor, dense: bool = True) -> MaskedTensor:
    """The masked tensor of dense data, to which its gradient goes: as a dense tensor, 0 where it is
    hidden, or, without `dense`, as the masked tensor that it is."""
    out: MaskedTensor = raw(lambda: Constructor.apply(data, mask, dense))
    return out


def cells_of(x: MaskedTensor) -> tuple[Tensor, Tensor]:
    """The elements that data and mask have, as dense tensors; the first is in the graph."""
    if layout_of(x._masked_data) is strided:
        return values_of(x), x._masked_mask
    out: Tensor = raw(lambda: Cells.apply(x))
    return out, cells(x._masked_mask)


def in_layout_of(x: MaskedTensor, wanted: layout_type) -> MaskedTensor:
    """The masked tensor in another layout; itself in its own."""
    if layout_of(x._masked_data) is wanted:
        return x
    out: MaskedTensor = raw(lambda: Relaid.apply(x, wanted))
    return out


def parted(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """A masked tensor as its data and mask; a dense one and `mask` as they are."""
    return (values_of(x), x._masked_mask) if is_masked_tensor(x) else (x, mask)


# ---- what it prints


def _element(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))


def _text(data: list[Any], mask: list[Any], dims: int) -> str:
    if dims > 1:
        rows = (_text(d, m, dims - 1) for d, m in zip(data, mask, strict=True))
        return "[\n" + ",\n".join(map(_indented, rows)) + "\n]"
    shown = [_element(d) if m else None for d, m in zip(data, mask, strict=True)]
    wide = max((8 if s is None else len(s) for s in shown), default=0)
    return "[" + ", ".join("--".rjust(wide) if s is None else s for s in shown) + "]"
