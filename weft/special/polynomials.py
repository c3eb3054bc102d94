"""Orthogonal polynomials of degree n, by their three-term recurrences (DLMF 18.9).

`n` is a tensor or a number; below 0 the result is 0. Not differentiable, as PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.special.pointwise import pointwise

_SAMPLES = ["f(T(2, 3, lo=-1, hi=1), torch.tensor([[2], [3]]))", "f(T(4), 5)", "f(0.5, T(3))"]


def _recurrence(x: Any, n: Any, first: Callable[..., Any], step: Callable[..., Any]) -> Any:
    """p(n) of p(0) = 1, p(1) = first(x), p(k + 1) = step(k, x, p(k), p(k - 1)); in float64."""
    import numpy as np

    kind = x.dtype
    x, degree = x.astype("float64"), _degree(n)
    before, now = np.ones_like(x), first(x)
    out = np.where(degree == 0, before, np.where(degree < 0, 0.0, now))
    top = int(degree.max(initial=0))
    with np.errstate(all="ignore"):
        for k in range(1, top):
            before, now = now, step(k, x, now, before)
            out = np.where(degree == k + 1, now, out)
            if np.isnan(now[degree > k]).all():  # all that is left
                out = np.where(degree > k, np.nan, out)
                break
    return np.where(np.isnan(x) & (degree > 0), np.nan, out).astype(kind)


def _degree(n: Any) -> Any:
    """Whole numbers; -1 for those that no int64 holds."""
    import numpy as np

    return np.where(np.abs(n) < 2.0**63, np.trunc(n), -1.0)


def _chebyshev_of(x: Any, n: Any, first: Callable[..., Any], of_angle: Callable[..., Any]) -> Any:
    """By the recurrence; inside of (-1, 1), for high degrees, by a quotient of sines."""
    import numpy as np

    degree = _degree(n)
    wave = (np.abs(x) < 1) & (degree > 8)
    out = _recurrence(x, np.where(wave, 0.0, degree), first, _chebyshev)
    if not wave.any():
        return out
    angle = np.arccos(np.where(wave, x, 0.0).astype("float64"))
    return np.where(wave, of_angle(angle, degree), out).astype(out.dtype)


def _first_kind(x: Any, n: Any) -> Any:
    """cos(n a) of a = arccos(x)."""
    return _chebyshev_of(x, n, lambda x: x, lambda a, n: _np().cos(n * a))


def _second_kind(x: Any, n: Any) -> Any:
    """sin((n + 1) a) / sin(a)."""
    return _chebyshev_of(x, n, lambda x: 2 * x, lambda a, n: _np().sin((n + 1) * a) / _np().sin(a))


def _third_kind(x: Any, n: Any) -> Any:
    """cos((n + 1/2) a) / cos(a / 2)."""
    return _chebyshev_of(
        x, n, lambda x: 2 * x - 1, lambda a, n: _np().cos((n + 0.5) * a) / _np().cos(a / 2)
    )


def _fourth_kind(x: Any, n: Any) -> Any:
    """sin((n + 1/2) a) / sin(a / 2)."""
    return _chebyshev_of(
        x, n, lambda x: 2 * x + 1, lambda a, n: _np().sin((n + 0.5) * a) / _np().sin(a / 2)
    )


def _np() -> Any:
    import numpy as np

    return np


def _chebyshev(k: int, x: Any, now: Any, before: Any) -> Any:
    return 2 * x * now - before


@pointwise("special_chebyshev_polynomial_t", samples=_SAMPLES)
def chebyshev_polynomial_t(input: Any, n: Any) -> Any:
    """Chebyshev's of the first kind.

    >>> weft.special.chebyshev_polynomial_t(weft.tensor([0.5]), 2)
    tensor([-0.5000])
    """
    return _first_kind(input, n)


@pointwise("special_chebyshev_polynomial_u", samples=_SAMPLES)
def chebyshev_polynomial_u(input: Any, n: Any) -> Any:
    """Chebyshev's of the second kind.

    >>> weft.special.chebyshev_polynomial_u(weft.tensor([0.5]), 2)
    tensor([0.])
    """
    return _second_kind(input, n)


@pointwise("special_chebyshev_polynomial_v", samples=_SAMPLES)
def chebyshev_polynomial_v(input: Any, n: Any) -> Any:
    """Chebyshev's of the third kind.

    >>> weft.special.chebyshev_polynomial_v(weft.tensor([0.5]), 2)
    tensor([-1.])
    """
    return _third_kind(input, n)


@pointwise("special_chebyshev_polynomial_w", samples=_SAMPLES)
def chebyshev_polynomial_w(input: Any, n: Any) -> Any:
    """Chebyshev's of the fourth kind.

    >>> weft.special.chebyshev_polynomial_w(weft.tensor([0.5]), 2)
    tensor([1.])
    """
    return _fourth_kind(input, n)


@pointwise("special_shifted_chebyshev_polynomial_t", samples=_SAMPLES)
def shifted_chebyshev_polynomial_t(input: Any, n: Any) -> Any:
    """chebyshev_polynomial_t(2 input - 1, n).

    >>> weft.special.shifted_chebyshev_polynomial_t(weft.tensor([0.5]), 2)
    tensor([-1.])
    """
    return _first_kind(2 * input - 1, n)


@pointwise("special_shifted_chebyshev_polynomial_u", samples=_SAMPLES)
def shifted_chebyshev_polynomial_u(input: Any, n: Any) -> Any:
    """chebyshev_polynomial_u(2 input - 1, n).

    >>> weft.special.shifted_chebyshev_polynomial_u(weft.tensor([0.5]), 2)
    tensor([-1.])
    """
    return _second_kind(2 * input - 1, n)


@pointwise("special_shifted_chebyshev_polynomial_v", samples=_SAMPLES)
def shifted_chebyshev_polynomial_v(input: Any, n: Any) -> Any:
    """chebyshev_polynomial_v(2 input - 1, n).

    >>> weft.special.shifted_chebyshev_polynomial_v(weft.tensor([0.5]), 2)
    tensor([-1.])
    """
    return _third_kind(2 * input - 1, n)


@pointwise("special_shifted_chebyshev_polynomial_w", samples=_SAMPLES)
def shifted_chebyshev_polynomial_w(input: Any, n: Any) -> Any:
    """chebyshev_polynomial_w(2 input - 1, n).

    >>> weft.special.shifted_chebyshev_polynomial_w(weft.tensor([0.5]), 2)
    tensor([-1.])
    """
    return _fourth_kind(2 * input - 1, n)


@pointwise("special_hermite_polynomial_h", samples=_SAMPLES)
def hermite_polynomial_h(input: Any, n: Any) -> Any:
    """Hermite's, the physicist's.

    >>> weft.special.hermite_polynomial_h(weft.tensor([0.5]), 2)
    tensor([-1.])
    """
    return _recurrence(
        input, n, lambda x: 2 * x, lambda k, x, now, before: 2 * (x * now - k * before)
    )


@pointwise("special_hermite_polynomial_he", samples=_SAMPLES)
def hermite_polynomial_he(input: Any, n: Any) -> Any:
    """Hermite's, the probabilist's.

    >>> weft.special.hermite_polynomial_he(weft.tensor([0.5]), 2)
    tensor([-0.7500])
    """
    return _recurrence(input, n, lambda x: x, lambda k, x, now, before: x * now - k * before)


@pointwise("special_laguerre_polynomial_l", samples=_SAMPLES)
def laguerre_polynomial_l(input: Any, n: Any) -> Any:
    """Laguerre's.

    >>> weft.special.laguerre_polynomial_l(weft.tensor([0.5]), 2)
    tensor([0.1250])
    """
    return _recurrence(
        input, n, lambda x: 1 - x,
        lambda k, x, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1),
    )  # fmt: skip


@pointwise("special_legendre_polynomial_p", samples=_SAMPLES)
def legendre_polynomial_p(input: Any, n: Any) -> Any:
    """Legendre's.

    >>> weft.special.legendre_polynomial_p(weft.tensor([0.5]), 2)
    tensor([-0.1250])
    """
    return _recurrence(
        input, n, lambda x: x,
        lambda k, x, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1),
    )  # fmt: skip
