"""`Event` and `Value`: what ran in a graph, and what went from one event to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.base.shown import dtype_name
from weft.see.tables import KINDS, REQUIRES_GRAD, STRIDED, VIEW, Site

if TYPE_CHECKING:
    import weft
    from weft.see.graphs import Graph


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
        tables = self.graph._tables
        return [Value(self.graph, n) for n in tables.saved(self.number).tolist()]

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
        return self.graph._event(int(self.graph._tables.forward[self.number]))

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
