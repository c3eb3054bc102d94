"""Random tensors for tests, by dtype."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import Tensor

__all__ = ["make_tensor"]


def _bounds(dtype: weft.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds that were given, or the dtype's own, within what it can be."""
    floats = dtype.is_floating_point or dtype.is_complex
    least: float
    most: float
    if dtype is weft.bool:
        least, most, own = 0, 2, (0, 2)
    elif floats:
        info = weft.finfo(dtype)
        least, most, own = info.min, info.max, (-9, 9)
    else:
        whole = weft.iinfo(dtype)
        least, most, own = whole.min, whole.max + (dtype is not weft.int64), (-9, 10)
    low, high = (own[0] if low is None else low), (own[1] if high is None else high)
    if math.isnan(low) or math.isnan(high):
        raise ValueError(
            f"[make_tensor] expected numbers, got {low} and {high}: `low` and `high` cannot be NaN"
        )
    if low > high or (low == high and not floats):
        raise ValueError(
            f"[make_tensor] expected low below high, got {low} and {high}: `low` must be less than "
            f"`high`, but got {low} >= {high}"
        )
    if high < least or low >= most:
        raise ValueError(
            f"[make_tensor] expected bounds within {dtype}, got {low} and {high}: {dtype} only "
            f"supports [{least}, {most})"
        )
    low, high = max(low, least), min(high, most)
    return (low, high) if floats else (math.ceil(low), math.ceil(high))


def make_tensor(
    *shape: Any,
    dtype: weft.dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: weft.memory_format | None = None,
) -> Tensor:
    """A tensor of `shape` with values drawn uniformly from `low` to `high`, which is left out.

    Args:
        shape: numbers, or one sequence of them.
        low, high: bounds; by default 0 and 2 of bools, -9 (of unsigned dtypes 0) and 10 of
            integers, -9 and 9 of floats and of both parts of complex numbers.
        noncontiguous: whether the elements lie two apart.
        exclude_zero: whether zeros become 1, of floats the smallest normal number.

    Raises: ValueError for bounds without numbers between them or beyond the dtype, for a gradient
    of integers, and for `noncontiguous` with a memory format.

    >>> from weft.testing import make_tensor
    >>> x = make_tensor((2, 3), dtype=weft.float32, device="cpu", low=-1, high=1)
    >>> x.shape, bool((x.abs() <= 1).all())
    (torch.Size([2, 3]), True)
    """
    sizes = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
    floats = dtype.is_floating_point or dtype.is_complex
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "[make_tensor] expected noncontiguous or a memory format, got both: The parameters "
            "`noncontiguous` and `memory_format` are mutually exclusive"
        )
    if requires_grad and not floats:
        raise ValueError(
            f"[make_tensor] expected a floating dtype, got {dtype}: `requires_grad=True` is not "
            "supported for boolean and integral dtypes"
        )
    low, high = _bounds(dtype, low, high)
    apart = noncontiguous and math.prod(sizes) > 1
    if apart:
        sizes[-1] *= 2
    if not floats:
        out = weft.randint(int(low), int(high), sizes, dtype=dtype, device=device)
    elif dtype.itemsize == 1:
        out = weft.empty(sizes, device=device).uniform_(low, high).to(dtype)
    else:
        out = weft.empty(sizes, dtype=dtype, device=device)
        (weft.view_as_real(out) if dtype.is_complex else out).uniform_(low, high)
    if apart:
        out = out[..., 1::2]
    elif memory_format is not None:
        out = out.clone(memory_format=memory_format)
    if exclude_zero:
        out[out == 0] = weft.finfo(dtype).tiny if floats else 1
    return out.requires_grad_(requires_grad) if floats else out
