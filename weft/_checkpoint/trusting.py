"""Loading with `weights_only=False`: Python's own pickle machinery, which runs what it reads."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

from weft._checkpoint.names import AllowList


class TrustingUnpickler:
    """Reads one object after the other from `data`, importing the classes and functions it names.

    PyTorch's names stand for what they stand for in the allow-list; there is no other `torch` here.

    Args:
        data: the pickles.
        persistent_load: gives the storage of a persistent id.
    """

    def __init__(self, data: bytes, persistent_load: Callable[[Any], Any]) -> None:
        self._file = io.BytesIO(data)
        self._storage = persistent_load
        self._known = AllowList()

    def load(self) -> Any:
        """The next object. Each pickle numbers what it remembers anew."""
        return _One(self._file, self._storage, self._known).load()

    @property
    def at(self) -> int:
        """Where the next object starts."""
        return self._file.tell()


class _One(pickle.Unpickler):
    """Reads one object."""

    def __init__(
        self, file: io.BytesIO, persistent_load: Callable[[Any], Any], known: AllowList
    ) -> None:
        super().__init__(file)
        self._storage, self._known = persistent_load, known

    def persistent_load(self, pid: Any) -> Any:
        """The storage of that id."""
        return self._storage(pid)

    def find_class(self, module: str, name: str) -> Any:
        """The object of that name."""
        known = self._known.built_in(module, name)
        if known is not None:
            return known
        if module.split(".")[0] == "torch":
            raise UnpicklingError(
                f"[load] expected names that weft has, got {module}.{name}. Hint: an object of "
                "PyTorch's is no object of weft's; save its state_dict() there, and load it into "
                "the same module here"
            )
        return super().find_class(module, name)
