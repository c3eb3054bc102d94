"""What is known in the registers of a function that is being closed, and what is written of it."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import itertools
from collections.abc import Callable, Iterator, Set
from typing import Any

import weft
from weft import Tensor
from weft.base.alias import home_name
from weft.closing import known, library
from weft.closing.classes import is_record
from weft.closing.close import Closer, Target, constant_key
from weft.closing.errors import NotExportable
from weft.closing.package import NotAValue
from weft.closing.values import (
    Abstract,
    Bound,
    Choice,
    Closure,
    Dynamic,
    Items,
    Lost,
    Pack,
    Ref,
    Static,
    Super,
    Turn,
    Turns,
)
from weft.closing.write import Writer
from weft.frontend.ir import INLINED_SHIFT, Body, Instr

Register = int | str  # of the instructions; a variable that lives in a cell goes by its name
Env = dict[Register, Abstract]
Words = dict[str, Abstract]
UNKNOWN = object()
MOST_ITEMS = 256  # of a range or an iterator that are looked at one by one


class Loop:
    """A loop that is being gone through: what its body assigns, and whether `break` leaves it."""

    def __init__(self, assigned: set[Register]) -> None:
        self.assigned = assigned
        self.breaks = False
        self.may_unroll = False  # its turns can be written out


class Frame:
    """Registers and what is known of them; instructions and where they go."""

    def __init__(self, closer: Closer, target: Target) -> None:
        self.closer, self.target, self.lowered = closer, target, target.lowered
        code = target.code
        self.writer = Writer(closer.package, self.lowered.name, code.co_filename)
        self.lines = lines_of(self.lowered)
        self.env: Env = {}
        self.own: dict[Register, int] = {}
        self.homes: set[int] = set()  # what later instructions may write
        self.free: dict[str, Abstract] = {}
        self.loops: list[Loop] = []
        self.forced: set[Register] = set()
        self.returned: list[Abstract] = []
        self.is_entry = False  # called from outside, which gets values alone
        self.closures: list[tuple[Closure, set[str]]] = []  # and the variables that they share
        self.lazy: set[str] = set()  # variables that iterators read which outlive their statement
        self.returned_lazy: set[str] = set()  # of functions around this one
        self.given: list[tuple[Items, list[Any], list[Abstract]]] = []
        self.at: Instr | None = None
        self.before = 0  # how much was written before it
        self.following: tuple[Body, int] = [], 0  # what comes behind it
        self.live: dict[int, Set[int]] = {}  # by `id` of an instruction: what may be read behind it

    # ---- what others of the classes do

    def call_at_run(
        self, callee: int, args: list[Abstract], words: Words, kind: str = ""
    ) -> Abstract:
        """A call of what a program has."""
        raise NotImplementedError

    def call(self, callee: Abstract, args: list[Abstract], words: Words) -> Abstract:
        """What a call gives."""
        raise NotImplementedError

    def method(self, holder: Abstract, name: str, args: list[Abstract], words: Words) -> Abstract:
        """What a method gives."""
        raise NotImplementedError

    def by_class(
        self,
        holder: Abstract,
        name: str,
        args: list[Abstract],
        plain: Callable[[], Abstract],
        words: Words | None = None,
    ) -> Abstract:
        """What a special method of a record gives; `plain` does it for all other values."""
        raise NotImplementedError

    def special_methods(self, holder: Abstract, name: str) -> list[tuple[type, Any]]:
        """The classes of records that have a special method, where a value may be a record."""
        raise NotImplementedError

    # ---- errors and lines

    def placed(self, error: NotExportable, instr: Instr) -> NotExportable:
        """The error with the line of the user's, where that is not in weft's own functions."""
        if home_name(self.target.module.get("__name__") or "").partition(".")[0] == "weft":
            return error.within(self.lowered.name)
        return error.at(self.lowered.name, self.writer.file, self.line(instr.offset))

    def line(self, offset: int) -> int:
        """The line of an instruction; the function's where there is none."""
        return self.lines.get(offset) or self.target.code.co_firstlineno

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        """If what is within it is refused, all that is known and written is as it was before: the
        functions that it reached too, which may be half written, and what they alone refer to."""
        held = [self, self.writer, self.closer, self.closer.package, *self.loops]
        attributes = [(one, name, part) for one in held for name, part in attributes_of(one)]
        parts = [part for _, _, part in attributes]
        parts += [part for closure, shared in self.closures for part in (closure.captured, shared)]
        before = [(part, copy.copy(part)) for part in parts if isinstance(part, (list, dict, set))]
        try:
            yield
        except NotExportable:
            for one, name, part in attributes:
                setattr(one, name, part)
            for part, content in before:
                refill(part, content)
            raise

    # ---- values

    def read(self, operand: int) -> Abstract:
        """What an operand is."""
        if operand < 0:
            return Static(self.lowered.consts[~operand])
        return self.variable(operand)

    def variable(self, register: Register) -> Abstract:
        """What a variable is; one that may be unbound is looked at when the program runs."""
        value = self.env.get(register)
        if value is None:
            return Dynamic(self.home(register))
        if isinstance(value, Lost):
            raise NotExportable(value.what, value.hint)
        return value

    def home(self, register: Register) -> int:
        """The register of the new function that stands for one of the instructions."""
        if register not in self.own:
            name = register if isinstance(register, str) else self.lowered.registers[register]
            self.own[register] = self.writer.register(name)
            self.homes.add(self.own[register])
        return self.own[register]

    def is_temporary(self, register: Register) -> bool:
        return isinstance(register, int) and not self.lowered.registers[register]

    def assign(self, register: Register, value: Abstract) -> None:
        """Sets a register; lists and tuples become the run's where a variable refers to them."""
        if not self.is_temporary(register):
            if isinstance(value, Items):
                value = self.settled(value)
            elif is_fresh(value):
                value = self.lasting(value)
            elif isinstance(value, Pack):
                value = Pack(tuple(map(self.kept, value.items)))
        if isinstance(value, Dynamic):
            home = self.home(register)
            if value.register != home:
                self.emit("move", (home,), (value.register,))
            self.env[register] = Dynamic(home, value.kind, value.reads)
            return
        self.env[register] = value
        if register in self.forced:
            self.materialise(register)

    def settled(self, value: Items) -> Abstract:
        """A list or dict as a value of the program; one that no program can hold stays known."""
        parts = [part for part in value.items if not isinstance(part, Static)]
        if not parts and value.items:
            plain = [part.value for part in value.items if isinstance(part, Static)]
            try:
                for one in plain:
                    self.closer.package.constant(one)
            except NotAValue:
                return Static(dict(zip(value.keys, plain)) if value.kind is dict else plain)
        if any(isinstance(part, (Closure, Choice)) for part in parts):
            # nothing but calls of its items can come of it
            if value.kind is list:
                return Pack(tuple(value.items))
            return Items(dict, list(value.items), list(value.keys))
        if not value.fresh:
            return Dynamic(self.operand(value))
        self.lazy |= value.reads
        return self.iterator(value)

    def iterator(self, value: Abstract) -> Dynamic:
        """What goes through a value once; of a set, another one."""
        is_set = isinstance(value, Static) and isinstance(value.value, set)
        function = self.writer.constant(Ref("type", "set") if is_set else Ref("builtin", "iter"))
        return Dynamic(self.made("call", (function, self.operand(value)), ()))

    def operand(self, value: Abstract) -> int:
        """A value as an operand: a register or a constant."""
        if isinstance(value, Dynamic):
            return value.register
        if isinstance(value, Static):
            try:
                return self.writer.constant(value.value)
            except NotAValue as error:
                if (found := self.of_classes(value.value)) is not None:
                    return found
                hint = library.HINTS.get(type(value.value), "")
                if isinstance(value.value, weft.nn.Module):
                    hint = "call it where it is read, or go through the Modules in a for loop"
                raise NotExportable(f"{error} as a value", hint) from None
        if isinstance(value, Pack):
            parts = tuple(self.operand(item) for item in value.items)
            return self.made("tuple", parts)
        if isinstance(value, Items):
            return self.made_of(value)
        if isinstance(value, Closure):
            raise NotExportable(
                "an inner function as a value", "call it where it is made, or make it a function"
            )
        if isinstance(value, Choice):
            raise NotExportable(
                "one of several Modules, functions or members of an Enum as a value",
                "call it, or ask for its value, where it is chosen",
            )
        if isinstance(value, Bound):
            return self.made("attr", (self.operand(value.holder),), value.name)
        if isinstance(value, Super):
            raise NotExportable("super() as a value", "call a method of it where it is made")
        if isinstance(value, (Turn, Turns)):
            raise NotExportable("zip() of Modules and values as a value", "go through it in a loop")
        raise NotExportable(value.what, value.hint)

    def of_classes(self, value: Any) -> int | None:
        """A class of records as an operand, or a tuple that has some; None of other values."""
        if isinstance(value, type) and is_record(value):
            return self.writer.constant(self.closer.state.record(value))
        if type(value) is tuple and any(isinstance(one, type) for one in value):
            return self.made("tuple", tuple(self.operand(Static(one)) for one in value))
        return None

    def made_of(self, value: Items) -> int:
        """A list or dict, from now on a value of the run's wherever it is known by a name."""
        if value.kind is list:
            out = self.made("list", tuple(self.operand(item) for item in value.items))
        else:
            pairs = zip(map(Static, value.keys), value.items)
            out = self.made("dict", tuple(self.operand(one) for pair in pairs for one in pair))
        for register, held in self.env.items():
            if held is value:
                self.env[register] = Dynamic(out)
        return out

    def made(self, verb: str, operands: tuple[int, ...], attr: Any = None) -> int:
        """The fresh register that an instruction writes."""
        out = self.writer.register()
        self.emit(verb, (out,), operands, attr)
        return out

    def emit(
        self,
        verb: str,
        outs: tuple[int, ...] = (),
        operands: tuple[int, ...] = (),
        attr: Any = None,
        regions: tuple[Body, ...] = (),
    ) -> None:
        """Adds an instruction in the place of the one that is looked at."""
        offset = self.at.offset if self.at else -1
        if offset >= 0:
            self.writer.lines[offset] = self.line(offset)
        self.writer.emit(verb, outs, operands, attr, regions, offset)

    def give(
        self, instr: Instr, verb: str, operands: tuple[int, ...], attr: Any = None, kind: str = ""
    ) -> None:
        """Writes an instruction whose result goes where that of `instr` does."""
        home = self.home(instr.outs[0])
        self.emit(verb, (home,), operands, attr)
        self.env[instr.outs[0]] = Dynamic(home, kind)

    def settle(self, instr: Instr, value: Abstract) -> None:
        """Gives an instruction its result; what it wrote last writes it there at once."""
        out = self.writer.out[self.before :]
        if isinstance(value, Dynamic) and out and out[-1].outs == (value.register,):
            home = self.home(instr.outs[0])
            if not self.writer.registers[value.register] and not out[-1].regions:
                self.writer.out[-1] = out[-1]._replace(outs=(home,))
                value = Dynamic(home, value.kind, value.reads)
        self.assign(instr.outs[0], value)

    def materialise(self, register: Register) -> None:
        """Has a register hold what is known of it, as what runs later cannot know it.

        What lies in another register, as a list does once it is the run's under another name, goes
        to its own: on another way to where they meet it is there.
        """
        value = self.env.get(register)
        if value is None or isinstance(value, Lost):
            return
        try:  # an iterator is one, as it may have begun on another way
            value = self.lasting(value) if is_fresh(value) else value
            operand = self.operand(value)
        except NotExportable:
            name = register if isinstance(register, str) else self.lowered.registers[register]
            what = "something else than another way to this line would give"
            module = isinstance(value, Static) and isinstance(value.value, weft.nn.Module)
            hint = "call it on the way that chooses it" if module else ""
            self.env[register] = Lost(f"{name or 'a value'} is {what}", hint)
            return
        home = self.home(register)
        if operand != home:
            self.emit("move", (home,), (operand,))
        self.env[register] = Dynamic(home, kind_of(value))

    def is_value(self, value: Static) -> bool:
        """Whether a program can hold it."""
        try:
            self.closer.package.constant(value.value)
        except NotAValue:
            return False
        return True

    def can_hold(self, item: Abstract) -> bool:
        """Whether a register can hold an item."""
        if isinstance(item, Static):
            return self.is_value(item)
        if isinstance(item, (Pack, Items)):
            return all(map(self.can_hold, item.items))
        return isinstance(item, Dynamic)

    def known_items(self, value: Abstract) -> list[Abstract] | None:
        """The items that going through a value gives, if they are known."""
        if isinstance(value, Pack):
            return list(value.items)
        if isinstance(value, Items):
            return list(value.items) if value.kind is list else [Static(k) for k in value.keys]
        if isinstance(value, Static) and not isinstance(value.value, Tensor):
            if isinstance(value.value, Iterator):  # once gone through it would be empty
                return None
            if isinstance(value.value, range) and value.value[MOST_ITEMS:]:
                return None
            try:
                items = list(value.value)
            except TypeError:
                return None
            return [Static(item) for item in items]
        return None

    def known_words(self, value: Abstract) -> dict[str, Abstract] | None:
        """The items of a dict, if they are known."""
        if isinstance(value, Items) and value.kind is dict:
            return dict(zip(value.keys, value.items))
        if isinstance(value, Static) and isinstance(value.value, dict):
            return {k: Static(v) for k, v in value.value.items()}
        return None

    def another(self, made: Any) -> Abstract:
        """A value that was worked out; a list, dict or set is another one in each run."""
        if not self.is_value(Static(made)):
            return Static(made)
        if type(made) is list:
            return Items(list, list(map(Static, made)))
        if type(made) is dict:
            return Items(dict, list(map(Static, made.values())), list(made))
        return Static(made, fresh=type(made) is set)

    def copied(self, part: Abstract) -> Abstract:
        """A part of a tuple or list: what a variable holds now."""
        if (
            isinstance(part, Dynamic)
            and part.register >= 0
            and self.writer.registers[part.register]
        ):
            return Dynamic(self.made("move", (part.register,)), part.kind)
        return self.lasting(part)

    def lasting(self, part: Abstract) -> Abstract:
        """What something else than a temporary can refer to: a list that is the run's, an
        iterator that ends."""
        if isinstance(part, Items):
            return self.settled(part)
        if not is_fresh(part):
            return part
        self.lazy |= reads_of(part)
        out = self.iterator(part)
        for register, held in self.env.items():
            if held is part:  # under another name it is the same one
                self.env[register] = out
        return out

    def unread(self, value: Abstract) -> Abstract:
        """A value for what does not go through it: what stands for an iterator is one there, no
        list."""
        is_set = isinstance(value, Static) and isinstance(value.value, set)
        return self.lasting(value) if is_fresh(value) and not is_set else value

    def kept(self, part: Abstract) -> Abstract:
        """The same of what outlives its statement, as temporaries do not."""
        if isinstance(part, Dynamic) and part.register in self.homes and not is_fresh(part):
            return Dynamic(self.made("move", (part.register,)), part.kind)
        if isinstance(part, Pack):
            return Pack(tuple(map(self.kept, part.items)))
        return self.lasting(part)

    def packed(self, parts: list[Abstract]) -> Abstract:
        """A tuple; its items lie where nothing writes over them."""
        if all(isinstance(p, Static) and not p.fresh for p in parts):
            return Static(tuple(p.value for p in parts))  # type: ignore[union-attr]
        return Pack(tuple(self.copied(p) for p in parts))

    def worked_out(self, instr: Instr, parts: list[Abstract], work: Callable[..., Any]) -> bool:
        """Whether the result is known as all operands are; what raises is left to the run."""
        values = [plain(part) for part in parts]
        if any(value is UNKNOWN or holds_tensor(value) for value in values):
            return False
        try:
            self.assign(instr.outs[0], Static(work(*values)))
        except Exception:
            return False
        return True

    def now(self, value: Any, args: list[Abstract], words: Words) -> Abstract | None:
        """What a call gives that can be made now; None if a run has to.

        An iterator is a tuple of its items, until it has a name.
        """
        given = [plain(a) for a in [*args, *words.values()]]
        if any(v is UNKNOWN or holds_tensor(v) for v in given):
            return None
        n = len(args)
        for one in given:
            self.closer.state.looks_up(one)
        try:
            made = value(*given[:n], **dict(zip(words, given[n:])))
            if isinstance(made, Iterator):
                made = tuple(itertools.islice(made, MOST_ITEMS + 1))
                if len(made) > MOST_ITEMS:
                    return None
                return Static(made, fresh=all(self.can_hold(Static(item)) for item in made))
            return self.another(made)
        except Exception:
            return None

    # ---- instructions

    def body(self, instructions: Body) -> bool:
        """Goes through instructions; whether what follows them can be reached."""
        for k, instr in enumerate(instructions):
            outer = self.at, self.before
            self.at, self.before = instr, len(self.writer.out)
            self.following = instructions, k + 1
            try:
                if getattr(self, "verb_" + instr.verb)(instr) is False:
                    return False
            except NotExportable as error:
                raise self.placed(error, instr) from error.__cause__
            finally:
                self.at, self.before = outer
        return True

    def region(self, instructions: Body) -> tuple[Body, bool]:
        """Instructions in a region of their own."""
        with self.writer.region() as made:
            reached = self.body(instructions)
        return made, reached


