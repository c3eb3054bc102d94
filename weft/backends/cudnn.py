"""cuDNN's switches: without a GPU they have nothing to switch, in PyTorch either."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False."""
    return False


def version() -> None:
    """None."""
    return None


@contextmanager
def flags(**switches: Any) -> Iterator[None]:
    """Other switches inside of a `with`. TypeError for a name that is none.

    >>> with weft.backends.cudnn.flags(deterministic=True):
    ...     weft.backends.cudnn.deterministic
    True
    """
    known = {"enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32"}
    for name in switches:
        if name not in known:
            raise TypeError(f"[flags] expected one of {', '.join(sorted(known))}, got {name!r}")
    kept = {name: globals()[name] for name in switches}
    globals().update(switches)
    try:
        yield
    finally:
        globals().update(kept)
