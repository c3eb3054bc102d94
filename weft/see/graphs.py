"""`Graph`: events, the values between them, and questions about both."""

from __future__ import annotations

import fnmatch
import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, SupportsIndex, overload

from weft import Tensor
from weft.base.checks import of_type
from weft.see.events import Event, Value
from weft.see.tables import CALL, MODULE, Site, Tables

if TYPE_CHECKING:
    import os

    from weft.batching.report import Report
    from weft.see.difference import Difference
    from weft.see.memory import MemoryUse

Shape = Sequence[int | EllipsisType | None]


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
