"""The tables of a log (src/watch/log.h) as NumPy arrays, and names that they leave to be found."""

from __future__ import annotations

import functools
import linecache
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft import _C
from weft.base.failures import NamesWithin, inner_path

_LAYOUTS = {
    name: np.dtype(
        {
            "names": [field for field, _, _ in fields],
            "formats": [format for _, format, _ in fields],
            "offsets": [offset for _, _, offset in fields],
            "itemsize": size,
        }
    )
    for name, fields, size in _C._Log.layouts
}
KINDS: tuple[str, ...] = _C._Log.kinds
CALL, MODULE, FUNCTION, NODE, STEP, FLUSH = map(
    KINDS.index, ("call", "module", "function", "node", "step", "flush")
)
REQUIRES_GRAD, VIEW, STRIDED = _C._Log.marks
GONE = -2  # of a storage that was freed before the first event


class Site(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"

    @property
    def source(self) -> str:
        """The text of the line, or an empty string where there is no file."""
        return linecache.getline(self.file, self.line).strip()


class Tables:
    """What a log holds, from an event on. Rows are named by their numbers; -1 is none.

    An event that began before counts as none, and a value of it as one that was there.
    """

    events: NDArray[Any]
    values: NDArray[Any]
    memories: NDArray[Any]
    found: NDArray[Any]
    statistics: NDArray[Any]
    flops: NDArray[Any]
    operands: NDArray[Any]
    dims: NDArray[Any]

    def __init__(self, log: _C._Log, begins: int) -> None:
        self.log, self.log_count = log, log.count
        for name, layout in _LAYOUTS.items():
            setattr(self, name, np.frombuffer(log.table(name), layout).copy())
        self.events = self.events[begins:]
        gone = (self.memories["freed"] >= 0) & (self.memories["freed"] < begins)
        for rows, field in (
            (self.events, "parent"), (self.events, "module"),
            (self.values, "event"), (self.memories, "event"),
            (self.memories, "freed"), (self.memories, "since"),
        ):  # fmt: skip
            rows[field] = np.maximum(rows[field] - begins, -1)
        self.flops = self.flops[self.flops["event"] >= begins]
        self.flops["event"] -= begins
        self.memories["freed"][gone] = GONE
        self.operands, self.dims = self.operands["value"], self.dims["size"]
        self.names = [name for name, _ in log.names]
        self.modules = [module for _, module in log.names]
        self.sites = [Site(code.co_filename, line, code.co_name) for code, line in log.sites]
        self.tick = log.seconds_per_tick
        self._lines, self._stacks = log.stacks

    @functools.cached_property
    def children(self) -> list[list[int]]:
        """The events inside of each, in their order; those inside of none at the end."""
        inside: list[list[int]] = [[] for _ in range(len(self.events) + 1)]
        for event, parent in enumerate(self.events["parent"].tolist()):
            inside[parent].append(event)
        return inside

    def last_inside(self, event: int) -> int:
        """The last event that began before an event ended: itself, or one inside."""
        while self.children[event]:
            event = self.children[event][-1]
        return event

    @functools.cached_property
    def own_names(self) -> dict[int, str | None]:
        """Of each call of a module, by its event, what the module around calls it, "" if it is the
        same; None: it does not hold it, or there is none around."""
        held: dict[int, NamesWithin] = {}
        names: dict[int, str | None] = {}
        for event in (self.events["kind"] == MODULE).nonzero()[0].tolist():
            around = self.module_around(event)
            if around < 0:
                names[event] = None
                continue
            outer = self.module_of(around)
            if id(outer) not in held:
                held[id(outer)] = NamesWithin(outer)
            names[event] = held[id(outer)].get(id(self.module_of(event)))
        return names

    @functools.cached_property
    def paths(self) -> dict[int, str]:
        """The path of the module of each call of one, by its event: "encoder.layers.0"."""
        paths: dict[int, str] = {}
        for event, own in self.own_names.items():
            around = self.module_around(event)
            paths[event] = (
                inner_path(paths[around], own, self.module_of(event)) if around >= 0 else ""
            )
        return paths

    def path(self, event: int) -> str:
        """The path of the module that an event is in, or is."""
        return self.paths.get(int(self.events["module"][event]), "")

    def module_around(self, event: int) -> int:
        """The call of a module that the call of a module is inside of; -1: of none."""
        parent = int(self.events["parent"][event])
        return int(self.events["module"][parent]) if parent >= 0 else -1

    def module_of(self, event: int) -> Any:
        """The module that an event is the call of."""
        return self.modules[int(self.events["name"][event])]

    @functools.cached_property
    def forward(self) -> NDArray[Any]:
        """Of each node of backward the call that made it; -1: none that was recorded."""
        events = self.events
        out = np.full(len(events), -1)
        calls = ((events["kind"] == CALL) & (events["node"] > 0)).nonzero()[0]
        nodes = (events["kind"] == NODE).nonzero()[0]
        order = np.argsort(events["node"][calls], kind="stable")
        made = events["node"][calls][order]
        at = np.searchsorted(made, events["node"][nodes], "right") - 1
        known = (at >= 0) & (made[at] == events["node"][nodes]) if len(made) else at >= 0
        out[nodes[known]] = calls[order][at[known]]
        return out

    def saved(self, event: int) -> NDArray[Any]:
        """The values that the node of a call saved for backward, of its inputs and its results."""
        row = self.events[event]
        first, inputs, outputs = (int(row[f]) for f in ("operands", "inputs", "outputs"))
        mask = int(row["saved"])
        at = [first + i for i in range(min(inputs, 16)) if mask >> i & 1]
        at += [first + inputs + k for k in range(min(outputs, 16)) if mask >> (16 + k) & 1]
        values: NDArray[Any] = self.operands[at]
        return values[values >= 0]

    @functools.cached_property
    def kernels(self) -> NDArray[np.bool_]:
        """Whether the own time of an event is a kernel's: of a call with none inside, of a step of
        an optimizer. That of others goes on round kernels."""
        kinds, holds = self.events["kind"], np.zeros(len(self.events) + 1, bool)
        holds[self.events["parent"]] = True
        found: NDArray[np.bool_] = (kinds == STEP) | ((kinds == CALL) & ~holds[:-1])
        return found

    @functools.cached_property
    def roots(self) -> list[Any]:
        """The modules whose calls were inside of no other's, each once."""
        found = [self.module_of(e) for e in self.paths if self.module_around(e) < 0]
        return list({id(m): m for m in found}.values())

    @functools.cached_property
    def value_names(self) -> dict[int, str]:
        """Names of values that were there: those of the modules' parameters and buffers."""
        at = {
            _C._Log.address(tensor): name
            for root in reversed(self.roots)
            for name, tensor in [*root.named_buffers(), *root.named_parameters()]
        }
        return {value: at[tensor] for value, tensor in self.found.tolist() if tensor in at}

    def stack(self, number: int, site: int) -> list[Site]:
        """The lines that called an event, the innermost first: those of a stack, or of its site."""
        if number < 0:
            return [self.sites[site]] if site >= 0 else []
        out = []
        while number >= 0:
            number, line = self._stacks[number]
            code, at = self._lines[line]
            out.append(Site(code.co_filename, at, code.co_name))
        return out

    @functools.cached_property
    def parameters(self) -> set[int]:
        """The values that were there of modules' parameters."""
        at = {_C._Log.address(p) for root in self.roots for p in root.parameters()}
        return {value for value, tensor in self.found.tolist() if tensor in at}

    @functools.cached_property
    def flops_of(self) -> dict[int, int]:
        """The number of floating-point operations of each call that counts them."""
        return dict(zip(self.flops["event"].tolist(), self.flops["count"].tolist(), strict=True))

    @functools.cached_property
    def statistics_of(self) -> dict[int, Any]:
        """The row of statistics of each value that was looked at."""
        return dict(zip(self.statistics["value"].tolist(), self.statistics, strict=True))

    def has(self, what: str, value: int) -> bool | None:
        """Whether a value had "nans" or "infs" among the elements that were looked at; None: none
        has been looked at."""
        row = self.statistics_of.get(value)
        if row is None or not row["counted"]:
            return None
        return bool(row[what])

    @functools.cached_property
    def event_names(self) -> list[str]:
        """Of each event the name: of a call the op, of a module its class."""
        known: dict[tuple[int, int, bool], str] = {}
        out = []
        for row in self.events[["kind", "name", "in_place"]].tolist():
            if row not in known:
                kind, name, in_place = row
                text = (self.names[name] if name >= 0 else "") or KINDS[kind]
                known[row] = f"{text}_" if in_place and name >= 0 else text
            out.append(known[row])
        return out

    @functools.cached_property
    def results(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(event, value) of all results that are there."""
        first = self.events["operands"] + self.events["inputs"]
        events, at = spread(first, self.events["outputs"])
        values = self.operands[at]
        return events[values >= 0], values[values >= 0]

    @functools.cached_property
    def shapes(self) -> list[tuple[int, ...] | None]:
        """Of each event the shape of its first result."""
        out: list[tuple[int, ...] | None] = [None] * len(self.events)
        events, values = self.results
        dims = self.dims.tolist()
        events, first = np.unique(events, return_index=True)
        rows = self.values[values[first]]
        for event, at, ndim in zip(events.tolist(), rows["dims"].tolist(), rows["ndim"].tolist()):
            out[event] = tuple(dims[at : at + ndim])
        return out

    @functools.cached_property
    def odd_events(self) -> dict[int, frozenset[str]]:
        """What results of events had among the elements that were looked at: "nan", "inf"."""
        rows, (events, values) = self.statistics, self.results
        out: dict[int, frozenset[str]] = {}
        for what in ("nan", "inf"):
            odd = rows["value"][rows[f"{what}s"] > 0]
            for event in events[np.isin(values, odd)].tolist():
                out[event] = out.get(event, frozenset()) | {what}
        return out

    def sizes(self, value: int) -> tuple[int, ...]:
        """The shape of a value."""
        row = self.values[value]
        first = int(row["dims"])
        return tuple(self.dims[first : first + int(row["ndim"])].tolist())


def spread(first: NDArray[Any], count: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Of rows that each have `count` places from `first` on: (row, place) of all."""
    count = count.astype(np.int64)
    rows = np.repeat(np.arange(len(count)), count)
    begins = np.cumsum(count) - count
    return rows, np.arange(len(rows)) - begins[rows] + first.astype(np.int64)[rows]
