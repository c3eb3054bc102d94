"""`collections.deque` as programs have it: a record with its methods."""

from __future__ import annotations

import collections.abc
import operator
from collections.abc import Iterable
from typing import Any


class Deque:
    """`collections.deque`, as a list of its items."""

    def __init__(self, iterable: Iterable[Any] = (), maxlen: int | None = None) -> None:
        self.items: list[Any] = []
        self.maxlen = maxlen
        self.extend(iterable)

    def append(self, x: Any) -> None:
        self.items.append(x)
        if self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[0]

    def appendleft(self, x: Any) -> None:
        self.items.insert(0, x)
        if self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[-1]

    def extend(self, iterable: Iterable[Any]) -> None:
        if iterable is self:
            self.extend(list(self.items))
        else:
            for x in iterable:
                self.append(x)

    def extendleft(self, iterable: Iterable[Any]) -> None:
        if iterable is self:
            self.extendleft(list(self.items))
        else:
            for x in iterable:
                self.appendleft(x)

    def pop(self) -> Any:
        if not self.items:
            raise IndexError("pop from an empty deque")
        return self.items.pop()

    def popleft(self) -> Any:
        if not self.items:
            raise IndexError("pop from an empty deque")
        return self.items.pop(0)

    def clear(self) -> None:
        self.items.clear()

    def copy(self) -> Any:
        return Deque(self.items, self.maxlen)

    def count(self, x: Any) -> int:
        return self.items.count(x)

    def index(self, x: Any) -> int:
        for k in range(len(self.items)):
            if self.items[k] is x or self.items[k] == x:
                return k
        raise ValueError(f"{x!r} is not in deque")

    def insert(self, i: int, x: Any) -> None:
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            raise IndexError("deque already at its maximum size")
        self.items.insert(i, x)

    def remove(self, value: Any) -> None:
        if value not in self.items:
            raise ValueError("deque.remove(x): x not in deque")
        self.items.remove(value)

    def reverse(self) -> None:
        self.items.reverse()

    def rotate(self, n: int = 1) -> None:
        by = operator.index(n)
        if self.items:
            k = by % len(self.items)
            self.items = self.items[len(self.items) - k :] + self.items[: len(self.items) - k]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Any:
        return iter(self.items)

    def place(self, key: int) -> int:
        """The place of an item."""
        if not isinstance(key, int):
            raise TypeError(f"sequence index must be integer, not {type(key).__name__!r}")
        if key >= len(self.items) or key < -len(self.items):
            raise IndexError("deque index out of range")
        return key

    def __getitem__(self, key: int) -> Any:
        return self.items[self.place(key)]

    def __setitem__(self, key: int, value: Any) -> None:
        self.items[self.place(key)] = value

    def __delitem__(self, key: int) -> None:
        del self.items[self.place(key)]

    def __contains__(self, value: Any) -> bool:
        return value in self.items

    def __reversed__(self) -> Any:
        return iter(self.items[::-1])

    def __iadd__(self, iterable: Any) -> Any:
        self.extend(iterable)
        return self

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Deque):
            name = type(other).__name__
            raise TypeError(f'can only concatenate deque (not "{name}") to deque')
        return Deque(self.items + other.items, self.maxlen)

    def __mul__(self, n: int) -> Any:
        return Deque(self.items * n, self.maxlen)

    def __rmul__(self, n: int) -> Any:
        return self * n

    def __imul__(self, n: int) -> Any:
        self.items = (self * n).items
        return self

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Deque) and self.items == other.items

    def __repr__(self) -> str:
        if self.maxlen is None:
            return f"deque({self.items!r})"
        return f"deque({self.items!r}, maxlen={self.maxlen})"


# what `type(q).__name__` and isinstance() say
Deque.__name__ = Deque.__qualname__ = "deque"
collections.abc.MutableSequence.register(Deque)


def deque(iterable: Iterable[Any] = (), maxlen: int | None = None) -> Any:
    """`collections.deque`."""
    return Deque(iterable, maxlen)