def attributes_of(one: Any) -> list[tuple[str, Any]]:
    """The attributes of an object."""
    if dataclasses.is_dataclass(one):
        return [(field.name, getattr(one, field.name)) for field in dataclasses.fields(one)]
    return list(vars(one).items())


def refill(part: Any, content: Any) -> None:
    """Gives a list, dict or set, which others may hold too, the content that it had."""
    part.clear()
    (part.extend if isinstance(part, list) else part.update)(content)


def plain(value: Abstract) -> Any:
    """A value that is known to its last part, else `UNKNOWN`."""
    if isinstance(value, Static):
        return value.value
    if isinstance(value, (Pack, Items)) and (not isinstance(value, Items) or value.kind is list):
        parts = [plain(item) for item in value.items]
        if not any(part is UNKNOWN for part in parts):
            return tuple(parts) if isinstance(value, Pack) else parts
    return UNKNOWN


_OPERATORS = {
    f"__{letter}{name}__"
    for name in (*known.SPECIAL.values(), *known.SPECIAL_COMPARE.values(), "neg", "pos", "invert")
    for letter in ("", "r", "i")
}


def as_number(value: Abstract) -> Abstract:
    """A member of an `IntEnum` or the like as the number or text that it is to operators; a flag
    makes flags, and what has operators of its own is asked."""
    if not isinstance(value, Static) or not isinstance(value.value, enum.Enum):
        return value
    member: Any = value.value
    kinds = [k for k in type(member).__mro__ if k.__module__ not in ("enum", "builtins")]
    own = {name for kind in kinds for name in vars(kind)}
    if isinstance(member, enum.Flag) or own & _OPERATORS:
        return value
    if isinstance(member, str):
        return Static(str.__add__(member, ""))
    if isinstance(member, float):
        return Static(float.__add__(member, -0.0))
    return Static(int.__add__(member, 0)) if isinstance(member, int) else value


