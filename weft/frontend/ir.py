"""What the front end hands on: plain tuples and lists, and the reason where it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

# An instruction of a comprehension that CPython 3.11 runs in a frame of its own: its offset counts
# in that code object, number `offset >> INLINED_SHIFT` (from 1) of `Lowered.inlined`.
INLINED_SHIFT = 24


class Outside(Exception):
    """A function, or a part of it, that the front end does not lower: Python runs it.

    Args:
        reason: what stands there, in a few words.
        hint: what to write instead; empty where there is nothing to say.
        line: its line in `file`, 0 where it is not known.
        file: the file of the function.
        function: the qualified name of the function that Python runs for this reason, where
            `outside_of` gives it.
    """

    def __init__(
        self, reason: str, hint: str = "", line: int = 0, file: str = "", function: str = ""
    ) -> None:
        super().__init__(reason, hint, line, file, function)
        self.reason, self.hint, self.line, self.file = reason, hint, line, file
        self.function = function

    def of(self, function: str) -> Outside:
        """The same as a reason why Python runs `function`."""
        return Outside(self.reason, self.hint, self.line, self.file, function)

    def __str__(self) -> str:
        place = f"{self.file or 'line '}{':' * bool(self.file)}{self.line}: " if self.line else ""
        return place + self.reason + (f". Hint: {self.hint}" if self.hint else "")


Body: TypeAlias = "list[Instr]"


class Instr(NamedTuple):
    """One instruction; the table of verbs says what `attr` and `regions` hold for each.

    An operand is a register, or constant number `~operand` where it is negative. `offset` is that
    of the bytecode instruction that does the same, -1 where none is known.
    """

    verb: str
    outs: tuple[int, ...]
    operands: tuple[int, ...]
    attr: Any
    regions: tuple[Body, ...]
    offset: int


class Inlined(NamedTuple):
    """A comprehension's own code object, and where it is called: in code object `parent`
    (0: the function's, else one of `Lowered.inlined`, from 1) at `offset`."""

    code: CodeType | None
    parent: int
    offset: int


class Kept(NamedTuple):
    """An inner function that stays Python's: made of `code`, its cells by the names in `free`."""

    name: str
    code: CodeType | None
    free: tuple[str, ...]
    reason: Outside


@dataclass(slots=True, eq=False)
class Lowered:
    """A function in instructions, generic in its arguments, its globals and its free variables.

    Attributes:
        name: its qualified name.
        code: its code object; None for a function of which only the syntax tree is there.
        registers: a name for each register: the parameters in the order of `co_varnames`
            (`*args`, `**kwargs` included), other locals, then temporaries, whose name is empty.
        consts: the constants.
        body: the instructions.
        free: the names of its free variables, in the order of `co_freevars`.
        cells: the names of its locals that live in cells, as inner functions use them; those of
            parameters are set by the first instructions of the body.
        inner: the functions that it makes.
        inlined: code objects of comprehensions that are part of the body.
    """

    name: str
    code: CodeType | None
    registers: list[str]
    consts: list[Any]
    body: Body
    free: tuple[str, ...]
    cells: tuple[str, ...] = ()
    inner: list[Lowered | Kept] = field(default_factory=list)
    inlined: list[Inlined] = field(default_factory=list)
