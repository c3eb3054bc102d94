"""Warnings that point at the user's line, however many of our own frames lie in between."""

from __future__ import annotations

import sys
import warnings

from weft import _C


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost frame outside of weft.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("careful")
    >>> str(caught[0].message)
    'careful'
    """
    if _C._warn_in_program(message, category):
        return
    level = 1
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "weft":
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
