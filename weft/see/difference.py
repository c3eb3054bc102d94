"""`Difference`: how the structure of what ran changed between two graphs."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.see.events import Event
    from weft.see.graphs import Graph
    from weft.see.tables import Site

Where = tuple[str, "Site | None", str]  # module, line, op


class Difference:
    """What runs in one graph alone, what runs another number of times, and in other shapes.

    A call is known by its module, its line and its op. What ran within backward follows from what
    ran forward and is left out.

    Attributes:
        only_first: calls that the first graph alone has, with how often they ran: branches taken.
        only_second: those that the second alone has.
        counts: calls that ran another number of times: (first, second). Lengths of loops.
        shapes: calls whose results have other shapes: the shapes of both, each once.
        modules: paths of modules that one graph alone called: (of the first, of the second).

    >>> def model(x):
    ...     for _ in range(len(x)):
    ...         x = x * 2
    ...     return x
    >>> with weft.record() as a:
    ...     y = model(weft.ones(2))
    >>> with weft.record() as b:
    ...     y = model(weft.ones(3))
    >>> [(op, n) for (_, _, op), n in a.diff(b).counts.items()]
    [('mul', (2, 3))]
    """

    def __init__(self, first: Graph, second: Graph) -> None:
        one, two = _calls(first), _calls(second)
        self.only_first = {k: len(v) for k, v in one.items() if k not in two}
        self.only_second = {k: len(v) for k, v in two.items() if k not in one}
        both = [k for k in one if k in two]
        self.counts = {k: (len(one[k]), len(two[k])) for k in both if len(one[k]) != len(two[k])}
        shapes = {k: (_shapes(one[k]), _shapes(two[k])) for k in both}
        self.shapes = {k: v for k, v in shapes.items() if v[0] != v[1]}
        a, b = _modules(first), _modules(second)
        self.modules = sorted(a - b), sorted(b - a)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(
            self.only_first or self.only_second or self.counts or self.shapes
            or self.modules[0] or self.modules[1]
        )  # fmt: skip

    def __str__(self) -> str:
        if not self:
            return "no difference in structure"
        rows: list[str] = []
        for title, paths in zip(("the first", "the second"), self.modules, strict=True):
            rows += [f"module in {title} alone: {path}" for path in paths]
        for title, calls in (("the first", self.only_first), ("the second", self.only_second)):
            rows += [f"in {title} alone: {_name(k)} ×{n}" for k, n in calls.items()]
        rows += [f"×{a} → ×{b}: {_name(k)}" for k, (a, b) in self.counts.items()]
        rows += [f"{_short(a)} → {_short(b)}: {_name(k)}" for k, (a, b) in self.shapes.items()]
        return "\n".join(rows)

    def __repr__(self) -> str:
        return f"<Difference:\n{self}>"


def _calls(graph: Graph) -> dict[Where, list[Event]]:
    found: dict[Where, list[Event]] = defaultdict(list)
    for event in graph.calls:
        if not event.backward:
            found[event.module, event.site, event.name].append(event)
    return found


def _shapes(events: list[Event]) -> list[tuple[int, ...]]:
    return sorted(Counter(e.shape for e in events if e.shape is not None))


def _modules(graph: Graph) -> set[str]:
    # the outermost module has no path: as in the text of the graph, its class
    return {e.module or e.name for e in graph.modules if not e.backward}


def _name(where: Where) -> str:
    module, line, op = where
    return op + (f" at {line}" if line else "") + (f" in {module}" if module else "")


def _short(shapes: list[tuple[int, ...]]) -> str:
    shown = ", ".join(str(list(s)) for s in shapes[:3])
    return shown + (f", … ({len(shapes)})" if len(shapes) > 3 else "")
