"""`Graph`: events, the values between them, and questions about both."""

from __future__ import annotations

import fnmatch
import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from weft import Tensor
from weft.base.checks import of_type
from weft.base.shown import dtype_name
from weft.see.tables import (
    CALL,
    KINDS,
    MODULE,
    NODE,
    REQUIRES_GRAD,
    STRIDED,
    VIEW,
    Site,
    Tables,
)

if TYPE_CHECKING:
    import os

    import weft
    from weft.batching.report import Report
    from weft.see.difference import Difference
    from weft.see.memory import MemoryUse

Shape = Sequence[int | EllipsisType | None]


class _Row:
    """A row of a graph's tables, equal to itself."""

    __slots__ = ("graph", "number")

    def __init__(self, graph: Graph, number: int) -> None:
        self.graph, self.number = graph, number

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self) and other.graph is self.graph and other.number == self.number
        )

    def __hash__(self) -> int:
        return hash(self.number)


class Value(_Row):
    """What an event made, or what was there before: a shape and a dtype, no numbers."""

    __slots__ = ()

    @property
    def _row(self) -> Any:
        return self.graph._tables.values[self.number]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self.graph._tables.sizes(self.number)

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
        row = self._row
        if row["marks"] & STRIDED:
            first = int(row["dims"]) + int(row["ndim"])
            return tuple(self.graph._tables.dims[first : first + int(row["ndim"])].tolist())
        steps, step = [], 1
        for size in reversed(self.shape):
            steps.append(step)
            step *= max(size, 1)
        return tuple(reversed(steps))

    @property
    def dtype(self) -> weft.dtype:
        """Of its elements."""
        from weft import _C

        dtype: weft.dtype = _C._Log.dtypes[int(self._row["dtype"])]
        return dtype

    @property
    def bytes(self) -> int:
        """Of its elements, each counted once."""
        count = self.dtype.itemsize
        for size in self.shape:
            count *= size
        return count

    @property
    def requires_grad(self) -> bool:
        """Whether it was part of an autograd graph."""
        return bool(self._row["marks"] & REQUIRES_GRAD)

    @property
    def is_view(self) -> bool:
        """Whether it lies over the memory of a value before."""
        return bool(self._row["marks"] & VIEW)

    @property
    def event(self) -> Event | None:
        """What made it; None if it was there."""
        return self.graph._event(int(self._row["event"]))

    @property
    def name(self) -> str | None:
        """What the modules call it: a parameter's or buffer's name, of a value that was there."""
        return self.graph._tables.value_names.get(self.number)

    @property
    def used_by(self) -> list[Event]:
        """The events that read it."""
        return [self.graph[e] for e in self.graph._readers.get(self.number, ())]

    @property
    def statistics(self) -> dict[str, float] | None:
        """mean, std, min and max of the finite ones among the elements that were looked at, how
        many those are, and how many were nan or infinite; None if the recording looked at none."""
        row = self.graph._tables.statistics_of.get(self.number)
        if row is None:
            return None
        return {
            "mean": float(row["mean"]), "std": float(row["std"]),
            "min": float(row["least"]), "max": float(row["most"]),
            "nan": int(row["nans"]), "inf": int(row["infs"]), "counted": int(row["counted"]),
        }  # fmt: skip

    def __repr__(self) -> str:
        dtype = dtype_name(self.dtype)
        return f"{self.name or 'value'}: {dtype}{list(self.shape)}"


