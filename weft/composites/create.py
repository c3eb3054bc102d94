"""New tensors. PyTorch's semantics."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor, dtype
from weft.base.device import expect_plain, is_meta
from weft.base.forms import method, write_out

__all__ = ["empty_strided", "range", "scalar_tensor", "tril_indices", "triu_indices", "vander"]


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """An uninitialised tensor of that shape and those strides (in elements).

    >>> weft.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    expect_plain("empty_strided", device, layout, pin_memory)
    if any(s < 0 for s in stride):
        raise RuntimeError(f"[empty_strided] expected strides of at least 0, got {tuple(stride)}")
    empty = 0 in size
    span = 0 if empty else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    out = (
        weft.empty(span, dtype=dtype, device=device).as_strided(tuple(size), tuple(stride)).detach()
    )
    return out.requires_grad_() if requires_grad else out


def scalar_tensor(
    s: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A 0-d tensor, of the default dtype if none is given.

    >>> weft.scalar_tensor(2)
    tensor(2.)
    """
    expect_plain("scalar_tensor", device, layout)
    kind = weft.get_default_dtype() if dtype is None else dtype
    return weft.full((), s, dtype=kind, device=device, requires_grad=requires_grad)


def range(  # noqa: A001
    start: float,
    end: float,
    step: float = 1,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """`arange` that includes its end, in the default dtype; older, and best avoided.

    A vector of floor((end - start) / step) + 1 elements.

    >>> weft.range(1, 4)
    tensor([1., 2., 3., 4.])
    """
    expect_plain("range", device, layout, pin_memory)
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        stacklevel=2,
    )
    kind = dtype or (weft.get_default_dtype() if out is None else out.dtype)
    if out is not None and out.dtype is not kind:
        raise RuntimeError(
            f"[range] expected an out= of the dtype asked for, {kind}, got {out.dtype} (dtype does "
            "not match dtype of out parameter)"
        )
    if not (kind.is_floating_point or kind.is_complex):
        start, end, step = int(start), int(end), int(step)
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(
            f"[range] expected finite bounds, got {start} and {end} (unsupported range)"
        )
    if step == 0:
        raise RuntimeError("[range] expected a step that is not 0, got 0 (step must be nonzero)")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"[range] expected an end in the step's direction, got {start} to {end} by {step} "
            "(upper bound and larger bound inconsistent with step sign)"
        )
    count = int((end - start) / step) + 1
    line = weft.arange(count, dtype=weft.float64 if kind.is_floating_point else kind, device=device)
    values = (start + line * step).to(kind).requires_grad_(requires_grad)
    return values if out is None else write_out("range", out, values)


def _triangle(row: int, col: int, offset: int, lower: bool, dtype: Any, device: Any) -> Tensor:
    if row < 0 or col < 0:
        raise RuntimeError(f"[tril_indices] expected sizes of at least 0, got {row} and {col}")
    if lower:  # no row reaches beyond its diagonal
        col = min(col, max(row + offset, 0))
    distance = weft.arange(col, device="cpu") - weft.arange(row, device="cpu").unsqueeze(1)
    inside = distance <= offset if lower else distance >= offset
    places = inside.nonzero().t().contiguous()
    return places.to("meta" if is_meta(device) else "cpu", _C.int64 if dtype is None else dtype)


def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: _C.dtype | None = None,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """Row and column numbers `[2, n]` of a lower triangle, row by row.

    >>> weft.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    expect_plain("tril_indices", device, layout)
    return _triangle(row, col, offset, True, dtype, device)


def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: _C.dtype | None = None,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """Row and column numbers `[2, n]` of an upper triangle, row by row.

    >>> weft.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    expect_plain("triu_indices", device, layout)
    return _triangle(row, col, offset, False, dtype, device)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of a vector's elements as columns, falling unless `increasing`.

    >>> weft.vander(weft.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    if x.dim() != 1:
        raise RuntimeError(
            f"[vander] expected a vector, got {x.dim()} dimensions (x must be a one-dimensional "
            "tensor.)"
        )
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"[vander] expected N of at least 0, got {count}")
    powers = weft.arange(count, device=x.device)
    return x.unsqueeze(-1) ** (powers if increasing else powers.flip(0))


# ---- new tensors like this one


def _factory(name: str) -> None:
    def make(
        self: Tensor, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any
    ) -> Tensor:
        kind = self.dtype if dtype is None else dtype
        place = self.device if device is None else device
        made: Tensor = getattr(weft, name)(*args, dtype=kind, device=place, **kwargs)
        return made

    make.__name__ = "new_" + name
    fill = ", 7" if name == "full" else ""
    make.__doc__ = f"""weft.{name}(size, ...), of self's dtype and device unless others are given.

    >>> weft.ones(2, dtype=weft.int64).new_{name}((2, 3){fill}).dtype
    torch.int64
    """
    method(make)


for _name in ("zeros", "ones", "empty", "full"):
    _factory(_name)


@method
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A copy of `data` in self's dtype.

    Of the shape of `data`.

    >>> weft.ones(2, dtype=weft.int64).new_tensor([1, 2])
    tensor([1, 2])
    """
    return weft.tensor(
        data,
        dtype=self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        requires_grad=requires_grad,
    )


@method
def new_empty_strided(
    self: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """An uninitialised tensor of those sizes and strides, of self's dtype.

    >>> weft.ones(2).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    return weft.empty_strided(
        size,
        stride,
        dtype=self.dtype if dtype is None else dtype,
        layout=layout,
        device=self.device if device is None else device,
        requires_grad=requires_grad,
        pin_memory=pin_memory,
    )


@method
def new(self: Tensor, *args: Any) -> Tensor:
    """A tensor of self's dtype: of sizes, or of data; older form of `new_empty`, `new_tensor`.

    >>> weft.ones(2, dtype=weft.int64).new([1.5, 2])
    tensor([1, 2])
    """
    if len(args) == 1 and not isinstance(args[0], (int, _C.Size)):
        if isinstance(args[0], Tensor):
            return args[0].detach().to(self.dtype)
        return self.new_tensor(args[0])
    return self.new_empty(*args) if args else self.new_empty(0)
