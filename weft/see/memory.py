"""`MemoryUse`: the bytes that live over the course of a graph's events."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from weft.see.graphs import Event, Graph


class MemoryUse:
    """The bytes in tensors over the course of a graph's events, and whose they are at the peak.

    The bytes are the allocator's, of the whole process; the lines are those of the calls that made
    the storages. `print` shows the peak and the lines that made most of what was alive then.

    >>> with weft.record() as g:
    ...     x = weft.ones(1 << 20)
    ...     y = x * 2
    >>> [size for line, size, _ in g.memory().lines if line.endswith("mul")]
    [4194304]
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._rows = graph._tables.memories

    @property
    def bytes(self) -> NDArray[np.int64]:
        """Alive at the end of each event."""
        return np.asarray(self._graph._tables.events["bytes"])

    @property
    def peak(self) -> int:
        """The most bytes at a time."""
        return int(self.bytes.max(initial=0))

    @property
    def at(self) -> Event | None:
        """The event at whose end they were the most."""
        return self._graph[int(self.bytes.argmax())] if self.peak else None

    @cached_property
    def lines(self) -> list[tuple[str, int, int]]:
        """(line, bytes, storages) of what was alive at the peak, by the line and the op that made
        it, most bytes first. What no call made is one of the "parameters" or "other", and what no
        call has seen by then, such as the state of optimizers, is "unseen"."""
        if not self.peak:
            return []
        rows = self._rows
        at = self._graph._tables.last_inside(int(self.bytes.argmax()))
        freed = rows["freed"]
        alive = (rows["since"] <= at) & ((freed == -1) | (freed >= at))
        size: Counter[str] = Counter()
        count: Counter[str] = Counter()
        for row in rows[alive]:
            made = self._line(row)
            size[made] += int(row["bytes"])
            count[made] += 1
        unseen = self.peak - size.total()
        if unseen > 0:
            size["unseen"] = unseen
        return [(made, total, count[made]) for made, total in size.most_common()]

    def _line(self, row: Any) -> str:
        if row["event"] >= 0:
            event = self._graph[int(row["event"])]
            return f"{event.line} {event.name}".strip()
        return "parameters" if int(row["last"]) in self._graph._tables.value_names else "other"

    def __str__(self) -> str:
        if not self.peak:
            return "no memory was recorded"
        head = f"{_size(self.peak)} at the peak, in {self.at!r}"
        rows = [f"  {_size(b):>9}  ×{n:<5} {line}" for line, b, n in self.lines[:20]]
        left = len(self.lines) - 20
        return "\n".join([head, *rows, *([f"  and {left} lines more"] if left > 0 else [])])

    def __repr__(self) -> str:
        return f"<MemoryUse: {_size(self.peak)} at the peak>"


def _size(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"
