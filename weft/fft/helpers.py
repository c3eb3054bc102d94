"""The frequencies of a transform's numbers, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import weft
from weft import Tensor
from weft.base.device import expect_plain
from weft.base.forms import write_out


def _frequencies(who: str, first: Tensor, n: int, d: float, out: Any, grad: bool) -> Tensor:
    result = first / (n * d)
    if out is not None:
        return write_out(who, out, result)
    return result.requires_grad_() if grad else result


def _line(who: str, start: int, end: int, dtype: Any, device: Any, layout: Any) -> Tensor:
    expect_plain(who, device, layout)
    dtype = weft.get_default_dtype() if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            f"[{who}] expected a floating point or complex dtype, got {dtype} ({who} requires a "
            "floating point or complex dtype)"
        )
    return weft.arange(start, end, dtype=dtype, device=device)


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of `fft`'s n numbers, for samples that lie d apart.

    A vector [n], of the default dtype unless `dtype` is given.

    >>> weft.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    line = weft.cat([
        _line("fft.fftfreq", 0, (n + 1) // 2, dtype, device, layout),
        _line("fft.fftfreq", -(n // 2), 0, dtype, device, layout),
    ])  # fmt: skip
    return _frequencies("fft.fftfreq", line, n, d, out, requires_grad)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of `rfft`'s n // 2 + 1 numbers, for samples that lie d apart.

    A vector [n // 2 + 1], of the default dtype unless `dtype` is given.

    >>> weft.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    line = _line("fft.rfftfreq", 0, n // 2 + 1, dtype, device, layout)
    return _frequencies("fft.rfftfreq", line, n, d, out, requires_grad)


def _rolled(input: Tensor, dim: Any, back: bool) -> Tensor:
    if dim is None:
        dim = range(input.dim())
    dims = list(dim) if isinstance(dim, (list, tuple, range)) else [index(dim)]
    if not dims:
        return input.clone()
    halves = [(input.shape[d] + 1) // 2 if back else input.shape[d] // 2 for d in dims]
    return weft.roll(input, halves, dims)


def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Puts the frequency 0 into the middle, along `dim` (one or several; default: all).

    Of the input's shape.

    >>> weft.fft.fftshift(weft.tensor([0, 1, -2, -1]))
    tensor([-2, -1,  0,  1])
    """
    return _rolled(input, dim, back=False)


def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Undoes `fftshift`.

    Of the input's shape.

    >>> weft.fft.ifftshift(weft.tensor([-2, -1, 0, 1]))
    tensor([ 0,  1, -2, -1])
    """
    return _rolled(input, dim, back=True)
