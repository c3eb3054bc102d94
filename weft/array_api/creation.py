"""New arrays."""

from __future__ import annotations

from typing import Any, Literal

import weft
from weft import Tensor, dtype
from weft.base.device import expect_cpu

Shape = int | tuple[int, ...]


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: dtype | None = None,
    device: Any = None,
) -> Tensor:
    """Numbers from `start` (0 if it is alone) to before `stop`; none where `step` leads away.

    Integers give int64, others the default dtype.

    A vector of ceil((stop - start) / step) elements.

    >>> from weft import array_api as xp
    >>> xp.arange(3), xp.arange(3, 1)
    (tensor([0, 1, 2]), tensor([], dtype=torch.int64))
    """
    expect_cpu(device)
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) * step > 0:
        return weft.arange(start, stop, step, dtype=dtype)
    whole = all(isinstance(number, int) for number in (start, stop, step))
    return weft.empty(0, dtype=dtype or (weft.int64 if whole else weft.get_default_dtype()))


def asarray(
    obj: Any, /, *, dtype: dtype | None = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """An array of a number, a nested sequence, a tensor, or memory of another library.

    Of the shape of `obj`.

    Args:
        obj: numbers without a dtype give bool, int64, the default float or its complex.
        dtype: converts to it.
        device: the CPU.
        copy: True for memory of its own, False for a view or a ValueError, None for a copy where
            one is needed: of memory that may not be written, too.

    >>> from weft import array_api as xp
    >>> xp.asarray([1, 2.5])
    tensor([1.0000, 2.5000])
    """
    expect_cpu(device)
    if isinstance(obj, Tensor):
        out = obj.to(obj.dtype if dtype is None else dtype)
        if copy is False and out is not obj:
            raise ValueError(f"[asarray] expected {out.dtype} for copy=False, got {obj.dtype}")
        return out.clone() if copy and out is obj else out
    flags = getattr(obj, "flags", None)  # NumPy's
    if copy or (copy is None and flags is not None and not flags.writeable):
        return weft.tensor(obj, dtype=dtype)
    out = weft.as_tensor(obj, dtype=dtype)
    interface = getattr(obj, "__array_interface__", None)
    if copy is False and (interface is None or interface["data"][0] != out.data_ptr()):
        raise ValueError(
            f"[asarray] expected memory that can be shared for copy=False, got {type(obj).__name__}"
        )
    return out


def empty(shape: Shape, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """An array of that shape, whose values are whatever the memory holds.

    >>> from weft import array_api as xp
    >>> xp.empty((2, 3)).shape
    torch.Size([2, 3])
    """
    return weft.empty(_sizes(shape), dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """`empty` in the shape and, without one, the dtype of x.

    >>> from weft import array_api as xp
    >>> xp.empty_like(xp.ones((2, 3))).shape
    torch.Size([2, 3])
    """
    return weft.empty_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: dtype | None = None,
    device: Any = None,
) -> Tensor:
    """Zeros `(n_rows, n_cols)` with ones on the diagonal `k` columns to the right.

    [n_rows, n_cols].

    >>> from weft import array_api as xp
    >>> xp.eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    columns = n_rows if n_cols is None else n_cols
    out = weft.zeros(n_rows, columns, dtype=dtype, device=device)
    if -n_rows < k < columns:
        out.diagonal(k).fill_(1)
    return out


def from_dlpack(x: object, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array over the memory of another library's, by DLPack.

    Of the other array's shape, strides and dtype.

    Args:
        x: an object with `__dlpack__`.
        device: the CPU.
        copy: True for memory of its own.

    >>> import numpy as np
    >>> from weft import array_api as xp
    >>> xp.from_dlpack(np.arange(2))
    tensor([0, 1])
    """
    return weft.from_dlpack(x, device=device, copy=copy)


def full(
    shape: Shape, fill_value: complex, *, dtype: dtype | None = None, device: Any = None
) -> Tensor:
    """An array of one value; without a dtype that of the number's kind.

    Of the shape `shape`.

    >>> from weft import array_api as xp
    >>> xp.full(2, True)
    tensor([True, True])
    """
    return weft.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: complex, *, dtype: dtype | None = None, device: Any = None
) -> Tensor:
    """`full` in the shape and, without one, the dtype of x.

    >>> from weft import array_api as xp
    >>> xp.full_like(xp.ones(2), 7)
    tensor([7., 7.])
    """
    return weft.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` numbers at equal distances from `start` to `stop`, which is left out without
    `endpoint`.

    The result is [num].

    >>> from weft import array_api as xp
    >>> xp.linspace(0, 1, 4, endpoint=False)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    expect_cpu(device)
    if endpoint:
        return weft.linspace(start, stop, num, dtype=dtype)
    return weft.linspace(start, stop, num + 1, dtype=dtype)[:-1]


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Grids of coordinates from vectors: Cartesian ("xy") or those of matrices ("ij").

    >>> from weft import array_api as xp
    >>> xp.meshgrid(xp.arange(3), xp.arange(2))[0].shape
    torch.Size([2, 3])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"[meshgrid] expected indexing 'xy' or 'ij', got {indexing!r}")
    return weft.meshgrid(*arrays, indexing=indexing) if arrays else ()


def ones(shape: Shape, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """An array of ones, of the default dtype without another.

    Of the shape `shape`.

    >>> from weft import array_api as xp
    >>> xp.ones(2)
    tensor([1., 1.])
    """
    return weft.ones(_sizes(shape), dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """`ones` in the shape and, without one, the dtype of x.

    >>> from weft import array_api as xp
    >>> xp.ones_like(xp.asarray([2, 3]))
    tensor([1, 1])
    """
    return weft.ones_like(x, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Matrices `(..., m, n)` with zeros above the diagonal `k` columns to the right.

    >>> from weft import array_api as xp
    >>> xp.tril(xp.ones((2, 2)))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return weft.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Matrices `(..., m, n)` with zeros below the diagonal `k` columns to the right.

    >>> from weft import array_api as xp
    >>> xp.triu(xp.ones((2, 2)))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return weft.triu(x, k)


def zeros(shape: Shape, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """An array of zeros, of the default dtype without another.

    Of the shape `shape`.

    >>> from weft import array_api as xp
    >>> xp.zeros(2)
    tensor([0., 0.])
    """
    return weft.zeros(_sizes(shape), dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """`zeros` in the shape and, without one, the dtype of x.

    >>> from weft import array_api as xp
    >>> xp.zeros_like(xp.asarray([2, 3]))
    tensor([0, 0])
    """
    return weft.zeros_like(x, dtype=dtype, device=device)
