"""Warnings that point at the user's line, however many of our own frames lie in between."""

from __future__ import annotations

import warnings

from weft import _C
from weft.base.frames import user_level


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost frame outside of weft.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("careful")
    >>> str(caught[0].message)
    'careful'
    """
    if not _C._warn_in_program(message, category):
        warnings.warn(message, category, stacklevel=user_level())
