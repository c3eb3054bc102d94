"""Kinds of numbers: what they are, their limits, and conversions. PyTorch's semantics."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor, dtype, get_default_dtype
from weft.base.checks import also_named, checked
from weft.base.device import device, is_meta
from weft.base.forms import category, expect, method
from weft.base.names import _Named, tensortype
from weft.base.shown import dtype_name

__all__ = [
    "can_cast", "finfo", "iinfo", "is_complex", "is_floating_point", "is_signed", "result_type",
    "typename",
]  # fmt: skip


@method
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is floating.

    A tensor of any shape.

    >>> weft.is_floating_point(weft.ones(2)), weft.is_floating_point(weft.arange(2))
    (True, False)
    """
    if not isinstance(input, Tensor):
        expect("is_floating_point", input, Tensor, "a Tensor")
    return input.dtype.is_floating_point


@method
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex.

    A tensor of any shape.

    >>> weft.is_complex(weft.tensor(1j))
    True
    """
    if not isinstance(input, Tensor):
        expect("is_complex", input, Tensor, "a Tensor")
    return input.dtype.is_complex


@method
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers.

    A tensor of any shape.

    >>> weft.is_signed(weft.ones(2, dtype=weft.uint8))
    False
    """
    return input.dtype.is_signed


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether the conversion keeps the category: no complex to float, no float to int, no number
    to bool.

    >>> weft.can_cast(weft.int64, weft.float32), weft.can_cast(weft.float32, weft.int64)
    (True, False)
    """
    for kind in (from_, to):
        expect("can_cast", kind, dtype, "two dtypes")
    return category(from_) <= category(to)


@checked
@also_named(tensor="tensor1", scalar1="tensor1", other="tensor2", scalar2="tensor2")
def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype that arithmetic between the two gives; numbers yield to 0-d tensors.

    >>> weft.result_type(weft.tensor([1, 2]), 1.0)
    torch.float32
    """
    ranks: list[dtype | None] = [None, None, None]  # numbers, 0-d tensors, other tensors
    for operand in (tensor1, tensor2):
        if isinstance(operand, Tensor):
            rank, kind = (2 if operand.dim() else 1), operand.dtype
        else:
            if builtins.type(operand).__module__ == "numpy" and not getattr(operand, "ndim", 1):
                operand = operand.item()
            expect("result_type", operand, (bool, int, float, complex), "tensors or numbers")
            rank, kind = 0, _C.tensor(operand).dtype
        known = ranks[rank]
        ranks[rank] = kind if known is None else _C.promote_types(known, kind)
    out: dtype | None = None
    for found in reversed(ranks):
        if found is not None and (out is None or category(found) > category(out)):
            out = out.to_complex() if out is not None and out.is_floating_point else found
    assert out is not None
    return out


