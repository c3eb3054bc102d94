"""What a closer knows of a value: all of it, its parts, or only that a register will hold it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from weft.frontend.ir import Kept, Lowered


@dataclass(frozen=True, slots=True)
class Ref:
    """A constant of a package that is no value of Python's: `{"op": "relu"}`."""

    kind: str
    name: Any


@dataclass(frozen=True, slots=True, eq=False)
class Static:
    """A value that is known now: a Module, a function, a number, a parameter.

    Attributes:
        value: it, or a tuple of the items of an iterator.
        fresh: another one in each run: an iterator, or a set.
        reads: as of `Dynamic`.
    """

    value: Any
    fresh: bool = False
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A value that a register holds when the program runs.

    Attributes:
        register: of the function that is being written.
        kind: "Tensor" where it surely is one, "iterator" of the list of all that one gives; empty:
            anything.
        reads: of an iterator, the variables that Python would read while it is gone through.
    """

    register: int
    kind: str = ""
    reads: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """A tuple whose items are known one by one."""

    items: tuple[Abstract, ...]


@dataclass(slots=True, eq=False)
class KnownIterator:
    """An iterator over items that are known and that no register can hold: a `Static` holds it.

    Attributes:
        items: all of them; only the first may be asked for, and once.
        loops: how many loops were gone into where it was made.
        asked: whether it was.
    """

    items: list[Abstract]
    loops: int
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A value of one turn: item number `number` of the list in a register, if it is that long."""

    register: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """What a loop goes through whose turns are written out; a run makes as many as it has values.

    Attributes:
        items: the variable's value in each turn.
        lengths: registers with numbers of values, of which the least counts.
    """

    items: tuple[Abstract, ...]
    lengths: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Items:
    """A list, or a dict with known keys, that a temporary alone refers to.

    Attributes:
        fresh: it stands for an iterator, which can be gone through once.
        reads: as of `Dynamic`.
    """

    kind: type[list[Any]] | type[dict[Any, Any]]
    items: list[Abstract] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    fresh: bool = False
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function made by the one that is being closed.

    Attributes:
        lowered: its instructions.
        captured: what the variables of functions around it hold at the call, as `refresh` says.
        module: the variables of its module.
        defaults: of its positional parameters.
        words: those of parameters by keyword only.
    """

    lowered: Lowered | Kept
    captured: dict[str, Abstract]
    module: dict[str, Any]
    defaults: tuple[Abstract, ...] = ()
    words: dict[str, Abstract] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One of several Modules, functions or members of an Enum, or None, by a key that a run knows.

    Attributes:
        key: the operand of the key.
        options: the keys that choose each.
    """

    key: int
    options: list[tuple[tuple[Any, ...], Abstract]]


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A method of a value that only a run knows, on its way to a call."""

    holder: Abstract
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Super:
    """`super()` in a method of an object that only a run knows.

    Attributes:
        kind: the class that the method stands in.
        holder: the object.
    """

    kind: type
    holder: Abstract


@dataclass(frozen=True, slots=True)
class Lost:
    """What two ways left unlike in a register that can hold neither."""

    what: str
    hint: str = ""


Abstract: TypeAlias = (
    "Static | Dynamic | Pack | Turn | Turns | Items | Closure | Choice | Bound | Super | Lost"
)
