"""Window functions under their older names; `weft.signal.windows` has them all."""

from __future__ import annotations

from typing import Any

from weft._C import Tensor

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _window(name: str, length: int, periodic: bool, options: dict[str, Any]) -> Tensor:
    from weft.signal import windows

    if length < 0:
        raise RuntimeError(f"[{name}_window] expected a length of at least 0, got {length}")
    window: Tensor = getattr(windows, name)(length, sym=not periodic, **options)
    return window


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Hann's window; a period of it unless `periodic` is false.

    [window_length], of the default dtype unless `dtype` is given.

    >>> weft.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann", window_length, periodic, options)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **options: Any,
) -> Tensor:
    """`alpha - beta cos(2 pi n / N)`.

    [window_length], of the default dtype unless `dtype` is given; a period unless `periodic` is
    false.

    >>> weft.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    from weft.signal import windows

    if alpha + beta == 1:
        return windows.general_hamming(window_length, alpha=alpha, sym=not periodic, **options)
    return windows.general_cosine(window_length, a=[alpha, beta], sym=not periodic, **options)


def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Bartlett's triangle.

    [window_length], of the default dtype unless `dtype` is given; a period unless `periodic` is
    false.

    >>> weft.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("bartlett", window_length, periodic, options)


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Blackman's window.

    [window_length], of the default dtype unless `dtype` is given; a period unless `periodic` is
    false.

    >>> weft.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return _window("blackman", window_length, periodic, options)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any
) -> Tensor:
    """Kaiser's window, an even function of `beta`.

    [window_length], of the default dtype unless `dtype` is given; a period unless `periodic` is
    false.

    >>> weft.kaiser_window(3, periodic=False)
    tensor([5.2773e-05, 1.0000e+00, 5.2773e-05])
    """
    return _window("kaiser", window_length, periodic, {**options, "beta": abs(beta)})