class finfo:
    """Limits of a floating dtype: bits, eps, max, min, tiny, resolution; a complex dtype counts
    as that of its parts.

    >>> weft.finfo(weft.float16).max
    65504.0
    """

    _limits = {
        _C.float16: (16, 2.0**-10, 65504.0, 2.0**-14, 1e-03),
        _C.bfloat16: (16, 2.0**-7, 3.3895313892515355e38, 2.0**-126, 1e-02),
        _C.float32: (32, 2.0**-23, 3.4028234663852886e38, 2.0**-126, 1e-06),
        _C.float64: (64, 2.0**-52, 1.7976931348623157e308, 2.0**-1022, 1e-15),
        _C.float8_e4m3fn: (8, 2.0**-3, 448.0, 2.0**-6, 1.0),
        _C.float8_e4m3fnuz: (8, 2.0**-3, 240.0, 2.0**-7, 1.0),
        _C.float8_e5m2: (8, 2.0**-2, 57344.0, 2.0**-14, 1.0),
        _C.float8_e5m2fnuz: (8, 2.0**-3, 57344.0, 2.0**-15, 1.0),
        _C.float8_e8m0fnu: (8, 1.0, 2.0**127, 2.0**-127, 1.0),
    }

    def __init__(self, type: dtype | None = None) -> None:
        type = get_default_dtype() if type is None else type
        expect("finfo", type, dtype, "a dtype")
        type = type.to_real()
        limits = self._limits.get(type)
        if limits is None:
            raise TypeError(f"[finfo] expected a floating dtype, got {type}")
        self.bits, self.eps, self.max, self.tiny, self.resolution = limits
        self.min = -self.max if type.is_signed else self.tiny
        self.smallest_normal = self.tiny
        self.dtype = dtype_name(type)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.tiny:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype: bits, max, min.

    >>> weft.iinfo(weft.uint8)
    iinfo(min=0, max=255, dtype=uint8)
    """

    def __init__(self, type: dtype) -> None:
        expect("iinfo", type, dtype, "a dtype")
        if type.is_floating_point or type.is_complex or type is _C.bool:
            raise TypeError(f"[iinfo] expected an integer dtype, got {type}")
        self.bits = 8 * type.itemsize
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = self.min + 2**self.bits - 1
        self.dtype = dtype_name(type)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


# ---- conversion


def _expect_order(args: Sequence[Any]) -> None:
    tensors = sum(isinstance(arg, Tensor) for arg in args)
    kinds = sum(isinstance(arg, dtype) for arg in args)
    if tensors + kinds > 1 or (tensors and not isinstance(args[0], Tensor)):
        raise TypeError("[to] expected a device, a dtype, both or a tensor, got more of them")
    if any(isinstance(arg, (str, device, int)) and not isinstance(arg, bool) for arg in args[1:]):
        raise TypeError("[to] expected a device as the first argument alone")


def _parse_to(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[dtype | None, bool | None]:
    """The dtype asked for by the arguments of `to`, and whether it is the meta device that is."""
    wanted: dtype | None = kwargs.pop("dtype", None)
    for flag in ("non_blocking", "copy"):
        if not isinstance(kwargs.pop(flag, False), bool):
            raise TypeError(f"[to] expected a bool as {flag}, got another type")
    if len(args) > 1:
        _expect_order(args)
    if args and isinstance(args[0], bool):
        raise TypeError("[to] expected a dtype, a device or a tensor, got bool")
    place = kwargs.pop("device", None)
    on_meta = None if place is None else is_meta(place)
    if kwargs:
        raise TypeError(
            f"[to] expected dtype, device, non_blocking or copy, got '{next(iter(kwargs))}'"
        )
    for arg in args:
        if isinstance(arg, Tensor):
            wanted, on_meta = arg.dtype, arg.is_meta
        elif isinstance(arg, dtype) or arg in (float, int, bool, complex):
            wanted = arg
        elif isinstance(arg, (str, device)) or (isinstance(arg, int) and not isinstance(arg, bool)):
            on_meta = is_meta(arg)
        elif not isinstance(arg, bool) and arg is not None:
            raise TypeError(
                f"[to] expected a dtype, a device or a tensor, got {arg.__class__.__name__}"
            )
    return wanted, on_meta


def moved(t: Tensor, on_meta: bool, kind: Any = None) -> Tensor:
    """`t` on another device, in another dtype if that is asked for: the meta device, for nothing
    comes back from there."""
    if not on_meta:
        raise NotImplementedError(
            "[to] expected a tensor with values, got one of the meta device (Cannot copy out of "
            "meta tensor; no data!). Hint: weft.empty_like(t, device='cpu') makes one of its shape"
        )
    if t.requires_grad and weft.is_grad_enabled():
        from weft.autograd._moved import ToMeta

        out: Tensor = ToMeta.apply(t, kind)
        return out
    return weft.empty_like(t, dtype=kind, device="meta")


@method
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`to(dtype)`, `to(device)`, `to(other)`: self if nothing changes, else a converted copy.

    The shape stays.

    >>> weft.ones(2).to(weft.int64)
    tensor([1, 1])
    """
    copy, form = kwargs.get("copy", False), kwargs.pop("memory_format", None)
    wanted, on_meta = _parse_to(args, kwargs)
    if on_meta is not None and on_meta != self.is_meta:
        out = moved(self, on_meta, wanted)
    else:
        out = self if wanted is None else _C.ops.to(self, wanted)
    out = out.clone() if copy and out is self else out
    return out if form is None else _in_format("to", out, form)


