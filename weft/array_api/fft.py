"""The standard's transforms: weft's, with its names of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import weft.fft
from weft import Tensor, dtype
from weft.base.forms import doc_after as _doc_after

Norm = Literal["backward", "ortho", "forward"]


class _Along(Protocol):
    """A transform along one axis."""

    def __call__(
        self, x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
    ) -> Tensor: ...


class _Over(Protocol):
    """A transform along several axes."""

    def __call__(
        self,
        x: Tensor,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: Norm = "backward",
    ) -> Tensor: ...


def _along(function: Callable[..., Tensor]) -> _Along:
    def run(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
    ) -> Tensor:
        return function(x, n, axis, norm)

    run.__name__ = run.__qualname__ = name = function.__name__
    first = f"`weft.fft.{name}` of `x`, cut or padded to the size `n`, along `axis`."
    run.__doc__ = _doc_after(first, function)
    return run


def _over(function: Callable[..., Tensor]) -> _Over:
    def run(
        x: Tensor,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: Norm = "backward",
    ) -> Tensor:
        return function(x, s, axes, norm)

    run.__name__ = run.__qualname__ = name = function.__name__
    first = f"`weft.fft.{name}` of `x`, cut or padded to the sizes `s`, along `axes`."
    run.__doc__ = _doc_after(first, function)
    return run


fft, ifft = _along(weft.fft.fft), _along(weft.fft.ifft)
rfft, irfft = _along(weft.fft.rfft), _along(weft.fft.irfft)
hfft, ihfft = _along(weft.fft.hfft), _along(weft.fft.ihfft)
fftn, ifftn = _over(weft.fft.fftn), _over(weft.fft.ifftn)
rfftn, irfftn = _over(weft.fft.rfftn), _over(weft.fft.irfftn)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """`weft.fft.fftfreq`: the frequencies of n numbers that lie d apart.

    A vector [n].

    >>> from weft import array_api as xp
    >>> xp.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return weft.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: Any = None
) -> Tensor:
    """`weft.fft.rfftfreq`: the frequencies of `rfft`'s n // 2 + 1 numbers.

    A vector [n // 2 + 1].

    >>> from weft import array_api as xp
    >>> xp.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    return weft.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """`weft.fft.fftshift`: the frequency 0 in the middle of each of the axes, or of all.

    Of x's shape.

    >>> from weft import array_api as xp
    >>> xp.fft.fftshift(xp.asarray([0, 1, -2, -1]))
    tensor([-2, -1,  0,  1])
    """
    return weft.fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """`weft.fft.ifftshift`: undoes `fftshift`.

    Of x's shape.

    >>> from weft import array_api as xp
    >>> xp.fft.ifftshift(xp.asarray([-2, -1, 0, 1]))
    tensor([ 0,  1, -2, -1])
    """
    return weft.fft.ifftshift(x, axes)
