"""Events of a profile, one by one and summed up, and the table of the sums.

Times are in microseconds, as PyTorch has them. The own time of an event is its time less that of
the events inside of it; of a call with none inside and of an optimizer's step it is the kernel's,
of others what goes on round kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft
from weft.profiler.tables import format_time, table_of
from weft.see.flops import counted_calls
from weft.see.tables import CALL, FLUSH, KINDS, MODULE

if TYPE_CHECKING:
    from weft.see.graphs import Graph

GROUPS = ("op", "module", "line", "batch")
_SCOPES = {"node": 1, "step": 7, "named": 7}  # of backward, of the user; others are functions, 0


#: Functions that ATen has under other names.
_RENAMED = {"cross_entropy": "cross_entropy_loss", "logsigmoid": "log_sigmoid"}


@cache
def _aten(name: str) -> str:
    """`aten::NAME` of what PyTorch has, or has a method or function of; others as they are."""
    from weft._library.aten import names

    found = _RENAMED.get(name, name)
    public = (
        not name.startswith("_")
        and any(hasattr(home, name) for home in (weft.Tensor, weft, weft.nn.functional))
    )  # fmt: skip
    return f"aten::{found}" if public or found in names() else name


class DeviceType(Enum):
    """Where an event ran."""

    CPU = 0


@dataclass(frozen=True)
class Interval:
    """Microseconds since the profile began."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """From the start to the end."""
        return self.end - self.start


@dataclass
class FunctionEventAvg:
    """The sum over the events of one key.

    >>> with weft.profiler.profile() as prof:
    ...     _ = weft.ones(2) + 1
    >>> [event.count for event in prof.key_averages() if event.key == "aten::add"]
    [1]
    """

    key: str
    count: int = 0
    cpu_time_total: float = 0.0  #: microseconds, what ran inside included
    self_cpu_time_total: float = 0.0
    cpu_memory_usage: int = 0  #: bytes that were made and not freed by the end, less those freed
    self_cpu_memory_usage: int = 0
    flops: int = 0
    input_shapes: list[list[int]] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)  #: lines, the innermost first
    scope: int = 0  #: 0: a function, 1: a node of backward, 7: a span or an optimizer's step

    def add(self, other: FunctionEventAvg) -> None:
        """Adds what others are the sum of."""
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.flops += other.flops

    @property
    def cpu_time(self) -> float:
        """Microseconds, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def self_cpu_time(self) -> float:
        """Microseconds, on average."""
        return self.self_cpu_time_total / self.count if self.count else 0.0

    cpu_time_str = property(lambda self: format_time(self.cpu_time))
    cpu_time_total_str = property(lambda self: format_time(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: format_time(self.self_cpu_time_total))

    @property
    def is_user_annotation(self) -> bool:
        """Whether it is a span or an optimizer's step."""
        return self.scope == 7

    device_type = DeviceType.CPU
    is_async = is_remote = is_legacy = False
    node_id = -1
    #: Of accelerators, which weft has not.
    use_device = None
    device_time = device_time_total = self_device_time_total = 0.0
    device_memory_usage = self_device_memory_usage = 0
    cuda_time = cuda_time_total = self_cuda_time_total = 0.0


@dataclass
class FunctionEvent(FunctionEventAvg):
    """One event.

    >>> with weft.profiler.profile() as prof:
    ...     _ = weft.ones(2) + 1
    >>> any(event.name == "aten::add" for event in prof.events())
    True
    """

    start: float = 0.0  #: microseconds since the profile began
    id: int = 0  #: of `profile.graph`
    cpu_parent: FunctionEvent | None = field(default=None, repr=False)
    cpu_children: list[FunctionEvent] = field(default_factory=list, repr=False)
    sequence_nr: int = -1  #: of a call and of the node that it made the same; -1: there is no node
    trace_name: str = ""  #: in the trace, which tells the steps of a schedule apart

    #: The thread that entered the profile: events are of no other.
    thread = 1

    @property
    def name(self) -> str:
        """The op, node, span or module."""
        return self.key

    @property
    def time_range(self) -> Interval:
        """Its begin and end."""
        return Interval(self.start, self.start + self.cpu_time_total)

    @property
    def kernels(self) -> list[Any]:
        """Those that it launched on an accelerator: none."""
        return []


class Columns:
    """The events of a graph that a profile shows, as arrays: modules only if asked for."""

    def __init__(self, graph: Graph, modules: bool) -> None:
        self.graph = graph
        tables = self.tables = graph._tables
        rows = tables.events
        shown = np.ones(len(rows), bool) if modules else rows["kind"] != MODULE
        parent = rows["parent"].astype(np.int64)
        while True:  # the nearest one that is shown
            hidden = (parent >= 0) & ~shown[parent]
            if not hidden.any():
                break
            parent[hidden] = rows["parent"][parent[hidden]]
        self.numbers = shown.nonzero()[0]
        place = np.cumsum(shown) - 1
        self.parent = np.where(parent < 0, -1, place[parent])[self.numbers]
        began, ended = rows["began"], rows["ended"]
        last = max(began.max(initial=0), ended.max(initial=0))
        ended = np.where(ended == 0, last, ended)  # some are open where it ends
        scale = tables.tick * 1e6
        first = began.min() if len(began) else 0
        self.start = (began[self.numbers] - first) * scale
        self.time = (ended - began)[self.numbers] * scale
        self.own_time = self._own(self.time)
        change = rows["bytes"] - rows["bytes_before"]
        self.memory = np.where(rows["ended"] == 0, 0, change)[self.numbers]
        self.own_memory = self._own(self.memory)
        self.kinds = rows["kind"][self.numbers]
        self.kernels = tables.kernels[self.numbers]

    def _own(self, of: NDArray[Any]) -> NDArray[Any]:
        inside = self.parent >= 0
        below = np.bincount(self.parent[inside], of[inside], len(of)).astype(of.dtype)
        own: NDArray[Any] = of - below
        return own

    @cached_property
    def flops(self) -> NDArray[Any]:
        """Of each event, by its op's record."""
        counts = np.zeros(len(self.tables.events), np.int64)
        for event, count in counted_calls(self.graph).items():
            counts[event] = count
        return counts[self.numbers]

    @cached_property
    def names(self) -> list[str]:
        """Of each event: of an op PyTorch's name in its profiles, `aten::mul`."""
        names = self.tables.event_names
        events = zip(self.numbers.tolist(), self.kinds.tolist(), strict=True)
        return [_aten(names[i]) if kind == CALL else names[i] for i, kind in events]

    @cached_property
    def keys(self) -> list[str]:
        """The names by which events are summed up: all steps of a schedule have one."""
        return ["ProfilerStep*" if n.startswith("ProfilerStep#") else n for n in self.names]

    @cached_property
    def scopes(self) -> NDArray[Any]:
        """Of each event what PyTorch calls its scope."""
        scopes: NDArray[Any] = np.array([_SCOPES.get(kind, 0) for kind in KINDS])[self.kinds]
        return scopes

    def shapes(self) -> list[tuple[tuple[int, ...], ...]]:
        """Of each event those of its operands; () for one that was not given."""
        tables = self.tables
        rows = tables.events[["operands", "inputs"]][self.numbers].tolist()
        operands = tables.operands.tolist()
        known: dict[int, tuple[int, ...]] = {-1: ()}
        out = []
        for first, count in rows:
            of = operands[first : first + count]
            for value in of:
                if value not in known:
                    known[value] = tables.sizes(value)
            out.append(tuple(known[value] for value in of))
        return out

    def stacks(self, depth: int | None = None) -> list[tuple[str, ...]]:
        """Of each event the lines that called it, the innermost first; at most `depth`."""
        rows = self.tables.events[["stack", "site"]][self.numbers].tolist()
        known: dict[tuple[int, int], tuple[str, ...]] = {}
        for row in rows:
            if row not in known:
                lines = [frame(s) for s in self.tables.stack(*row)]
                known[row] = tuple(lines if depth is None else lines[:depth])
        return [known[row] for row in rows]

    def batches(self) -> list[str]:
        """Of each event the batch run that it is in: of kept calls under autobatch."""
        named: list[str] = []
        count = 0
        for kind, parent, name in zip(
            self.kinds.tolist(), self.parent.tolist(), self.names, strict=True
        ):
            around = named[parent] if parent >= 0 else "no batch"
            if kind == FLUSH:
                count += 1
                around = f"batches {count}: {name}"
            named.append(around)
        return named

    def groups(self, by: str) -> list[str]:
        """Of each event the key of the group."""
        tables = self.tables
        if by == "op":
            return self.keys
        if by == "batch":
            return self.batches()
        numbers = self.numbers.tolist()
        if by == "module":
            paths = {
                -1: "no module",
                **{e: p or tables.event_names[e] for e, p in tables.paths.items()},
            }
            return [paths[m] for m in tables.events["module"][numbers].tolist()]
        lines = [str(site) for site in tables.sites]
        sites = tables.events["site"][numbers].tolist()
        return [lines[s] if s >= 0 else "no line" for s in sites]


def frame(site: Any) -> str:
    """A line as PyTorch's profiler prints it."""
    return f"{site.file}({site.line}): {site.function}"


def averages(
    columns: Columns, by: str, shapes: bool, stack: int, flops: bool
) -> list[FunctionEventAvg]:
    """The sums over the events of one group, and with one kind of shapes or stack if asked for."""
    keys = columns.groups(by)
    shape_of: Sequence[Any] = columns.shapes() if shapes else [()] * len(keys)
    stack_of: Sequence[Any] = columns.stacks(stack) if stack else [()] * len(keys)
    numbers: dict[Any, int] = {}
    rows = zip(keys, shape_of, stack_of, strict=True)
    group = np.array([numbers.setdefault(row, len(numbers)) for row in rows], np.int64)

    def total(of: NDArray[Any]) -> list[Any]:
        sums: list[Any] = np.bincount(group, of, len(numbers)).astype(of.dtype).tolist()
        return sums

    if by == "op":
        time, memory = columns.time, columns.memory
    else:  # what is inside of one of the same group counts once
        around = np.where(columns.parent < 0, -1, group[columns.parent])
        outermost = around != group
        time, memory = columns.time * outermost, columns.memory * outermost
    work = columns.flops if flops else np.zeros(len(keys), np.int64)
    sums = zip(
        numbers, np.bincount(group, minlength=len(numbers)).tolist(), total(time),
        total(columns.own_time), total(memory), total(columns.own_memory), total(work),
        columns.scopes[np.unique(group, return_index=True)[1]].tolist(), strict=True,
    )  # fmt: skip
    return [
        FunctionEventAvg(
            key, count, t, own, m, own_m, f, [list(s) for s in shape], list(lines), scope
        )
        for (key, shape, lines), count, t, own, m, own_m, f, scope in sums
    ]


def events_of(columns: Columns, shapes: bool, stack: bool, flops: bool) -> list[FunctionEvent]:
    """Each event by itself."""
    count = len(columns.numbers)
    shape_of: Sequence[Any] = columns.shapes() if shapes else [()] * count
    stack_of: Sequence[Any] = columns.stacks() if stack else [()] * count
    work = columns.flops if flops else np.zeros(count, np.int64)
    out: list[FunctionEvent] = []
    nodes = columns.tables.events["node"][columns.numbers].astype(np.int64)
    rows = zip(
        columns.keys, columns.time.tolist(), columns.own_time.tolist(), columns.memory.tolist(),
        columns.own_memory.tolist(), work.tolist(), shape_of, stack_of, columns.start.tolist(),
        columns.numbers.tolist(), columns.parent.tolist(), columns.scopes.tolist(),
        np.where(nodes > 0, nodes, -1).tolist(), columns.names, strict=True,
    )  # fmt: skip
    for key, t, own, m, own_m, f, shape, lines, start, number, parent, scope, node, name in rows:
        event = FunctionEvent(
            key, 1, t, own, m, own_m, f, [list(s) for s in shape], list(lines), scope, start,
            number, sequence_nr=node, trace_name=name,
        )  # fmt: skip
        if parent >= 0:
            event.cpu_parent = out[parent]
            out[parent].cpu_children.append(event)
        out.append(event)
    return out


class EventList(list[Any]):
    """Events or their sums, with a table.

    >>> with weft.profiler.profile() as prof:
    ...     _ = weft.ones(2) + 1
    >>> isinstance(prof.key_averages(), weft.profiler.EventList)
    True
    """

    def __init__(
        self, of: Iterable[Any] = (), *, profile_memory: bool = False, with_flops: bool = False,
        overhead: tuple[float, float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(of)
        self._memory, self._flops, self._overhead = profile_memory, with_flops, overhead

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all."""
        return float(sum(e.self_cpu_time_total for e in self))

    def total_average(self) -> FunctionEventAvg:
        """The sum of all."""
        total = FunctionEventAvg("Total")
        for e in self:
            total.add(e)
        return total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100,
        max_src_column_width: int | None = 75, max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None, top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """The list as text.

        Args:
            sort_by: a number of the events, the most first: "cpu_time", "cpu_time_total",
                "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "count",
                "flops".
            row_limit: rows at most; -1: all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: characters of a
                column at most; None: as many as there are.
            header: a line above it.
            top_level_events_only: of events, those that are inside of no other.
            time_unit: "s", "ms" or "us" for all times.

        Raises:
            ValueError: another `time_unit`.
            AttributeError: another `sort_by`.
        """
        return table_of(
            self, sort_by, row_limit, (max_name_column_width, max_shapes_column_width,
            max_src_column_width), header, top_level_events_only, time_unit,
        )  # fmt: skip

    def __str__(self) -> str:
        return self.table()
