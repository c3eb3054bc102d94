"""Branches over what only a run knows: If.

Note [Two ways]
Both ways of a branch are walked from the same state. What a way writes (registers, tensors, lists)
is noted in a
`Journal` and taken back; then what the two ways left unlike becomes an output of the If. What
cannot be one, as
a list that grew on one way, is `Lost`: an error where it is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft
from weft.onnx.builder import Builder
from weft.onnx.errors import NotOnnx
from weft.onnx.examples import grown
from weft.onnx.graph import Model, Number, Value, onnx_package
from weft.onnx.memory import same_strides
from weft.onnx.program import Instr
from weft.onnx.values import (
    UNBOUND,
    Callee,
    End,
    Examples,
    Grown,
    Held,
    Instance,
    Journal,
    Lost,
    Repeated,
    Saved,
    Seq,
    contents,
    dtype_of,
    held,
    layout,
    restore,
)  # fmt: skip

if TYPE_CHECKING:
    from weft.onnx.walk import Walk


@contextlib.contextmanager
def active(model: Model, builder: Builder) -> Iterator[None]:
    """Within it, nodes are added to another graph."""
    before, model.active = model.active, builder
    try:
        yield
    finally:
        model.active = before


class Unlike(Exception):
    """Two values that no value of a graph can be."""


@dataclass
class Way:
    """What one way of a branch did."""

    walk: Walk
    builder: Builder
    end: End | None
    registers: list[list[Any]]
    after: dict[int, tuple[Any, Any]]

    def left(self, thing: Any) -> Any:
        """What a container or a tensor held at the end of the way."""
        return self.after[id(thing)][1] if id(thing) in self.after else contents(thing)

    def tensor(self, v: Held) -> Held:
        """A tensor as it was at the end of the way, as one of its own."""
        if v.is_number:
            return v
        saved: Saved = self.left(v)
        if v.view is None:
            return saved.held()
        base = self.tensor(v.view.base)
        if base.value is saved.seen:
            return saved.held()
        with active(self.walk.model, self.builder):
            return self.walk.replayed(v.view, base)


def _walk_way(walk: Walk, block: Sequence[Instr]) -> Way:
    before = [list(f.registers) for f in walk.frames]
    frame = walk.frames[-1]
    place, caught, again = frame.place, frame.caught, frame.again
    journal = Journal()
    walk.journals.append(journal)
    try:
        with walk.g.inner() as builder:
            end = walk.body(block)
        registers = [list(f.registers) for f in walk.frames]
        return Way(walk, builder, end, registers, journal.undo())
    finally:
        walk.journals.pop()
        for frame, registers in zip(walk.frames, before):
            frame.registers = registers
        frame.place, frame.caught, frame.again = place, caught, again


def branch(walk: Walk, truth: Held, first: Sequence[Instr], second: Sequence[Instr]) -> End | None:
    """Walks an `if` over a value of the graph."""
    outside = walk.reachable()
    ways = [_walk_way(walk, block) for block in (first, second)]
    raising = [w for w in ways if w.end is not None and w.end.kind == "raise"]
    if raising:  # a check: nothing raises in a graph, so the other way is taken
        walk.expect_not_caught()
        return walk.body(second if ways[0] in raising else first)
    join = _Join(walk, ways, truth.examples)
    end = _end_of_both(walk, join, ways)
    _merge_state(walk, join, ways, outside)
    join.write(truth.value)
    return end


def _end_of_both(walk: Walk, join: _Join, ways: Sequence[Way]) -> End | None:
    """How a branch ends."""
    ends = [w.end for w in ways]
    if ends[0] is None and ends[1] is None:
        return None
    if walk.partial:
        parts = [(e is not None, e) if e is None or e.kind != "left" else e.value for e in ends]
        done = join.must(parts[0][0], parts[1][0], "a way out")
        what = _end(walk, join, [end for _, end in parts])
        return what if done is True else End("left", (done, what))
    return _end(walk, join, ends)


def _end(walk: Walk, join: _Join, ends: Sequence[End | None]) -> End:
    """What two ends become, of which one may be none: that of the function, or of the turn."""
    kinds = [e.kind if e is not None else "" for e in ends]
    if "return" in kinds:
        if not set(kinds) <= {"return", ""} or _inside_loop(walk) and "" in kinds:
            raise NotOnnx(
                "a return out of a loop on one way of a branch",
                "use break, and return after the loop",
            )
        nothing = UNBOUND if walk.partial else None
        both = [e.value if e is not None else nothing for e in ends]
        return End("return", join.must(both[0], both[1], "the results of the two ways"))
    if kinds[0] == kinds[1] != "broke":
        return End(kinds[0])
    flags = [e.value if e and e.kind == "broke" else k == "break" for e, k in zip(ends, kinds)]
    return End("broke", join.must(flags[0], flags[1], "a break"))


def _inside_loop(walk: Walk) -> bool:
    return bool(walk.turns) and walk.turns[-1] == len(walk.frames)


def _merge_state(walk: Walk, join: _Join, ways: Sequence[Way], outside: set[int]) -> None:
    """Registers and what was written, of both ways, as they are after the branch."""
    gone = [walk.partial and w.end is not None and w.end.kind == "return" for w in ways]
    for k, frame in enumerate(walk.frames):
        own = frame is walk.frames[-1]
        for r, old in enumerate(frame.registers):
            a, b = ways[0].registers[k][r], ways[1].registers[k][r]
            if own and any(gone):  # who reads it is on the other way
                a = UNBOUND if gone[0] and b is not old else old if gone[0] else a
                b = UNBOUND if gone[1] and a is not old else old if gone[1] else b
            if a is not old or b is not old:
                frame.registers[r] = join.may(a, b)
    things = {**ways[0].after, **ways[1].after}
    merged: list[tuple[Any, Any]] = []  # written when all are made: each reads what others held
    for key, (thing, _) in things.items():
        if key not in outside or isinstance(thing, Held) and thing.view is not None:
            continue  # what a way made, and views: they are made anew
        sides = [w.left(thing) for w in ways]
        if isinstance(thing, Held):
            merged.append((thing, join.written(sides)))
        elif isinstance(thing, (Instance, dict)):
            if sides[0].keys() != sides[1].keys():
                raise NotOnnx("a dict that gets other keys on one way of a branch")
            both = {n: join.must(v, sides[1][n], f"{n!r}") for n, v in sides[0].items()}
            merged.append((thing, both))
        elif len(sides[0]) != len(sides[1]):
            why = "a list that grows on one way of a branch over a value"
            merged.append((thing, [Lost(why)]))
        else:
            merged.append((thing, [join.may(a, b) for a, b in zip(*sides)]))
    for thing, saved in merged:
        walk.note(thing)
        restore(thing, saved)


class _Join:
    """The outputs of an If.

    Attributes:
        truths: which way each example takes, so that sizes that a program makes alike are alike.
    """

    def __init__(self, walk: Walk, ways: Sequence[Way], truth: Examples) -> None:
        self.walk, self.ways, self.truths = walk, ways, truth
        self.builders = [w.builder for w in ways]
        self.pairs: list[tuple[Value, Value, Value]] = []
        self.made: dict[tuple[int, int], tuple[Any, Any, Any]] = {}  # with the two sides of each

    def must(self, a: Any, b: Any, what: str) -> Any:
        """One value for both.

        Raises:
            NotOnnx: there is none.
        """
        try:
            return self.one(a, b)
        except Unlike as error:
            raise NotOnnx(f"{what}, which differ: {error}") from None

    def may(self, a: Any, b: Any) -> Any:
        """The same for a register, which nobody may read."""
        try:
            return self.one(a, b)
        except Unlike as error:
            why = f"a variable that two ways of a branch left unlike: {error}"
            return Lost(why, truth=self.truth(a, b))

    def truth(self, a: Any, b: Any) -> Held | None:
        """Whether Python takes the one or the other for true; None: it takes one apart first."""
        sides: list[Any] = []
        for way, v in zip(self.ways, (a, b)):
            v = v.truth if isinstance(v, Lost) else False if v is UNBOUND else v
            plain = isinstance(v, (bool, int, float)) or isinstance(v, Held) and v.is_number
            if isinstance(v, Held) and not plain:
                v = way.tensor(v)
                plain = v.lost is None and all(e.numel() == 1 for e in v.examples)
            if not plain:
                return None
            with active(self.walk.model, way.builder):
                sides.append(self.walk.truth(v))
        return self.held(*sides)

    def one(self, a: Any, b: Any) -> Any:
        """One value for both, or Unlike."""
        if a is b:
            return a
        if type(a) is tuple and type(b) is tuple and len(a) == len(b):
            return tuple(self.one(x, y) for x, y in zip(a, b))
        if (id(a), id(b)) not in self.made:
            self.made[id(a), id(b)] = (self.new(a, b), a, b)
        return self.made[id(a), id(b)][0]

    def new(self, a: Any, b: Any) -> Any:
        """One value for two that differ, or Unlike."""
        if a is UNBOUND:  # who reads it would raise in Python
            return self.one(self.nothing(self.ways[1], b), b)
        if b is UNBOUND:
            return self.one(a, self.nothing(self.ways[0], a))
        if type(a) in (list, dict) and type(a) is type(b):
            left, right = (w.left(v) for w, v in zip(self.ways, (a, b)))
            if type(a) is list and len(left) == len(right):
                return [self.one(x, y) for x, y in zip(left, right)]
            if type(a) is dict and left.keys() == right.keys():
                return {n: self.one(v, right[n]) for n, v in left.items()}
            raise Unlike(f"{word(a)} and {word(b)} with other items")
        if isinstance(a, Instance) and isinstance(b, Instance) and a.name == b.name:
            left, right = (w.left(v) for w, v in zip(self.ways, (a, b)))
            return Instance(a.name, {n: self.one(v, right[n]) for n, v in left.items()})
        if isinstance(a, Held) or isinstance(b, Held):
            sides = [w.tensor(v) if isinstance(v, Held) else v for w, v in zip(self.ways, (a, b))]
            return self.held(*sides)
        if type(a) is type(b) and a == b:
            return a
        if isinstance(a, (bool, int, float)) and isinstance(b, (bool, int, float)):
            return self.held(a, b)
        raise Unlike(f"{word(a)} and {word(b)}")

    def nothing(self, way: Way, like: Any) -> Any:
        """A value like that of a way, for a variable that has none on the other."""
        if type(like) is tuple:
            return tuple(self.nothing(way, v) for v in like)
        if type(like) is list:
            return [self.nothing(way, v) for v in way.left(like)]
        if type(like) is dict:
            return {n: self.nothing(way, v) for n, v in way.left(like).items()}
        if isinstance(like, Instance):
            fields = {n: self.nothing(way, v) for n, v in way.left(like).items()}
            return Instance(like.name, fields)
        if isinstance(like, Held):
            return nothing(self.walk.model, self.walk.g, like)
        if isinstance(like, (Lost, Seq, Repeated, Grown, slice)) or _is_bound(like):
            raise Unlike(f"no value and {word(like)}")  # what is in it is of that way alone
        return like

    def written(self, sides: Sequence[Saved]) -> Saved:
        """A tensor that a way writes, or may write, behind the branch."""
        first, second = sides
        if first.lost or second.lost or first.value is second.value:
            return first._replace(lost=first.lost or second.lost)
        try:
            made = self.held(first.held(), second.held())
        except Unlike as error:
            raise NotOnnx(f"a tensor that is written, which differ: {error}") from None
        return first._replace(value=made.value, examples=made.examples)

    def held(self, a: Any, b: Any) -> Held:
        """A tensor or number of both ways."""
        if not all(isinstance(v, (Held, bool, int, float)) for v in (a, b)):
            raise Unlike(f"{word(a)} and {word(b)}")
        sides = [as_held(self.walk, v) for v in (a, b)]
        if lost := sides[0].lost or sides[1].lost:
            raise Unlike(lost.reason)
        if sides[0].is_number != sides[1].is_number:
            sides = [
                as_tensor(self.walk.model, builder, v, other)
                for builder, v, other in zip(self.builders, sides, reversed(sides))
            ]
        dtypes = [s.value.dtype for s in sides]
        into = dtypes[0]
        if dtypes[0] != dtypes[1]:
            if not sides[0].is_number:
                raise Unlike(f"tensors of {dtypes[0]} and {dtypes[1]}")
            into = weft.promote_types(*dtypes)
        if not sides[0].is_number and sides[0].value.rank != sides[1].value.rank:
            raise Unlike(f"tensors with {sides[0].value.rank} and {sides[1].value.rank} dimensions")
        values = [inner_output(builder, s.value, into) for builder, s in zip(self.builders, sides)]
        examples = _of_either(sides[0].examples, sides[1].examples, into, self.truths)
        out = held(self.walk.model, self.walk.model.name("if_out"), examples)
        out.loose = any(s.loose for s in sides) or not (
            out.is_number or same_strides(sides[0].examples, sides[1].examples)
        )
        self.pairs.append((values[0], values[1], out.value))
        return out

    def write(self, truth: Value) -> None:
        """Adds the If."""
        self.walk.aliases.join([(out, (a, b)) for out, a, b in self.made.values()])
        if not self.pairs:
            return
        g, helper = self.walk.g, onnx_package().helper
        graphs = [
            builder.graph(self.walk.model.name(name), [], [typed(p[k], p[2]) for p in self.pairs])
            for k, (builder, name) in enumerate(zip(self.builders, ("then", "otherwise")))
        ]
        names = [p[2].name for p in self.pairs]
        g.nodes.append(
            helper.make_node(
                "If",
                [truth.name],
                names,
                self.walk.model.name("If_node"),
                then_branch=graphs[0],
                else_branch=graphs[1],
            )  # fmt: skip
        )


def nothing(model: Model, g: Builder, like: Held) -> Held:
    """A tensor or number of the kind of another that no run may read."""
    kind, examples, *_ = contents(like)
    with active(model, g):
        if like.is_number:
            made = g.const(0, kind.dtype)
            return Held(Number(model, made.name, made.dtype, (), None), examples)
        sizes = [0 if n is None else n for n in kind.sizes or ()]
        return Held(g.full(sizes, 0, kind.dtype), examples)


def _is_bound(v: Any) -> bool:
    """Whether it is a method of a value."""
    return isinstance(v, Callee) and v.kind == "method"


def typed(v: Value, out: Value) -> Value:
    return Value(v.model, v.name, out.dtype, out.sizes)


def inner_output(builder: Builder, v: Value, dtype: Any) -> Value:
    """A value as an output of an inner graph: made by a node of it."""
    with active(v.model, builder):
        return builder.op("Identity", builder.cast(v, dtype))


def _of_either(a: Examples, b: Examples, dtype: Any, truths: Examples) -> Examples:
    """Examples of what is `a` where the truth holds, and else `b`."""
    first, second = ((a if truth else b)[k] for k, truth in enumerate(truths))
    if not isinstance(first, weft.Tensor):
        if len({isinstance(v, float) for v in (*a, *b)}) == 2:  # an example of each kind
            return int(first), float(second)
        kind = {weft.bool: bool, weft.int64: int}.get(dtype, float)
        return kind(first), kind(second)
    if all(x.shape == y.shape for x, y in zip(a, b)):
        return a
    # of sizes that the two ways have unlike, or that are free on one, the examples must differ
    sizes = zip(layout(a), layout(b))
    return first, grown(first, second, [d for d, (m, n) in enumerate(sizes) if m is None or m != n])


def as_held(walk: Walk, v: Any) -> Held:
    """A number that is known as one of the graph."""
    if isinstance(v, Held):
        return v
    made = walk.g.const(v, dtype_of(v))
    return Held(Number(walk.model, made.name, made.dtype, (), made.known), (v, v))


def as_tensor(model: Model, g: Builder, v: Held, like: Held) -> Held:
    """A number as a tensor without dimensions, as its other way or turn has it; a tensor as it is.

    What computes with either gives the same: both leave the dtype to tensors with dimensions.

    Raises:
        Unlike: it has dimensions there, or a dtype in which the number may be another.
    """
    if not v.is_number:
        return v
    into, number = like.value.dtype, v.value
    if like.value.rank != 0:
        raise Unlike("a number and a tensor with dimensions")
    exact = number.dtype == into or number.dtype == weft.float64 and into.is_floating_point
    if number.dtype == weft.int64 and number.known is not None and into != weft.bool:
        exact |= bool(weft.tensor(v.examples[0]).to(into).item() == v.examples[0])
    if not exact:
        raise Unlike(f"a number of {number.dtype} and a tensor of {into}")
    with active(model, g):
        made = g.cast(number, into)
    examples = (weft.tensor(v.examples[0], dtype=into), weft.tensor(v.examples[1], dtype=into))
    return Held(Value(model, made.name, into, ()), examples)


def word(v: Any) -> str:
    if isinstance(v, Lost):
        return v.why
    if isinstance(v, Held):
        return "a number of the run" if v.is_number else "a tensor"
    if v is None or isinstance(v, (int, float, str)):
        return repr(v)
    return "no value" if type(v) is object else f"a {type(v).__name__}"
