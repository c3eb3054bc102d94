"""The tables of a log (src/watch/log.h) as NumPy arrays, and names that they leave to be found."""

from __future__ import annotations

import functools
import linecache
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft import _C

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
CALL, MODULE, FUNCTION, BACKWARD, NODE, STEP, FLUSH, NAMED = range(len(KINDS))
REQUIRES_GRAD, VIEW, STRIDED = 1, 2, 4
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

    def __init__(self, log: _C._Log, begins: int) -> None:
        self.log, self.log_count = log, log.count
        for name, layout in _LAYOUTS.items():
            setattr(self, name, np.frombuffer(getattr(log, name), layout).copy())
        self.events = self.events[begins:]
        gone = (self.memories["freed"] >= 0) & (self.memories["freed"] < begins)
        for rows, field in (
            (self.events, "parent"), (self.values, "event"), (self.memories, "event"),
            (self.memories, "freed"), (self.memories, "since"),
        ):  # fmt: skip
            rows[field] = np.maximum(rows[field] - begins, -1)
        self.memories["freed"][gone] = GONE
        self.operands = np.frombuffer(log.operands, np.int32)
        self.dims = np.frombuffer(log.dims, np.int64)
        self.names = [name for name, _ in log.names]
        self.modules = [module for _, module in log.names]
        self.sites = [Site(code.co_filename, line, code.co_name) for code, line in log.sites]
        self.tick = log.seconds_per_tick

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
    def paths(self) -> list[str]:
        """Of each event the path of the module that it is in, or is: "encoder.layers.0"."""
        names: dict[int, dict[int, str]] = {}
        out: list[str] = []
        inside: list[Any] = []  # of each event, the module
        rows = self.events[["kind", "parent", "name"]].tolist()
        for kind, parent, name in rows:
            path, around = (out[parent], inside[parent]) if parent >= 0 else ("", None)
            if kind == MODULE:
                module = self.modules[name]
                if around is not None and id(around) not in names:
                    names[id(around)] = {id(m): n for n, m in around.named_modules()}
                own = names[id(around)].get(id(module)) if around is not None else ""
                own = type(module).__name__ if own is None else own
                path = f"{path}.{own}" if path and own else path or own
                around = module
            out.append(path)
            inside.append(around)
        return out

    @functools.cached_property
    def roots(self) -> list[Any]:
        """The modules whose calls were inside of no other's, each once."""
        found: dict[int, Any] = {}
        for kind, parent, name in self.events[["kind", "parent", "name"]].tolist():
            if kind == MODULE and not self.in_module(parent):
                found.setdefault(id(self.modules[name]), self.modules[name])
        return list(found.values())

    def in_module(self, event: int) -> bool:
        """Whether an event is a module's call, or inside of one."""
        while event >= 0:
            if self.events["kind"][event] == MODULE:
                return True
            event = int(self.events["parent"][event])
        return False

    @functools.cached_property
    def value_names(self) -> dict[int, str]:
        """Names of values that were there: those of the modules' parameters and buffers."""
        at = {
            _C._Log.address(tensor): name
            for root in reversed(self.roots)
            for name, tensor in [*root.named_buffers(), *root.named_parameters()]
        }
        return {value: at[tensor] for value, tensor in self.found.tolist() if tensor in at}

    @functools.cached_property
    def statistics_of(self) -> dict[int, Any]:
        """The row of statistics of each value that was looked at."""
        return dict(zip(self.statistics["value"].tolist(), self.statistics, strict=True))

    def is_bad(self, value: int) -> bool | None:
        """Whether a value had nan or infinite elements among those that were looked at; None: it
        has not been looked at."""
        row = self.statistics_of.get(value)
        if row is None or not row["counted"]:
            return None
        return bool(row["nans"] or row["infs"])

    def sizes(self, value: int) -> tuple[int, ...]:
        """The shape of a value."""
        row = self.values[value]
        first = int(row["dims"])
        return tuple(self.dims[first : first + int(row["ndim"])].tolist())