def is_fresh(value: Abstract) -> bool:
    """Whether it stands for an iterator, with all that it gives, or for a set of this run."""
    return kind_of(value) == "iterator" or isinstance(value, (Static, Items)) and value.fresh


def reads_of(value: Abstract) -> frozenset[str]:
    """The variables that an iterator reads while it is gone through."""
    return value.reads if isinstance(value, (Static, Dynamic, Items)) else frozenset()


def with_reads(value: Abstract, reads: frozenset[str]) -> Abstract:
    """An iterator that reads these."""
    if isinstance(value, (Static, Dynamic, Items)):
        return dataclasses.replace(value, reads=reads)
    return value


def holds_tensor(value: Any) -> bool:
    """Whether a value is a tensor, or a tuple or list that has one."""
    if isinstance(value, (tuple, list)):
        return any(map(holds_tensor, value))
    return isinstance(value, Tensor)


def kind_of(value: Abstract) -> str:
    """ "Tensor" where it surely is one, "iterator" of what one gives."""
    if isinstance(value, Static):
        return "Tensor" if isinstance(value.value, Tensor) else ""
    return value.kind if isinstance(value, Dynamic) else ""


def same(one: Abstract, other: Abstract) -> bool:
    """Whether two ways know the same of a register."""
    if isinstance(one, Static) and isinstance(other, Static):
        return bool(constant_key(one.value) == constant_key(other.value))
    return one is other or (isinstance(one, Dynamic) and one == other)


def put(items: Items, key: Any, value: Abstract) -> None:
    """Sets an item of a dict."""
    if key in items.keys:
        items.items[items.keys.index(key)] = value
    else:
        items.keys.append(key)
        items.items.append(value)


def lines_of(lowered: Any) -> dict[int, int]:
    """The line of each offset of a function's instructions."""
    out = {}
    codes = [(0, lowered.code)]
    codes += [(k + 1, one.code) for k, one in enumerate(lowered.inlined)]
    for number, code in codes:
        if code is None:
            continue
        for k, (line, *_) in enumerate(code.co_positions()):
            if line is not None:
                out[(number << INLINED_SHIFT) + 2 * k] = line
    return out
