"""Functions of the package that need no kernel of their own. PyTorch's semantics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import _C, _composites
from weft._C import Size, Tensor, dtype, get_default_dtype, set_default_dtype
from weft._composites import *  # noqa: F403
from weft._device import expect_cpu

__all__ = [
    "allclose", "as_tensor", "asarray", "broadcast_shapes", "broadcast_tensors", "can_cast",
    "cartesian_prod", "empty_strided", "equal", "finfo", "from_dlpack", "from_numpy",
    "get_default_dtype", "iinfo", "is_complex",
    "is_floating_point", "is_nonzero", "is_tensor", "lstm_cell", "meshgrid", "nonzero", "numel",
    "result_type", "set_default_dtype", "set_printoptions", "where",
]  # fmt: skip
__all__ += _composites.__all__


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def _expect(who: str, value: Any, kind: type | tuple[type, ...], what: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"[{who}] expected {what}, got {type(value).__name__}")


def numel(input: Tensor) -> int:
    """The number of elements."""
    _expect("numel", input, Tensor, "a Tensor")
    return input.numel()


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is floating."""
    _expect("is_floating_point", input, Tensor, "a Tensor")
    return input.dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""
    _expect("is_complex", input, Tensor, "a Tensor")
    return input.dtype.is_complex


def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not zero."""
    _expect("is_nonzero", input, Tensor, "a Tensor")
    return bool(input)


def from_numpy(array: Any) -> Tensor:
    """A tensor over the memory of a NumPy array of a dtype that weft has.

    >>> import numpy as np
    >>> weft.from_numpy(np.array([1., 2.]))
    tensor([1., 2.], dtype=torch.float64)
    """
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise TypeError(f"[from_numpy] expected an np.ndarray, got {type(array).__name__}")
    return _C._sharing(array)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of an array of another library, or of a DLPack capsule.

    >>> import numpy as np
    >>> weft.from_dlpack(np.array([1., 2.]))
    tensor([1., 2.], dtype=torch.float64)
    """
    expect_cpu(device)
    if hasattr(ext_tensor, "__dlpack__"):
        try:
            capsule = ext_tensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = ext_tensor.__dlpack__()
    else:
        capsule = ext_tensor
    out = _C._from_dlpack(capsule)
    return out.clone() if copy else out