def _in_format(who: str, t: Tensor, form: Any) -> Tensor:
    """`t` in the order of a memory format, which "preserve" leaves as it is."""
    if not isinstance(form, _Named):
        raise TypeError(f"[{who}] expected a memory format, got {form!r}")
    return t if form is weft.preserve_format else t.contiguous(memory_format=form)


def _converter(name: str, to_dtype: dtype) -> None:
    def convert(self: Tensor, memory_format: Any = None) -> Tensor:
        out = _C.ops.to(self, to_dtype)
        return out if memory_format is None else _in_format(name, out, memory_format)

    convert.__name__ = name
    convert.__doc__ = f"""self as {to_dtype}, of the same shape; self itself if it is that already.

    >>> weft.ones(2).{name}().dtype
    {to_dtype}
    """
    method(convert)


_converter("float", _C.float32)


_converter("double", _C.float64)


_converter("long", _C.int64)


_converter("bool", _C.bool)


_converter("half", _C.float16)


_converter("bfloat16", _C.bfloat16)


_converter("byte", _C.uint8)


_converter("char", _C.int8)


_converter("short", _C.int16)


_converter("int", _C.int32)


_converter("cfloat", _C.complex64)


_converter("cdouble", _C.complex128)


_converter("chalf", _C.complex32)


_TYPE_NAMES = {
    "torch.FloatTensor": _C.float32,
    "torch.DoubleTensor": _C.float64,
    "torch.LongTensor": _C.int64,
    "torch.BoolTensor": _C.bool,
    "torch.IntTensor": _C.int32,
    "torch.ShortTensor": _C.int16,
    "torch.CharTensor": _C.int8,
    "torch.ByteTensor": _C.uint8,
    "torch.UInt16Tensor": _C.uint16,
    "torch.UInt32Tensor": _C.uint32,
    "torch.UInt64Tensor": _C.uint64,
    "torch.HalfTensor": _C.float16,
    "torch.BFloat16Tensor": _C.bfloat16,
    "torch.ComplexHalfTensor": _C.complex32,
    "torch.ComplexFloatTensor": _C.complex64,
    "torch.ComplexDoubleTensor": _C.complex128,
    "torch.Float8_e4m3fnTensor": _C.float8_e4m3fn,
    "torch.Float8_e4m3fnuzTensor": _C.float8_e4m3fnuz,
    "torch.Float8_e5m2Tensor": _C.float8_e5m2,
    "torch.Float8_e5m2fnuzTensor": _C.float8_e5m2fnuz,
    "torch.Float8_e8m0fnuTensor": _C.float8_e8m0fnu,
}


@method
def type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:  # noqa: A001
    """The type's name ('torch.FloatTensor'), or self converted to `dtype`.

    The shape stays.

    >>> weft.ones(2).type(), weft.ones(2).type(weft.int64)
    ('torch.FloatTensor', tensor([1, 1]))
    """
    if dtype is None:
        name = next(k for k, v in _TYPE_NAMES.items() if v is self.dtype)
        return name.replace("torch.", "torch.meta.") if self.is_meta else name
    if isinstance(dtype, str) and dtype not in _TYPE_NAMES:
        raise ValueError(
            f"[type] expected one of {', '.join(_TYPE_NAMES)}, got another "
            f"(invalid type: {dtype!r})"
        )
    if isinstance(dtype, tensortype):
        dtype = dtype.dtype
    expect("type", dtype, (str, builtins.type, _C.dtype), "a type, a str or a dtype")
    return self.to(_TYPE_NAMES.get(dtype, dtype))


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """self in other's dtype, and on its device.

    The shape stays.

    >>> weft.arange(2).type_as(weft.ones(1))
    tensor([0., 1.])
    """
    return self.to(other)


@method
def element_size(self: Tensor) -> int:
    """Bytes per element.

    >>> weft.ones(2).element_size()
    4
    """
    return self.itemsize


def typename(obj: object) -> str:
    """The name of a tensor's type, such as 'torch.FloatTensor', or of any other value's.

    >>> weft.typename(weft.ones(1))
    'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    named = obj if hasattr(obj, "__qualname__") else obj.__class__
    module = getattr(named, "__module__", "") or ""
    return named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}"
