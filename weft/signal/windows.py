"""Window functions of M points, symmetric unless `sym=False`, which gives a period of M + 1 points.

Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform", 1978.
Errors: ValueError for a negative M, a dtype that is not floating, a layout that is not strided.

>>> import weft
>>> weft.signal.windows.hann(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.base.device import is_meta
from weft.base.forms import expect

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def _dtype(who: str, M: int, dtype: Any, layout: Any, device: Any) -> Any:
    is_meta(device)
    if M < 0:
        raise ValueError(f"[{who}] expected a window length of at least 0, got {M}")
    dtype = weft.get_default_dtype() if dtype is None else dtype
    expect(who, dtype, weft.dtype, "a dtype")
    if dtype not in (weft.float32, weft.float64):
        raise ValueError(f"[{who}] expected float32 or float64, got {dtype}")
    if layout not in (None, weft.strided):
        raise ValueError(
            f"[{who}] expected layout=torch.strided, got {layout}: {who} is implemented for "
            f"strided tensors only, got: {layout}"
        )
    return dtype


def _line(M: int, start: float, step: float, dtype: Any, device: Any) -> Tensor:
    return weft.linspace(start * step, (start + (M - 1)) * step, M, dtype=dtype, device=device)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-|n - center| / tau)`; a symmetric window has its center in the middle.

    The result is [M].

    >>> weft.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    dtype = _dtype("exponential", M, dtype, layout, device)
    if tau <= 0:
        raise ValueError(f"[exponential] expected tau above 0, got {tau}")
    if sym and center is not None:
        raise ValueError("[exponential] expected no center for a symmetric window, got one")
    if M == 0:
        return weft.empty(0, dtype=dtype, requires_grad=requires_grad, device=device)
    if center is None:
        center = (M if not sym and M > 1 else M - 1) / 2.0
    return (-_line(M, -center, 1 / tau, dtype, device).abs()).exp().requires_grad_(requires_grad)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`sin(pi (n + 1/2) / M)`.

    The result is [M].

    >>> weft.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    dtype = _dtype("cosine", M, dtype, layout, device)
    if M == 0:
        return weft.empty(0, dtype=dtype, requires_grad=requires_grad, device=device)
    step = math.pi / (M + 1 if not sym and M > 1 else M)
    return _line(M, 0.5, step, dtype, device).sin().requires_grad_(requires_grad)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-(n / std)^2 / 2)`, n from the middle.

    The result is [M].

    >>> weft.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    dtype = _dtype("gaussian", M, dtype, layout, device)
    if std <= 0:
        raise ValueError(f"[gaussian] expected std above 0, got {std}")
    if M == 0:
        return weft.empty(0, dtype=dtype, requires_grad=requires_grad, device=device)
    start = -(M if not sym and M > 1 else M - 1) / 2.0
    k = _line(M, start, 1 / (std * math.sqrt(2)), dtype, device)
    return (-(k * k)).exp().requires_grad_(requires_grad)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`I0(beta sqrt(1 - x^2)) / I0(beta)`, x from -1 to 1; Bessel functions by NumPy.

    The result is [M].

    >>> weft.signal.windows.kaiser(3)
    tensor([5.2773e-05, 1.0000e+00, 5.2773e-05])
    """
    import numpy as np

    dtype = _dtype("kaiser", M, dtype, layout, device)
    if beta < 0:
        raise ValueError(f"[kaiser] expected beta of at least 0, got {beta}")
    if M <= 1:
        return weft.ones(M, dtype=dtype, requires_grad=requires_grad, device=device)
    step = 2.0 * beta / (M if not sym else M - 1)
    k = np.linspace(-beta, min(beta, -beta + (M - 1) * step), M)
    window = np.i0(np.sqrt(np.maximum(beta * beta - k * k, 0))) / np.i0(float(beta))
    made = weft.from_numpy(window).to("meta" if is_meta(device) else "cpu", dtype)
    return made.requires_grad_(requires_grad)


def general_cosine(
    M: int,
    *,
    a: Sequence[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`sum of (-1)^i a[i] cos(2 pi i n / (M - 1))`. Raises TypeError or ValueError for a bad a.

    The result is [M].

    >>> weft.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    dtype = _dtype("general_cosine", M, dtype, layout, device)
    if not isinstance(a, (list, tuple)):
        raise TypeError("[general_cosine] expected coefficients in a list/tuple, got another type")
    if not a:
        raise ValueError("[general_cosine] expected coefficients, got none")
    if M <= 1:
        return weft.ones(M, dtype=dtype, requires_grad=requires_grad, device=device)
    k = _line(M, 0, 2 * math.pi / (M if not sym else M - 1), dtype, device)
    signed = weft.tensor(
        [(-1) ** i * w for i, w in enumerate(a)], dtype=dtype, device=device
    ).unsqueeze(-1)
    order = weft.arange(len(a), dtype=dtype, device=device).unsqueeze(-1)
    return (signed * (order * k).cos()).sum(0).requires_grad_(requires_grad)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """`alpha - (1 - alpha) cos(2 pi n / (M - 1))`.

    The result is [M].

    >>> weft.signal.windows.general_hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`general_hamming` with 0.54.

    The result is [M].

    >>> weft.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`general_hamming` with 0.5.

    The result is [M].

    >>> weft.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`general_cosine` with 0.42, 0.5 and 0.08.

    The result is [M].

    >>> weft.signal.windows.blackman(5).shape
    torch.Size([5])
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`general_cosine` with Nuttall's four coefficients.

    The result is [M].

    >>> weft.signal.windows.nuttall(5).shape
    torch.Size([5])
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle: `1 - |2 n / (M - 1) - 1|`.

    The result is [M].

    >>> weft.signal.windows.bartlett(3)
    tensor([0., 1., 0.])
    """
    dtype = _dtype("bartlett", M, dtype, layout, device)
    if M <= 1:
        return weft.ones(M, dtype=dtype, requires_grad=requires_grad, device=device)
    step = 2 / (M if not sym else M - 1)
    k = weft.linspace(-1, -1 + (M - 1) * step, M, dtype=dtype, device=device)
    return (1 - k.abs()).requires_grad_(requires_grad)
