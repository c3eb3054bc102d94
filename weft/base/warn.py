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


_told: set[str] = set()


def warn_once(message: str, category: type[Warning] = UserWarning) -> None:
    """The same, once in a process.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     for _ in range(2):
    ...         warn_once("once is enough")
    >>> len(caught)
    1
    """
    if message not in _told:
        _told.add(message)
        warn(message, category)
