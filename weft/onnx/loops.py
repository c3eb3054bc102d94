"""Loops over what only a run knows: Loop.

Note [Turns]
A Loop's body is walked until it leaves what it found: the first time tells what it writes, which
from then on
comes from the turn before. A number that changes is a number of the graph; a size that changes is
free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import weft
from weft.onnx.builder import Builder
from weft.onnx.control import (
    Unlike,
    as_held,
    as_tensor,
    branch,
    inner_output,
    nothing,
    typed,
    word,
)
from weft.onnx.errors import NotOnnx
from weft.onnx.graph import Number, Value, onnx_package
from weft.onnx.memory import Key, Shared, root, same_strides
from weft.onnx.program import Instr, registers_read
from weft.onnx.values import (
    UNBOUND,
    End,
    Grown,
    Held,
    Journal,
    Lost,
    Saved,
    Seq,
    contents,
    held,
    layout,
    readable,
)

if TYPE_CHECKING:
    from weft.onnx.walk import Walk

UNROLLED = 1000  #: turns of a loop that are written out at most


def while_loop(walk: Walk, i: Instr) -> End | None:
    """Walks a `while`: turn by turn while its test is known, else as a Loop."""
    test, body, other = i.regions
    undo = start(walk)
    try:
        for _ in range(UNROLLED):
            walk.body(test)
            truth = walk.condition(i.outs[0])
            if isinstance(truth, Held):
                return _Loop(walk, i, body, other, test=test, truth=truth).run()
            if not truth:
                return walk.body(other)
            end = walk.body(body)
            if end is not None and end.kind == "broke":
                undo()
                return _Loop(walk, i, body, other, test=test).run()
            if end is not None and end.kind != "continue":
                return None if end.kind == "break" else end
    finally:
        walk.journals.pop()
    raise NotOnnx(f"a loop of more than {UNROLLED} turns that are written out")


def start(walk: Walk) -> Callable[[], None]:
    """Begins a journal; what takes back all that is walked from here on."""
    journal = Journal()
    registers = [list(f.registers) for f in walk.frames]
    nodes = len(walk.g.nodes)
    walk.journals.append(journal)

    def undo() -> None:
        journal.undo()
        for frame, old in zip(walk.frames, registers):
            frame.registers = list(old)
        del walk.g.nodes[nodes:]

    return undo


def for_loop(walk: Walk, i: Instr) -> End | None:
    """Walks a `for`: as a Loop over a range or what only a run counts, else turn by turn."""
    items = walk.sequence(walk.operand(i.operands[0]))
    body, other = i.regions
    if isinstance(items, Seq):
        return _Loop(walk, i, body, other, items=items).run()
    if isinstance(items, range) and len(items) > 1:
        seq = Seq(len(items), lambda k: walk.item_of_range(items, k))
        undo = start(walk)
        try:
            return _Loop(walk, i, body, other, items=seq).run()
        except NotOnnx:  # something in it has to be known: turn by turn
            undo()
            if len(items) > UNROLLED:
                raise
        finally:
            walk.journals.pop()
    return turns(walk, i, list(items))


def turns(walk: Walk, i: Instr, items: Sequence[Any]) -> End | None:
    """The turns of a `for` over values that are known one by one. Behind one that may break over a
    value, the others are a way of a branch."""
    body, other = i.regions
    for k, v in enumerate(items):
        walk.assign(i.outs[0], v)
        end = walk.body(body)
        if end is None or end.kind == "continue":
            continue
        if end.kind == "broke" and not isinstance(end.value, Held):
            if end.value:
                return None
            continue
        if end.kind == "broke":
            rest = Instr("turns", i.outs, place=i.place, regions=i.regions, known=items[k + 1 :])
            return branch(walk, end.value, [], [rest])
        return None if end.kind == "break" else end
    return walk.body(other)


class _Loop:
    """One Loop (Note [Turns])."""

    def __init__(
        self,
        walk: Walk,
        i: Instr,
        body: Sequence[Instr],
        other: Sequence[Instr],
        *,
        items: Seq | None = None,
        test: Sequence[Instr] = (),
        truth: Held | None = None,
    ) -> None:
        self.walk, self.i, self.body, self.other = walk, i, body, other
        self.items, self.test, self.truth = items, test, truth
        self.frame = walk.frames[-1]
        self.written: dict[int, Any] = {}  # registers
        self.things: dict[int, Any] = {}  # tensors and lists
        self.lists: dict[int, tuple[list[Any], list[Held]]] = {}
        self.dropped: dict[int, Lost] = {}  # registers that nothing carries, and why
        self.lost: dict[int, tuple[Held, NotOnnx]] = {}  # what a turn may write by another name
        self.loose: set[Key] = set()  # what is carried with more strides than one
        self.earlier: dict[int, Held] = {}  # what earlier turns have appended to a list
        self.shared = Shared(walk.aliases)
        self.may_break = False  # before the last of the items

    def run(self) -> End | None:
        """Writes the Loop, and what holds after it."""
        _, block = self.walk.programs[self.frame.number]
        self.read = (
            registers_read(block, self.i)
            | registers_read(list(self.body))
            | registers_read(list(self.test))
        )
        self.carry: dict[Key, Any] = {}
        left = 8
        while left:
            seen = self.shared.size()
            if not self.turn():
                return None
            left -= self.shared.size() == seen
        raise NotOnnx("a loop whose values change in kind with each turn")

    def turn(self) -> bool:
        """Walks the body once; whether what is carried was not right yet."""
        walk, model = self.walk, self.walk.model
        registers = [list(f.registers) for f in walk.frames]
        outside = walk.reachable()
        journal = Journal()
        walk.journals.append(journal)
        earlier = list(walk.earlier)
        partial, walk.partial = walk.partial, False
        walk.turns.append(len(walk.frames))
        try:
            with walk.g.inner() as g:
                number = Value(model, model.name("turn"), weft.int64, ())
                going = Value(model, model.name("going"), weft.bool, ())
                inputs = self.enter()
                if self.items is not None:
                    index = Held(Number(model, number.name, weft.int64, ()), (0, 1))
                    walk.assign(self.i.outs[0], self.items.item(index))
                end = walk.body(self.body)
                goes_on = self.goes_on(end)
                after = {
                    k: (t, contents(t)) for k, (t, _) in journal.before.items() if k in outside
                }
                left = [list(f.registers) for f in walk.frames]
                wrong = self.compare(registers, left, after)
                wrong |= self.shared.grow(self.ends(left), outside)
                if not wrong:
                    outs = [
                        inner_output(g, self.outcome(key, left, after), v.dtype)
                        for key, v in inputs
                    ]
                    scans = [
                        inner_output(g, rows[0].value, rows[0].value.dtype)
                        for _, rows in self.lists.values()
                    ]
                    cond = inner_output(g, goes_on, weft.bool)
                    shaped = [typed(o, v) for o, (_, v) in zip(outs, inputs)]
                    graph = g.graph(
                        model.name("body"),
                        [number, going, *(v for _, v in inputs)],
                        [cond, *shaped, *scans],
                    )
        finally:
            walk.turns.pop()
            walk.partial = partial
            walk.journals.pop()
            walk.earlier = earlier
            journal.undo()
            for frame, old in zip(walk.frames, registers):
                frame.registers = old
        if wrong:
            return True
        self.write(graph, inputs, [r[0] for _, r in self.lists.values()])
        return False

    def enter(self) -> list[tuple[Key, Value]]:
        """Gives what is carried the values of the turn before."""
        walk, model = self.walk, self.walk.model
        inputs = []
        heads: dict[Key, Held] = {}
        for r, lost in self.dropped.items():
            walk.frames[-1].registers[r] = lost
        for key, (_, examples) in self.carry.items():
            inside = held(model, model.name("carried"), examples)
            inputs.append((key, inside.value))
            if key[0] == "register":
                inside.loose, heads[key] = key in self.loose, inside
                walk.frames[-1].registers[key[1]] = inside
            else:
                thing = self.things[key[1]]
                walk.note(thing)
                thing.set(inside.value, inside.examples)
        for number, (thing, rows) in self.lists.items():
            walk.note(thing)  # how long it is by now only a run knows
            thing[:] = [Lost("a list that a loop makes longer, and reads")]
            self.earlier[number] = Held(*contents(rows[0])[:2])
            walk.earlier.append(self.earlier[number])
        self.lose()
        starts = {key: [start] for key, (start, _) in self.carry.items() if key[0] == "register"}
        self.shared.grow(starts)
        self.shared.become(heads | {("list", n): v for n, v in self.earlier.items()})
        return inputs

    def lose(self) -> None:
        """Tensors that a turn may write by another name, as the next finds them."""
        for thing, why in self.lost.values():
            self.walk.note(thing)
            thing.lost = why

    def ends(self, left: list[list[Any]]) -> dict[Key, list[Any]]:
        """What is carried, at the end of a turn: of a list, what all turns appended."""
        found = {key: [left[-1][key[1]]] for key in self.carry if key[0] == "register"}
        for number, (_, rows) in self.lists.items():
            found["list", number] = [*rows]
            if number in self.earlier:
                found["list", number].append(self.earlier[number])
        return found

    def goes_on(self, end: End | None) -> Value:
        """Whether there is another turn, as far as the body says."""
        walk = self.walk
        self.may_break = end is not None and end.kind in ("break", "broke")
        if end is not None and end.kind == "return":
            raise NotOnnx("a return out of a loop", "use break, and return after the loop")
        if end is not None and end.kind == "break":
            return walk.g.const(False, weft.bool)
        on = walk.g.const(True, weft.bool)
        if end is not None and end.kind == "broke":
            on = walk.g.op("Not", as_held(walk, end.value).value)
        if self.test:
            walk.body(self.test)
            truth = walk.condition(self.i.outs[0])
            on = walk.g.op("And", on, as_held(walk, truth).value)
        return on

    def compare(
        self, before: list[list[Any]], after: list[list[Any]], things: dict[int, Any]
    ) -> bool:
        """Notes what the body leaves otherwise than it finds it; whether that was not known."""
        wrong = False
        for earlier in self.earlier.values():
            earlier.settle()
        entered = before[-1]
        for r, new in enumerate(after[-1]):
            key = ("register", r)
            if r in self.dropped:
                continue
            if isinstance(new, Held) and (lost := root(new).lost) is not None:
                if key in self.carry or new is not entered[r] and r in self.read:
                    wrong |= self.drop(key, lost.reason)
                continue
            if key in self.carry:
                wrong |= self.widen(key, new)
            elif new is not entered[r] and r in self.read and not self.is_target(r):
                wrong |= self.begin(key, entered[r], new)
        for frames in zip(before[:-1], after[:-1]):
            if any(a is not b for a, b in zip(*frames)):
                raise NotOnnx("a loop that changes variables of its caller")
        for number, (thing, new) in things.items():
            if isinstance(thing, Held):
                wrong |= thing.view is None and self.writes(thing, number, new)
            elif isinstance(thing, list):
                wrong |= self.grows(thing, number, new)
            else:
                raise NotOnnx("a dict or an attribute that a loop over values writes")
        return wrong

    def writes(self, thing: Held, number: int, new: Saved) -> bool:
        """A tensor that a turn writes, or may write by another name."""
        key = ("thing", number)
        if new.lost is not None:
            self.carry.pop(key, None)
            known = number in self.lost
            self.lost[number] = (thing, new.lost)
            return not known
        self.things[number] = thing
        if key in self.carry:
            return self.widen(key, new.held())
        return self.begin(key, self.before(thing).held(), new.held())

    def before(self, thing: Held) -> Saved:
        """A tensor as it was before the body."""
        journal = self.walk.journals[-1].before
        saved: Saved = journal[id(thing)][1] if id(thing) in journal else contents(thing)
        return saved

    def is_target(self, r: int) -> bool:
        """The loop's own variable, which each turn sets first."""
        return self.items is not None and r == self.i.outs[0]

    def begin(self, key: Key, start: Any, new: Any) -> bool:
        """Carries what a turn writes, if a graph can."""
        if not isinstance(new, (Held, bool, int, float)):
            return self.drop(key, f"a loop over values that writes {word(new)}")
        first = start
        if start is UNBOUND:
            first = self.nothing(new)
        elif not isinstance(start, (Held, bool, int, float)):
            why = f"a variable that is {word(start)} before a loop and {word(new)} in it"
            return self.drop(key, why)
        made = as_held(self.walk, first)
        if lost := self.before(root(made)).lost:
            return self.drop(key, lost.reason)
        new_held = as_held(self.walk, new)
        if made.is_number and not new_held.is_number:
            try:
                made = as_tensor(self.walk.model, self.outer(), made, new_held)
            except Unlike as error:
                why = f"a variable that is {word(start)} before a loop: {error}"
                return self.drop(key, why, "begin with a tensor, as weft.zeros(n)")
        kinds = contents(made).value.dtype, new_held.value.dtype
        if made.is_number and new_held.is_number and kinds[0] != kinds[1]:
            into = weft.promote_types(*kinds)
            kind = float if into.is_floating_point else int
            cast = self.outer().cast(made.value, into)
            made = Held(
                Number(made.value.model, cast.name, into, ()),
                (kind(made.examples[0]), kind(made.examples[1])),
            )
        examples = contents(made).examples
        if made.is_number and new_held.is_number:  # of other turns: a size of it is free
            examples = (examples[0], type(examples[0])(new_held.examples[1]))
        self.carry[key] = (made, examples)
        self.widen(key, new)
        return True

    def drop(self, key: Key, why: str, hint: str = "") -> bool:
        """What no value of a graph can be: a register is lost to who reads it in a later turn, or
        behind the loop."""
        if key[0] != "register":
            raise NotOnnx(why, hint)
        self.carry.pop(key, None)
        self.dropped[key[1]] = Lost(why, hint)
        return True

    def outer(self) -> Builder:
        """The builder of the graph that the loop is a node of."""
        parent = self.walk.g.parent
        assert parent is not None
        return parent

    def nothing(self, new: Any) -> Any:
        """What a variable holds that only the loop sets, before it: nothing that a run may read."""
        return nothing(self.walk.model, self.outer(), new) if isinstance(new, Held) else new

    def widen(self, key: Key, new: Any) -> bool:
        """Frees the sizes that a turn changes."""
        start, examples = self.carry[key]
        made = as_held(self.walk, new) if isinstance(new, (Held, bool, int, float)) else None
        if made is None or made.is_number != start.is_number:
            why = f"a variable of a loop that was {word(start)} and becomes {word(new)}"
            return self.drop(key, why)
        if made.is_number:
            return False
        was = contents(start).value
        if made.value.dtype != was.dtype:
            why = f"a tensor of a loop that was {was.dtype} and becomes {made.value.dtype}"
            return self.drop(key, why)
        if made.value.rank != was.rank:
            return self.drop(key, "a tensor of a loop whose number of dimensions changes")
        loose = start.loose or made.loose or not same_strides(examples, made.examples)
        if loose and key not in self.loose:
            self.loose.add(key)
            return True
        have, get = layout(examples), made.value.sizes or ()
        if all(a is None or a == b for a, b in zip(have, get)):
            return False
        free = [d for d, (a, b) in enumerate(zip(have, get)) if a is None or a != b]
        self.carry[key] = (start, (examples[0], _of_other_sizes(examples[0], made.examples, free)))
        return True

    def grows(self, thing: list[Any], number: int, new: list[Any]) -> bool:
        """A list to which each turn appends one tensor."""
        known = number in self.lists
        more = new[1 if known else len(thing_contents(self.walk, thing)) :]
        readable(more)
        if len(more) != 1 or not isinstance(more[0], Held) or more[0].is_number:
            raise NotOnnx(
                "a list that a loop over values changes", "append one tensor in each turn"
            )
        self.lists[number] = (thing, more)
        return not known

    def outcome(self, key: Key, left: list[list[Any]], things: dict[int, Any]) -> Value:
        """What a turn leaves of what is carried."""
        if key[0] == "register":
            return as_held(self.walk, left[-1][key[1]]).value
        value: Value = things[key[1]][1].value
        return value

    def write(self, graph: Any, inputs: Sequence[tuple[Key, Value]], scans: Sequence[Held]) -> None:
        """Adds the node, and gives registers, tensors and lists what they hold after it."""
        walk, model, helper = self.walk, self.walk.model, onnx_package().helper
        count = ""
        if self.items is not None:
            count = walk.g.scalar(_bare_count(self.items.length), weft.int64).name
        going = self.truth.value.name if self.truth is not None else ""
        starts = []
        for key, v in inputs:
            start: Held = self.carry[key][0]
            starts.append(walk.g.cast(start.value, v.dtype).name)
        outs = [held(model, model.name("loop_out"), self.carry[key][1]) for key, _ in inputs]
        rows = [self.rows(scan) for scan in scans]
        carried = {key: out for (key, _), out in zip(inputs, outs) if key[0] == "register"}
        self.shared.become(carried | {("list", n): row for n, row in zip(self.lists, rows)})
        if names := [o.value.name for o in (*outs, *rows)]:  # else nobody reads what it does
            walk.g.nodes.append(
                helper.make_node(
                    "Loop", [count, going, *starts], names, model.name("Loop_node"), body=graph
                )
            )
        for r in range(len(self.frame.registers)):
            if self.is_target(r) and r in self.read:
                self.frame.registers[r] = Lost(
                    "the variable of a loop, after it", "assign it to another in the loop"
                )
        for r, lost in self.dropped.items():
            self.frame.registers[r] = lost
        for (key, _), out in zip(inputs, outs):
            if key[0] == "register":
                out.loose = key in self.loose
                self.frame.registers[key[1]] = out
            else:
                thing = self.things[key[1]]
                walk.note(thing)
                thing.set(out.value, out.examples)
        self.lose()
        for (thing, _), row in zip(self.lists.values(), rows):
            walk.note(thing)
            thing[:] = [*thing, Grown(row)]

    def rows(self, scan: Held) -> Held:
        """All tensors that were appended, along a new dimension: as many as there are turns."""
        counts = (2, 3)
        if self.items is not None and isinstance(self.items.length, int) and not self.may_break:
            counts = (self.items.length, self.items.length)
        examples = tuple(
            e.unsqueeze(0).expand(n, *e.shape).clone() for n, e in zip(counts, scan.examples)
        )
        return held(self.walk.model, self.walk.model.name("rows"), (examples[0], examples[1]))


def _of_other_sizes(first: weft.Tensor, examples: Sequence[Any], free: list[int]) -> weft.Tensor:
    """An example with other sizes than the first in all dimensions that are free."""
    for one in reversed(examples):
        if all(one.shape[d] != first.shape[d] for d in free):
            return one
    shape = [n + 1 if d in free else n for d, n in enumerate(first.shape)]
    return weft.zeros(shape, dtype=first.dtype)


def thing_contents(walk: Walk, thing: list[Any]) -> list[Any]:
    """A list as it was before the loop's body wrote it."""
    saved: list[Any] = walk.journals[-1].before[id(thing)][1]
    return saved


def _bare_count(length: Any) -> Any:
    return length.value if isinstance(length, Held) else length
