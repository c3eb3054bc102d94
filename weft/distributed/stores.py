"""Values by key, which the processes of a group share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

__all__ = ["HashStore", "Store"]


class Store:
    """Values by key, which the processes of a group share.

    >>> store = weft.distributed.HashStore()
    >>> store.add("steps", 2)
    2
    """

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: str | bytes) -> None:
        """Keeps a value."""
        self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        """The value of a key. RuntimeError where no process could still set it."""
        if key not in self._values:
            raise RuntimeError(f"[Store] expected a key that was set, got {key!r}")
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, and gives its new value."""
        value = int(self._values.get(key, b"0")) + amount
        self.set(key, str(value))
        return value

    def check(self, keys: Iterable[str]) -> bool:
        """Whether all keys were set."""
        return all(key in self._values for key in keys)

    def wait(self, keys: Iterable[str], timeout: timedelta | None = None) -> None:
        """RuntimeError for keys that were not set: nobody else could."""
        for key in keys:
            self.get(key)

    def delete_key(self, key: str) -> bool:
        """Forgets a key; whether it was there."""
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self._values)


class HashStore(Store):
    """A store of this process.

    >>> store = weft.distributed.HashStore()
    >>> store.set("a", "1")
    >>> store.get("a")
    b'1'
    """