class Event(_Row):
    """Something that ran: a call of an op or of a module, a node of backward, a pass, a flush."""

    __slots__ = ()

    @property
    def _row(self) -> Any:
        return self.graph._tables.events[self.number]

    @property
    def kind(self) -> str:
        """ "call", "module", "function", "backward", "node", "step", "flush" or "named"."""
        return KINDS[int(self._row["kind"])]

    @property
    def name(self) -> str:
        """Of a call the op, with an underscore if it was in place; of a module its class."""
        return self.graph._tables.event_names[self.number]

    @property
    def module(self) -> str:
        """The path of the module that it ran in, or is, from the outermost one: "encoder.0"; in
        backward that of the call that it is the backward of."""
        return self.graph._tables.path(self.number)

    @property
    def site(self) -> Site | None:
        """The line of the user's program: `file`, `line`, `function` and its `source`."""
        number = int(self._row["site"])
        return self.graph._tables.sites[number] if number >= 0 else None

    @property
    def stack(self) -> list[Site]:
        """The lines that called it, the innermost first, if they were recorded; else its own."""
        row = self._row
        return self.graph._tables.stack(int(row["stack"]), int(row["site"]))

    @property
    def line(self) -> str:
        """ "model.py:12"; an empty string where no line is known."""
        return str(self.site or "")

    def _operands(self, first: int, count: int) -> list[Value | None]:
        numbers = self.graph._tables.operands[first : first + count].tolist()
        return [Value(self.graph, n) if n >= 0 else None for n in numbers]

    @property
    def inputs(self) -> list[Value | None]:
        """Of a call, by the op's parameters; None for one that was not given."""
        row = self._row
        return self._operands(int(row["operands"]), int(row["inputs"]))

    @property
    def outputs(self) -> list[Value]:
        """The results of a call."""
        row = self._row
        values = self._operands(int(row["operands"]) + int(row["inputs"]), int(row["outputs"]))
        return [v for v in values if v is not None]

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of the first result."""
        outputs = self.outputs
        return outputs[0].shape if outputs else None

    @property
    def dtype(self) -> weft.dtype | None:
        """Of the first result."""
        outputs = self.outputs
        return outputs[0].dtype if outputs else None

    @property
    def saved(self) -> list[Value]:
        """What the node of a call saved for backward, of its inputs and its results."""
        mask, row = int(self._row["saved"]), self._row
        results = self._operands(int(row["operands"]) + int(row["inputs"]), int(row["outputs"]))
        kept = [v for i, v in enumerate(self.inputs[:16]) if mask >> i & 1]
        kept += [v for k, v in enumerate(results[:16]) if mask >> (16 + k) & 1]
        return [v for v in kept if v is not None]

    @property
    def time(self) -> float | None:
        """Seconds, what ran inside included; None if times were not recorded."""
        row = self._row
        if not row["ended"]:
            return None
        return int(row["ended"] - row["began"]) * self.graph._tables.tick

    @property
    def own_time(self) -> float | None:
        """Seconds, less what ran inside."""
        whole = self.time
        return None if whole is None else whole - sum(e.time or 0.0 for e in self.children)

    @property
    def flops(self) -> int | None:
        """Floating-point operations of a call that is made of products, two for a product and its
        sum (a multiply-add); None of others."""
        return self.graph._tables.flops_of.get(self.number)

    @property
    def parent(self) -> Event | None:
        """What it is a part of."""
        return self.graph._event(int(self._row["parent"]))

    @property
    def children(self) -> list[Event]:
        """What ran inside of it, in order."""
        return [Event(self.graph, e) for e in self.graph._tables.children[self.number]]

    @property
    def backward(self) -> bool:
        """Whether it is the run of a node of the graph, or ran within one."""
        return bool(self._row["backward"])

    @property
    def forward(self) -> Event | None:
        """Of a node of backward, the call that made it, if it was recorded."""
        row = self._row
        return self.graph._event(self.graph._makers.get(int(row["node"]), -1)) if (
            row["kind"] == NODE
        ) else None  # fmt: skip

    @property
    def failed(self) -> bool:
        """Whether an exception ended it."""
        return bool(self._row["failed"])

    def __repr__(self) -> str:
        shape = self.shape
        result = f" -> {list(shape)}" if shape is not None else ""
        given = ", ".join("None" if v is None else str(list(v.shape)) for v in self.inputs)
        call = f"{self.name}({given})" if self.kind == "call" else self.name
        line = f" {self.line}" if self.line else ""
        module = f" in {self.module}" if self.module else ""
        return f"<{self.number}: {call}{result}{line}{module}>"


class Graph(Sequence[Event]):
    """What ran, as a sequence of events in the order in which they began.

    `print(graph)` shows the tree of modules and calls, with loops rolled up; events know what made
    their inputs. `weft.record` and `weft.graph` make it.
    """

    @property
    def _tables(self) -> Tables:
        raise NotImplementedError

    #: Whether statistics of results were asked for.
    statistics = False

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._reads: dict[int, list[int]] | None = None
        self._made_by: dict[int, int] | None = None

    # --- events ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._tables.events)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [Event(self, i) for i in range(*index.indices(len(self)))]
        index = operator.index(of_type("Graph", "index", index, int, slice))
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"[Graph] expected an event of {len(self)}, got number {index}")
        return Event(self, at)

    def __iter__(self) -> Iterator[Event]:
        return (Event(self, i) for i in range(len(self)))

    def _event(self, number: int) -> Event | None:
        return Event(self, number) if number >= 0 else None

    @property
    def calls(self) -> list[Event]:
        """The calls of ops that are inside of no other call."""
        rows = self._tables.events
        kinds = rows["kind"]
        inside = (rows["parent"] >= 0) & (kinds[rows["parent"]] == CALL)
        return [Event(self, int(i)) for i in ((kinds == CALL) & ~inside).nonzero()[0]]

    @property
    def modules(self) -> list[Event]:
        """The calls of modules."""
        kinds = self._tables.events["kind"]
        return [Event(self, int(i)) for i in (kinds == MODULE).nonzero()[0]]

    @property
    def flops(self) -> int:
        """Floating-point operations of all products that ran, forward and backward, two for a
        multiply-add; in a batch those of its examples.

        >>> with weft.record() as g:
        ...     y = weft.ones(2, 3) @ weft.ones(3, 4)
        >>> g.flops
        48
        """
        from weft.see.flops import counted_calls

        return sum(counted_calls(self).values())

    @property
    def _readers(self) -> dict[int, list[int]]:
        if self._reads is None:
            self._reads = {}
            for event, value in self._edges():
                self._reads.setdefault(value, []).append(event)
        return self._reads

    def _edges(self) -> Iterator[tuple[int, int]]:
        """(event, value that it reads)"""
        operands = self._tables.operands.tolist()
        rows = self._tables.events[["operands", "inputs"]].tolist()
        for event, (first, inputs) in enumerate(rows):
            for value in operands[first : first + inputs]:
                if value >= 0:
                    yield event, value

    @property
    def _makers(self) -> dict[int, int]:
        """The call that made each node."""
        if self._made_by is None:
            rows = self._tables.events[["kind", "node"]].tolist()
            self._made_by = {
                node: event for event, (kind, node) in enumerate(rows) if kind == CALL and node
            }
        return self._made_by

    # --- questions ------------------------------------------------------------------------------

    def find(
        self,
        op: str | None = None,
        *,
        line: str | int | None = None,
        shape: Shape | None = None,
        module: str | None = None,
        nan: bool | None = None,
        inf: bool | None = None,
        backward: bool | None = None,
        where: Callable[[Event], bool] | None = None,
    ) -> list[Event]:
        """The calls (with `op` a module's class or a node's name: those) of which all is true.

        Args:
            op: the name, with `*` and `?` as in file names: "matmul", "*norm*", "Linear".
            line: "model.py:12", "model.py" or 12.
            shape: of a result; None in a place stands for any size, `...` for any sizes.
            module: the path of the module, with `*` and `?`; of all inside of "encoder" it is
                "encoder*".
            nan: whether a result had nan elements among those looked at, which needs
                `record(statistics=True)`; False: was looked at, and had none.
            inf: likewise of infinite ones.
            backward: whether it ran within backward.
            where: a function of the event.

        Raises:
            TypeError: an argument of another type.
            ValueError: `nan` or `inf` without recorded statistics.

        >>> with weft.record() as g:
        ...     y = weft.ones(2, 3) @ weft.ones(3, 4)
        >>> [e.name for e in g.find(shape=(2, None))]
        ['ones', 'matmul']
        """
        of_type("find", "op", op, str, None)
        of_type("find", "line", line, str, int, None)
        of_type("find", "shape", shape, Sequence, None)
        of_type("find", "module", module, str, None)
        of_type("find", "where", where, Callable, None)
        for name, flag in (("nan", nan), ("inf", inf), ("backward", backward)):
            of_type("find", name, flag, bool, None)
        if not all(s is None or s is ... or isinstance(s, SupportsIndex) for s in shape or ()):
            raise TypeError(f"[find] expected sizes, None and `...` in shape, got {shape}")
        tables = self._tables
        looked = {"nans": nan, "infs": inf}
        if (nan, inf) != (None, None) and not (self.statistics or len(tables.statistics)):
            raise ValueError(
                "[find] expected a graph with statistics for nan= and inf=, got one without. "
                "Hint: weft.record(statistics=True)"
            )
        found = list(self) if op is not None else self.calls
        if op is not None:
            found = [e for e in found if fnmatch.fnmatchcase(e.name, op)]
        if backward is not None:
            found = [e for e in found if e.backward == backward]
        if line is not None:
            found = [e for e in found if is_at(e.site, str(line))]
        if module is not None:
            found = [e for e in found if fnmatch.fnmatchcase(e.module, module)]
        if shape is not None:
            found = [e for e in found if any(_fits(v.shape, shape) for v in e.outputs)]
        for what, wanted in looked.items():
            if wanted is not None:
                found = [
                    e for e in found if any(tables.has(what, v.number) is wanted for v in e.outputs)
                ]
        if where is not None:
            found = [e for e in found if where(e)]
        return found

    def path(self, a: Event | Value | Tensor, b: Event | Value | Tensor) -> list[Event]:
        """A shortest way on which what `a` made went into what `b` made: events, with both ends.

        Empty if there is none. A tensor stands for the value that it was last seen with.

        Raises:
            TypeError: an end that is none of these.
            ValueError: a tensor that the graph has not seen, an event of another graph.

        >>> with weft.record() as g:
        ...     x = weft.ones(2)
        ...     y = (x * 2).exp().sum()
        >>> [e.name for e in g.path(x, y)]
        ['ones', 'mul', 'exp', 'sum']
        """
        starts, ends = self._events_of(a), self._events_of(b)
        tables = self._tables
        maker = tables.values["event"].tolist()
        rows = tables.events[["operands", "inputs"]].tolist()
        operands = tables.operands.tolist()
        after: dict[int, int] = dict.fromkeys(ends, -1)
        queue = deque(ends)
        while queue:
            event = queue.popleft()
            if event in starts:
                way = []
                while event >= 0:
                    way.append(Event(self, event))
                    event = after[event]
                return way
            first, inputs = rows[event]
            for value in operands[first : first + inputs]:
                before = maker[value] if value >= 0 else -1
                if before >= 0 and before not in after:
                    after[before] = event
                    queue.append(before)
        return []

    def _events_of(self, of: Event | Value | Tensor) -> list[int]:
        """The event of something, or if it was there the events that read it."""
        if isinstance(of, Tensor):
            of = Value(self, self._number(of))
        if not isinstance(of, (Event, Value)):
            got = type(of).__name__
            raise TypeError(f"[path] expected events, values or tensors, got {got}")
        if of.graph is not self:
            raise ValueError("[path] expected an event or value of this graph, got another's")
        if isinstance(of, Event):
            return [of.number]
        event = int(of._row["event"])
        return [event] if event >= 0 else self._readers.get(of.number, [])

    def _number(self, of: Tensor) -> int:
        """The value that a tensor was last seen with; one that was there, by its address."""
        tables = self._tables
        number = tables.log.number(of)
        if number is None:
            found = dict(zip(*(tables.found[n].tolist() for n in ("tensor", "value")), strict=True))
            number = found.get(tables.log.address(of))
        if number is not None and number < len(tables.values):
            if tables.sizes(number) == tuple(of.shape):
                return int(number)
        raise ValueError("[path] expected a tensor that the graph has seen, got another")

    def memory(self) -> MemoryUse:
        """The bytes that live over the course of the events, and whose they are at the peak."""
        from weft.see.memory import MemoryUse

        return MemoryUse(self)

    def diff(self, other: Graph) -> Difference:
        """How the structure of `other` differs: lines that ran in one alone, and how often, new
        modules, other shapes.

        Raises:
            TypeError: `other` is no graph.
        """
        from weft.see.difference import Difference

        return Difference(self, of_type("diff", "other", other, Graph))

    def text(
        self, depth: int | None = None, *, times: bool = True, backward: bool = True,
        lines: bool = True,
    ) -> str:  # fmt: skip
        """The tree that `print` shows. Beyond 40 levels a number stands for the indentation.

        Args:
            depth: of so many levels of modules and calls; None: all.
            times: with the times.
            backward: with the passes of backward.
            lines: with the lines of the program that made the events.

        Raises:
            TypeError: a depth that is no number.
        """
        from weft.see.text import text_of

        of_type("text", "depth", depth, int, None)
        return text_of(self, depth, times, backward, lines)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        report: Report | None = None,
    ) -> None:
        """Write the graph as a file of the kind that the path ends in.

        `.html` is a page that needs no network: the tree, a drawing, memory, profile and batches.
        `.svg` and `.png` are the drawing, folded where it would be large; a PNG needs matplotlib,
        the extra `plot`. `.json` is what the page shows, as weft/see/view/model.py describes it.

        Args:
            path: the file, which is written anew.
            title: above the page; the file's name if left out.
            report: of `weft.explain` round the same code: the page says why calls did not merge.

        Raises:
            ValueError: a path of another ending.
            ModuleNotFoundError: a PNG without matplotlib.

        >>> import pathlib, tempfile
        >>> with weft.record() as g:
        ...     y = weft.ones(2, 3) @ weft.ones(3, 4)
        >>> file = pathlib.Path(tempfile.mkdtemp(), "step.svg")
        >>> g.save(file)
        >>> file.read_text()[:4]
        '<svg'
        """
        from weft.see.view.offline import save

        save(self, path, title, report)

    def _repr_html_(self) -> str:
        from weft.see.view.offline import notebook

        return notebook(self)

    @property
    def structure(self) -> str:
        """A name for what ran forward: equal if the tree of modules and calls, its names and its
        lines are. Sizes, and how often a loop goes round, if twice at least, may differ.

        >>> def model(x, rounds):
        ...     for _ in range(rounds):
        ...         x = x * 2
        ...     return x
        >>> names = set()
        >>> for rounds in (2, 3, 4):
        ...     with weft.record() as g:
        ...         y = model(weft.ones(2), rounds)
        ...     names.add(g.structure)
        >>> len(names)
        1
        """
        from weft.see.text import items_of, structure_of

        return structure_of(self, items_of(self, backward=False))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<weft.see.Graph of {len(self)} events>"


def is_at(site: Site | None, wanted: str) -> bool:
    if site is None:
        return False
    file, _, line = wanted.rpartition(":")
    if not line.isdigit():
        file, line = wanted, ""
    if line and int(line) != site.line:
        return False
    return not file or site.file == file or site.file.endswith(f"/{file}")


def _fits(shape: tuple[int, ...], wanted: Shape) -> bool:
    wanted = list(wanted)
    if ... in wanted:
        at = wanted.index(...)
        head, tail = wanted[:at], wanted[at + 1 :]
        if len(shape) < len(head) + len(tail):
            return False
        wanted = [*head, *[None] * (len(shape) - len(head) - len(tail)), *tail]
    return len(shape) == len(wanted) and all(
        w is None or w == s for s, w in zip(shape, wanted, strict=True)
    )
