"""Which modes of operators are entered (`weft.utils._python_dispatch`), in this context."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from weft import _C
from weft.base.modes import DISPATCH, GRAD

__all__ = ["ENTERED", "entered"]

#: The modes that are entered, the innermost last. The bit DISPATCH of the mode says if any is.
ENTERED: ContextVar[tuple[Any, ...]] = ContextVar("dispatch modes", default=())


@contextmanager
def entered(modes: tuple[Any, ...], below: bool = False) -> Generator[None, None, None]:
    """These modes and no other, for the scope; `below`: nothing is recorded in it."""
    token = ENTERED.set(modes)
    before = _C._mode()
    now = before | DISPATCH if modes else before & ~DISPATCH
    _C._set_mode(now & ~GRAD if below else now)
    kept = DISPATCH | GRAD if below else DISPATCH
    try:
        yield
    finally:
        ENTERED.reset(token)
        _C._set_mode(_C._mode() & ~kept | before & kept)
