"""`MaskedTensor`: a tensor with a mask that tells which of its elements count.

Note [Masked tensors]
A masked tensor is data and a mask of bools of the same shape, and an object of a class with
`__torch_dispatch__` (Note [Dispatch]): the graph holds the object, whose operators run on the data
and, where they move elements, on the mask (weft/masked/maskedtensor/_ops_refs.py). So gradients
are masked tensors too. Reductions and `where`, whose gradients depend on the mask, are answered by
`__torch_function__` instead (reductions.py): `values_of` leads from the graph of masked tensors to
one of dense ones, `masked_of` back, and between the two the rules are those of `weft.masked`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeGuard

from weft import _C, Tensor
from weft.autograd import Function
from weft.base.subclasses import lends_memory, raw

__all__ = ["MaskedTensor", "is_masked_tensor", "made", "masked_of", "parted", "values_of"]

_DTYPES = {
    _C.float16, _C.float32, _C.float64, _C.bool, _C.int8, _C.int16, _C.int32, _C.int64,
}  # fmt: skip


class MaskedTensor(Tensor):
    """Data and a mask of its shape: what is False there is skipped and prints as `--`.

    Args:
        data: a dense tensor of any shape, float16, float32, float64, bool or signed integers.
        mask: bools of the same shape, True for what counts. Both are copied.
        requires_grad: whether the tensor wants a gradient, which is a MaskedTensor too.

    Raises:
        TypeError: one that is no dense tensor; a mask of another dtype; data of other dtypes.
        ValueError: shapes that differ.

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
                    f"[MaskedTensor] expected a dense tensor as {name}, got a "
                    f"{type(given).__name__} ({name} must be a Tensor)"
                )
        _check(data, mask)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        out = made(data.detach().clone(), mask.clone())
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
        """The data with what the mask hides, dense; gradients go to the masked tensor.

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
        return self.get_data().masked_fill(~self._masked_mask, value)

    def is_sparse_coo(self) -> bool:
        """False: the data are dense."""
        return False

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """False: the data are dense."""
        return False

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = self._masked_data, self._masked_mask
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


def _check(data: Tensor, mask: Tensor) -> None:
    """Raises for data and a mask that make no masked tensor."""
    for name, given in (("data", data), ("mask", mask)):
        if not lends_memory(given):
            raise TypeError(
                f"[MaskedTensor] expected a dense tensor as {name}, got a {type(given).__name__} "
                f"(data layout of {given.layout} is not supported.)"
            )
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
        strides=data.stride(),
        dtype=data.dtype,
        device=data.device,
    )
    out._masked_data, out._masked_mask = data, mask
    return out


class GetData(Function):
    @staticmethod
    def forward(ctx: Any, x: MaskedTensor) -> Tensor:
        ctx.mask = x._masked_mask
        return x._masked_data.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad if is_masked_tensor(grad) else made(grad, ctx.mask)


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
