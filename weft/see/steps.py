"""Where a step of training ends.

Note [Steps]
A step goes from one step of an optimizer to the next. With several optimizers it is the first one's
that count, until another steps twice without it: then it is that one's. So two that take turns in
one step of training make one step, and an optimizer that a program makes anew takes the place of
the old one.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.optim.optimizer import Optimizer

__all__ = ["Leading"]


class Leading:
    """The optimizer whose steps are counted."""

    def __init__(self) -> None:
        self._known: weakref.ref[Optimizer] | None = None
        self._others: weakref.WeakSet[Optimizer] = weakref.WeakSet()  # that have stepped since

    def ends(self, optimizer: Optimizer) -> bool:
        """Whether this step of an optimizer ends one of training."""
        known = self._known() if self._known is not None else None
        if known is not None and known is not optimizer and optimizer not in self._others:
            self._others.add(optimizer)
            return False
        if known is not optimizer:
            self._known = weakref.ref(optimizer)
        self._others.clear()
        return True
