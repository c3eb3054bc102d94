"""A function that is cheaper one by one."""

from typing import Any

import weft
from weft.base.modes import DEFER


def deferred_here() -> bool:
    return bool(weft._C._mode() & DEFER)


class Small:
    """A call that is cheaper to run than to keep; notes which runs kept it."""

    def __init__(self) -> None:
        self.kept: list[bool] = []

    def __call__(self, x: Any) -> Any:
        self.kept.append(deferred_here())
        return x + 1
