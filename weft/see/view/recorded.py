"""`RecordedStep`: what is kept of a step; what a page shows of it is made when one asks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.base.strict_json import text
from weft.see.tables import NODE

if TYPE_CHECKING:
    from weft.batching.report import Report
    from weft.see.graphs import Graph


class RecordedStep:
    """A graph that grows no more, and what was seen of its values.

    It is made on the thread of the step, which alone may ask the modules for names; `structure` and
    `data` take what they need from the tables, and may be asked for on any thread.
    """

    def __init__(self, number: int, title: str, graph: Graph, report: Report) -> None:
        self.number, self._title = number, title
        self._graph, self._report = graph, report
        self.pictures: dict[int, dict[str, Any]] = {}
        self.layers: list[dict[str, Any]] = []
        tables = graph._tables
        self._names = tables.paths, tables.value_names  # known to the tables from now on
        self._lock = threading.Lock()
        self._structure: str | None = None
        self._data: bytes | None = None
        events = tables.events
        span = int(events["ended"].max()) - int(events["began"].min()) if len(events) else 0
        self._about = {
            "step": number, "events": len(events), "seconds": max(span * tables.tick, 0.0),
            "peak": int(events["bytes"].max(initial=0)),
        }  # fmt: skip

    @property
    def size(self) -> int:
        """The bytes that keeping it takes, about."""
        tables = self._graph._tables
        rows = (tables.events, tables.values, tables.memories, tables.statistics, tables.operands)
        return 2 * sum(r.nbytes for r in rows) + len(self._data or b"") + 20_000 * len(self.layers)

    def about(self) -> dict[str, Any]:
        """Its number, time, events, peak, and if that is known yet its structure."""
        return {**self._about, "structure": self._structure}

    @property
    def knows_structure(self) -> bool:
        """Whether somebody has asked for it."""
        return self._structure is not None

    @property
    def structure(self) -> str:
        """The name of what ran (`Graph.structure`)."""
        with self._lock:
            if self._structure is None:
                self._structure = self._graph.structure
            return self._structure

    @property
    def data(self) -> bytes:
        """The model, as JSON."""
        with self._lock:
            if self._data is None:
                from weft.see.view.model import model_of

                model = model_of(self._graph, title=self._title, report=self._report)
                model |= {"step": self.number, "pictures": self.pictures, "layers": self.layers}
                self._data = text(model).encode()
                self._structure = model["structure"]
            return self._data

    def loss(self) -> float | None:
        """What backward began from, if that is one number and was looked at."""
        graph = self._graph
        nodes = (graph._tables.events["kind"] == NODE).nonzero()[0]
        call = graph[int(nodes[0])].forward if len(nodes) else None
        value = call.outputs[0] if call is not None and call.outputs else None
        if value is None or np.prod(value.shape) != 1 or not value.statistics:
            return None
        return value.statistics["mean"] if value.statistics["counted"] else None
