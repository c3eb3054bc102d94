"""`MemoryUse`: the bytes that live over the course of a graph's events."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft import _C
from weft.base.checks import of_type
from weft.base.shown import size
from weft.see.events import Event
from weft.see.tables import CALL, REQUIRES_GRAD, STEP, spread

if TYPE_CHECKING:
    from weft.see.graphs import Graph


KINDS = ("other", "activations", "optimizer state", "gradients", "parameters")
OTHER, ACTIVATION, STATE, GRADIENT, PARAMETER = range(len(KINDS))


class MemoryUse:
    """The bytes in tensors over the course of a graph's events, and whose they are at the peak.

    The bytes are the allocator's, of the whole process; the lines are those of the calls that made
    the storages. `print` shows the peak, its kinds, and the lines that made most of what was alive
    then.

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
        """The most bytes at a time, of the begins and ends of events."""
        return self._peak[1]

    @cached_property
    def _peak(self) -> tuple[int, int, bool]:
        """(event, bytes, whether at its begin)"""
        begins, ends = self._graph._tables.events["bytes_before"], self.bytes
        if not len(ends):
            return -1, 0, False
        if begins.max() > ends.max():
            return int(begins.argmax()), int(begins.max()), True
        return int(ends.argmax()), int(ends.max()), False

    @property
    def at(self) -> Event | None:
        """The event at whose begin or end they were the most."""
        return self._graph[self._peak[0]] if self.peak else None

    @property
    def at_begin(self) -> bool:
        """Whether they were the most at its begin."""
        return self._peak[2]

    @cached_property
    def lines(self) -> list[tuple[str, int, int]]:
        """(line, bytes, storages) of what was alive at the peak, by the line and the op that made
        it, most bytes first. What no call made is of a kind, and what no call has seen by then is
        "unseen"."""
        return self._lines(*self._alive_at_peak()) if self.peak else []

    @cached_property
    def kinds(self) -> dict[str, int]:
        """The bytes at the peak by kind, see `kinds_at`."""
        return self._kinds(*self._alive_at_peak()) if self.peak else {}

    def lines_at(self, event: Event | None = None) -> list[tuple[str, int, int]]:
        """As `lines`, of what was alive at the end of an event, or of all.

        Raises:
            ValueError: an event of another graph.
            TypeError: something else.
        """
        return self._lines(*self._alive(event))

    def _lines(self, alive: NDArray[np.bool_], whole: int) -> list[tuple[str, int, int]]:
        size: Counter[str] = Counter()
        count: Counter[str] = Counter()
        for number in alive.nonzero()[0].tolist():
            made = self._line(number)
            size[made] += int(self._rows["bytes"][number])
            count[made] += 1
        if whole > size.total():
            size["unseen"] = whole - size.total()
        return [(made, total, count[made]) for made, total in size.most_common()]

    def kinds_at(self, event: Event | None = None) -> dict[str, int]:
        """The bytes at the end of an event, or of all, by kind.

        "parameters" are leaves that require grad; "gradients" what backward made, and what the
        parameters have as theirs; "optimizer state" what else optimizers' steps read or made;
        "activations" what nodes have saved for backward; then "other", and "unseen" of the
        allocator's what no event has seen.

        Raises:
            ValueError: an event of another graph.
            TypeError: something else.
        """
        return self._kinds(*self._alive(event))

    def _kinds(self, alive: NDArray[np.bool_], whole: int) -> dict[str, int]:
        sizes = np.bincount(self.of_storages[alive], self._rows["bytes"][alive], len(KINDS))
        out = {KINDS[k]: int(sizes[k]) for k in range(len(KINDS) - 1, -1, -1)}
        return {**out, "unseen": max(whole - sum(out.values()), 0)}

    def _alive_at_peak(self) -> tuple[NDArray[np.bool_], int]:
        event, whole, at_begin = self._peak
        if not at_begin:
            return self._alive(self._graph[event])
        rows, freed = self._rows, self._rows["freed"]
        return (rows["since"] < event) & ((freed == -1) | (freed >= event)), whole

    def _alive(self, event: Event | None) -> tuple[NDArray[np.bool_], int]:
        """Which storages were alive at the end of an event, and the allocator's bytes."""
        rows, freed = self._rows, self._rows["freed"]
        if event is None:
            ends = len(self._graph) - 1
            return freed == -1, int(self.bytes[ends]) if ends >= 0 else 0
        of_type("memory", "event", event, Event)
        if event.graph is not self._graph:
            raise ValueError("[memory] expected an event of this graph, got another's")
        at = self._graph._tables.last_inside(event.number)
        alive = (rows["since"] <= at) & ((freed == -1) | (freed >= at))
        return alive, int(self.bytes[event.number])

    @cached_property
    def of_storages(self) -> NDArray[np.int64]:
        """Of each storage the kind, a number in `KINDS`."""
        tables = self._graph._tables
        events, values = tables.events, tables.values
        kinds = np.zeros(len(self._rows), np.int64)

        def mark(numbers: NDArray[Any], kind: int) -> None:
            memories = values["memory"][numbers[numbers >= 0]]
            memories = memories[memories >= 0]
            kinds[memories] = np.maximum(kinds[memories], kind)

        read = tables.operands[spread(events["operands"], events["inputs"])[1]]
        reader = spread(events["operands"], events["inputs"])[0]
        for row in (events["saved"] > 0).nonzero()[0].tolist():
            mark(tables.saved(row), ACTIVATION)
        is_step = events["kind"] == STEP
        made_by = self._rows["event"]
        in_step = np.zeros(len(events) + 1, bool)
        in_step[:-1] = is_step | np.append(is_step, False)[events["parent"]]
        in_backward = np.append(events["backward"], False)
        mark(read[is_step[reader]], STATE)
        kinds[in_step[made_by]] = STATE
        kinds[in_backward[made_by]] = GRADIENT
        mark(self._gradients_found(), GRADIENT)
        # leaves: no node has made them
        maker = values["event"]
        by_leaf = (maker < 0) | np.append(
            (events["node"] == 0) & (events["kind"] == CALL) & ~events["backward"], False
        )[maker]
        leaf = (values["marks"] & REQUIRES_GRAD > 0) & by_leaf & ~in_backward[maker]
        mark(leaf.nonzero()[0], PARAMETER)
        mark(np.array(list(tables.parameters), np.int64), PARAMETER)
        return kinds

    def _gradients_found(self) -> NDArray[Any]:
        """The values that were there of modules' gradients, which are alive."""
        tables = self._graph._tables
        grads = [p.grad for root in tables.roots for p in root.parameters() if p.grad is not None]
        addresses = np.array([_C._Log.address(g) for g in grads], np.uint64)
        numbers: NDArray[Any] = tables.found["value"][np.isin(tables.found["tensor"], addresses)]
        memories = tables.values["memory"][numbers]
        numbers = numbers[(memories >= 0) & (self._rows["freed"][memories] == -1)]
        return numbers

    def _line(self, number: int) -> str:
        row = self._rows[number]
        if row["event"] >= 0:
            event = self._graph[int(row["event"])]
            return f"{event.line} {event.name}".strip()
        return KINDS[int(self.of_storages[number])]

    def __str__(self) -> str:
        if not self.peak:
            return "no memory was recorded"
        where = "begin" if self.at_begin else "end"
        head = f"{size(self.peak)} at the peak, at the {where} of {self.at!r}"
        kinds = ", ".join(f"{size(n)} {kind}" for kind, n in self.kinds.items() if n)
        rows = [f"  {size(b):>9}  ×{n:<5} {line}" for line, b, n in self.lines[:20]]
        left = len(self.lines) - 20
        more = [f"  and {left} lines more"] if left > 0 else []
        return "\n".join([head, f"  {kinds}", *rows, *more])

    def __repr__(self) -> str:
        return f"<MemoryUse: {size(self.peak)} at the peak>"