def as_tensor(data: Any, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor: itself or its memory where that is possible, else a copy."""
    expect_cpu(device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if hasattr(data, "__array_interface__"):
        try:
            shared = _C._sharing(data)
        except (TypeError, ValueError, BufferError):
            return _C.tensor(data, dtype=dtype)
        return shared if dtype is None else shared.to(dtype)
    return _C.tensor(data, dtype=dtype)


def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` as a tensor; `copy=True` never shares memory."""
    expect_cpu(device)
    out = _C.tensor(obj, dtype=dtype) if copy else as_tensor(obj, dtype, device)
    return out.detach().requires_grad_() if requires_grad else out


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """An uninitialised tensor of that shape and those strides (in elements)."""
    if any(s < 0 for s in stride):
        raise RuntimeError(f"[empty_strided] expected strides of at least 0, got {tuple(stride)}")
    empty = 0 in size
    span = 0 if empty else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    out = weft.empty(span, dtype=dtype).as_strided(tuple(size), tuple(stride)).detach()
    return out.requires_grad_() if requires_grad else out


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all values are equal.

    >>> weft.equal(weft.ones(2), weft.ones(2))
    True
    """
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        raise TypeError(f"[equal] expected two tensors, got {type(other).__name__}")
    return input.shape == other.shape and bool((input == other).all())


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether |input - other| <= atol + rtol * |other| everywhere, with broadcasting."""
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        raise TypeError(f"[allclose] expected two tensors, got {type(other).__name__}")
    return bool(weft.isclose(input, other, rtol, atol, equal_nan).all())


def where(
    condition: Tensor,
    input: Any = None,
    other: Any = None,
    *,
    self: Any = None,
    out: Tensor | None = None,
) -> Any:
    """`input` where the condition holds, else `other`; with the condition alone, its true indices.

    >>> weft.where(weft.tensor([True, False]), 1.0, 2.0)
    tensor([1., 2.])
    """
    input = self if input is None else input
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if out is not None:
        return _C.ops.where(condition, input, other, out=out)
    return _C.ops.where(condition, input, other)


def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """Indices of the elements that are not zero: [n, dim] int64, or a tuple of dim tensors [n].

    >>> weft.nonzero(weft.tensor([0, 3, 0, 5]))
    tensor([[1],
            [3]])
    """
    scalar = as_tuple and isinstance(input, Tensor) and input.dim() == 0
    found = _C.ops.nonzero(input.reshape(1) if scalar else input)
    if out is not None:
        return _composites.write_out("nonzero", out, found)
    return found.unbind(1) if as_tuple else found


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to."""
    out: list[int] = []
    for shape in shapes:
        sizes = [shape] if isinstance(shape, int) else list(shape)
        if any(n < 0 for n in sizes):
            raise ValueError(f"[broadcast_shapes] expected sizes of at least 0, got {sizes}")
        width = max(len(out), len(sizes))
        out = [1] * (width - len(out)) + out
        sizes = [1] * (width - len(sizes)) + sizes
        for i, (a, b) in enumerate(zip(out, sizes, strict=True)):
            if a != b and 1 not in (a, b):
                raise RuntimeError(
                    f"[broadcast_shapes] expected shapes that broadcast, got {shapes}"
                )
            out[i] = b if a == 1 else a
    return Size(out)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, expanded to their common shape."""
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Grids of coordinates from 1-D tensors, in matrix ('ij') or Cartesian ('xy') order.

    >>> weft.meshgrid(weft.arange(3), weft.arange(2), indexing="xy")[0].shape
    torch.Size([2, 3])
    """
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"[meshgrid] expected indexing 'ij' or 'xy', got {indexing!r}")
    for t in tensors:
        _expect("meshgrid", t, Tensor, "tensors")
        if t.dim() > 1:
            raise RuntimeError(f"[meshgrid] expected 0-d or 1-D tensors, got {t.dim()} dimensions")
    swap = indexing == "xy" and len(tensors) >= 2
    if swap:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    shape = tuple(t.numel() for t in tensors)
    grids = []
    for i, t in enumerate(tensors):
        view = [1] * len(tensors)
        view[i] = -1
        grids.append(t.reshape(view).expand(shape))
    return (grids[1], grids[0], *grids[2:]) if swap else tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of 1-D tensors, one per row."""
    if len(tensors) == 1:
        return tensors[0]
    return weft.stack([g.reshape(-1) for g in meshgrid(*tensors)], 1)


def _category(kind: dtype) -> int:
    """0 bool, 1 integer, 2 floating, 3 complex: promotion never goes down."""
    if kind.is_complex:
        return 3
    return 2 if kind.is_floating_point else int(kind is not _C.bool)


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether the conversion keeps the category: no complex to float, no float to int, no number
    to bool."""
    for kind in (from_, to):
        _expect("can_cast", kind, dtype, "two dtypes")
    return _category(from_) <= _category(to)


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
            _expect("result_type", operand, (bool, int, float, complex), "tensors or numbers")
            rank, kind = 0, _C.tensor(operand).dtype
        known = ranks[rank]
        ranks[rank] = kind if known is None else _C.promote_types(known, kind)
    out = None
    for kind in reversed(ranks):
        if kind is not None and (out is None or _category(kind) > _category(out)):
            floating = out is not None and out.is_floating_point
            out = out.to_complex() if floating else kind
    assert out is not None
    return out


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One LSTM step: input [..., in], hx = (h, c) [..., d], w_ih [4d, in], w_hh [4d, d]."""
    h, c = hx
    return _C.ops._lstm_cell(input, h, c, w_ih, w_hh, b_ih, b_hh)


_PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, 2**63 - 1, 3, 80)}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors print: digits, when to summarise, elements at the edges, line width, exponents.

    `profile`: 'default', 'short' or 'full'. `sci_mode=None` chooses by the values.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"[set_printoptions] expected default, short or full, got {profile!r}")
        _C._print_options(*_PROFILES[profile], None)
    limit = None if threshold is None else int(min(threshold, 2**63 - 1))
    _C._print_options(
        precision, limit, edgeitems, linewidth, -1 if sci_mode is None else int(sci_mode)
    )


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
    }

    def __init__(self, type: dtype | None = None) -> None:
        type = get_default_dtype() if type is None else type
        _expect("finfo", type, dtype, "a dtype")
        type = type.to_real()
        if type not in self._limits:
            raise TypeError(f"[finfo] expected a floating dtype, got {type}")
        self.bits, self.eps, self.max, self.tiny, self.resolution = self._limits[type]
        self.min = -self.max
        self.smallest_normal = self.tiny
        self.dtype = str(type).removeprefix("torch.")

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
        _expect("iinfo", type, dtype, "a dtype")
        if type.is_floating_point or type.is_complex or type is _C.bool:
            raise TypeError(f"[iinfo] expected an integer dtype, got {type}")
        self.bits = 8 * type.itemsize
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = self.min + 2**self.bits - 1
        self.dtype = str(type).removeprefix("torch.")

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


def _function_of(method: str) -> Any:
    def run(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        _expect(method, input, Tensor, "a Tensor")
        return getattr(input, method)(*args, **kwargs)

    run.__name__ = run.__qualname__ = method
    run.__doc__ = f"`input.{method}(...)`."
    return run


for _name in (
    "addmv_", "as_strided_", "detach", "detach_", "is_inference", "is_same_size", "ldexp_", "zero_",
):  # fmt: skip
    globals()[_name] = _function_of(_name)
    __all__.append(_name)
