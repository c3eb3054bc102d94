"""The handle that every `register_*hook` returns."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

from weft.nn.shared_structure import changes


class RemovableHandle:
    """Takes a hook out of its table(s) again: by `remove()`, or at the end of a `with` block.

    Args:
        table: the ordered table of hooks; the handle reserves the key `self.id` in it.
        extra: further tables that may hold the same key.
        module: whose tables they are; None for those of all modules.

    >>> import weft
    >>> m = weft.nn.Identity()
    >>> with m.register_forward_hook(lambda module, args, output: output + 1):
    ...     print(m(weft.zeros(1)))
    tensor([1.])
    >>> m(weft.zeros(1))
    tensor([0.])
    """

    _ids = itertools.count()

    def __init__(
        self, table: OrderedDict[int, Any], *extra: OrderedDict[int, Any], module: Any = None
    ) -> None:
        self.id = next(RemovableHandle._ids)
        # The tables belong to the module: a handle that outlives it must not keep it alive.
        self._tables = tuple(weakref.ref(each) for each in (table, *extra))
        self._module = None if module is None else weakref.ref(module)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        table = self._tables[0]()
        if table is not None and self.id in table:
            changes(self._module and self._module())
        self.forget()

    def forget(self) -> None:
        """Take the hook out of its tables, of which examples are not told."""
        for reference in self._tables:
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()

    def __getstate__(self) -> tuple[int, tuple[Any, ...]]:
        return self.id, tuple(reference() for reference in self._tables)

    def __setstate__(self, state: tuple[int, tuple[Any, ...]]) -> None:
        self.id, tables = state
        # A table that is gone leaves an empty one, which is what removing from it amounts to.
        self._module = None
        self._tables = tuple(weakref.ref(t if t is not None else OrderedDict()) for t in tables)
        # Ids handed out after unpickling must not meet this one.
        RemovableHandle._ids = itertools.count(max(self.id + 1, next(RemovableHandle._ids)))
