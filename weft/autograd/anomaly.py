"""Anomaly mode: errors in backward name the forward call, nan is refused. PyTorch's semantics."""

from __future__ import annotations

import warnings

from weft import _C
from weft._C import is_anomaly_check_nan_enabled, is_anomaly_enabled

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled",
           "set_anomaly_enabled", "set_detect_anomaly"]  # fmt: skip


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turns anomaly mode on or off at once.

    >>> weft.set_anomaly_enabled(False)
    >>> weft.is_anomaly_enabled()
    False
    """
    _C._set_anomaly(mode, check_nan)


class set_detect_anomaly:
    """Turns anomaly mode on or off at once; as a context manager, until the scope ends.

    The mode is the process's, not the thread's, as in PyTorch.

    >>> with weft.autograd.set_detect_anomaly(True):
    ...     weft.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = is_anomaly_enabled()
        self.prev_check_nan = is_anomaly_check_nan_enabled()
        _C._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        _C._stay(1)  # another example would find the mode on, and leave it on

    def __exit__(self, *exc: object) -> None:
        _C._stay(-1)
        _C._set_anomaly(self.prev, self.prev_check_nan)


class detect_anomaly:
    """Nodes made in this scope remember their stack: an error in one's backward warns with it.

    With `check_nan`, a backward whose result has a nan raises RuntimeError. Slow: for debugging.

    >>> x = weft.tensor(-1., requires_grad=True)
    >>> with weft.autograd.detect_anomaly():
    ...     x.sqrt().backward()
    Traceback (most recent call last):
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and "
            "should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._scope = set_detect_anomaly(True, self.check_nan)
        self._scope.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._scope.__exit__()
