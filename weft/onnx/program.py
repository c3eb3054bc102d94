"""A function of a package as instructions, from its text (src/program/text.h)."""

from __future__ import annotations

import builtins
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Kinds = tuple[type[BaseException], ...]


@dataclass(slots=True)
class Instr:
    """One instruction.

    Attributes:
        operands: registers; constants as ~number.
        attr: which name, of an attribute or method.
        names: which names of keyword arguments.
        op: the operator, of `binary` and its like.
        place: the offset that the package's lines know.
        escapes: of `if`: a way of it may leave the block around it.
        caught, again: what handlers around it catch, and what such do that raise at their end.
        known: of `known`: what the register gets; of `turns`: the values that are left.
    """

    verb: str
    outs: list[int] = field(default_factory=list)
    operands: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    attr: int = 0
    names: int | None = None
    op: str = ""
    place: int = 0
    regions: list[list[Instr]] = field(default_factory=list)
    escapes: bool = False
    caught: Kinds = ()
    again: Kinds = ()
    known: Any = None


_WITH_OP = ("binary", "inplace", "unary", "compare", "format")


def _instr(line: str) -> Instr:
    words = line.split()
    if words[-1] == "{":
        words.pop()
    at = words.index("=") if "=" in words else -1
    made = Instr(words[at + 1], [_register(w) for w in words[: max(at, 0)]])
    rest = words[at + 2 :]
    if made.verb in _WITH_OP:
        _, made.op, after = line.split('"', 2)
        rest = after.split()
    for word in rest:
        if word.startswith("#"):
            made.operands.append(~int(word[1:]))
        elif word.startswith("attr="):
            made.attr = int(word[5:])
        elif word.startswith("names="):
            made.names = int(word[6:])
        elif word.startswith("number="):
            made.numbers.append(int(word[7:]))
        elif word.startswith("@"):
            made.place = int(word[1:])
        elif "%" in word:
            made.operands.append(_register(word))
    return made


def _register(word: str) -> int:
    return int(word.rpartition("%")[2])


def parse(text: str, constants: list[Any]) -> tuple[int, list[Instr]]:
    """How many registers, and the instructions."""
    lines = [line for line in text.splitlines() if line.strip()]
    registers = len(lines[1].split()) - 1
    at = 4

    def fresh() -> int:
        nonlocal registers
        registers += 1
        return registers - 1

    def block() -> list[Instr]:
        nonlocal at
        out: list[Instr] = []
        while not lines[at].strip().startswith("}"):
            made, opens = _instr(lines[at]), lines[at].rstrip().endswith("{")
            at += 1
            if opens:
                made.regions.append(block())
                while lines[at].strip() == "} {":
                    at += 1
                    made.regions.append(block())
                at += 1
                if not made.place:  # a `while` has none of its own
                    made.place = next((p.place for r in made.regions for p in r if p.place), 0)
            if made.verb == "with" and not _is_autocast(constants[~made.operands[0]]):
                # modes of gradients, which a graph does not have
                out += made.regions[0]
                continue
            if made.verb == "try":
                out += _tried(made, constants, fresh)
                continue
            made.escapes = made.verb == "if" and any(map(_leaves, made.regions))
            out.append(made)
        return out

    whole = block()
    leaving = _Leaving(registers, constants)
    body = leaving.block(whole)
    return leaving.registers, body


def _is_autocast(mode: dict[str, str]) -> bool:
    return mode["mode"].startswith("autocast")


def _tried(i: Instr, constants: Sequence[Any], fresh: Callable[[], int]) -> list[Instr]:
    """A try where nothing raises (Note [Handlers] in raising.py): its body, what follows without an
    exception, the end; that one before each way out of the others too."""
    body, other, final, *handlers = i.regions
    pairs = list(zip(handlers[::2], handlers[1::2]))
    raising = [any(one.verb in ("raise", "reraise") for one in done) and not _returns(done)
               for _, done in pairs]  # fmt: skip
    caught, again = (
        _kinds([test for (test, _), r in zip(pairs, raising) if r is wanted], constants)
        for wanted in (False, True)
    )
    _guard(body, caught, again)
    whole = [*body, *other]
    return [*(_ending(whole, final, fresh) if final else whole), *final]


def _guard(block: Sequence[Instr], caught: Kinds, again: Kinds) -> None:
    for i in block:
        i.caught += caught
        i.again += again
        for region in i.regions:
            _guard(region, caught, again)


def _ending(
    block: list[Instr], final: list[Instr], fresh: Callable[[], int], loop: bool = False
) -> list[Instr]:
    """A block with what has to run before each way out of it."""
    out: list[Instr] = []
    for i in block:
        last = copy.deepcopy(final)
        if i.verb == "return":  # of what it was before the end
            kept = fresh()
            out += [Instr("move", [kept], i.operands, place=i.place), *last]
            i.operands = [kept]
        elif i.verb in ("break", "continue") and not loop:
            out += last
        inside = loop or i.verb in ("for", "while")
        i.regions = [_ending(region, final, fresh, inside) for region in i.regions]
        out.append(i)
    return out


def _kinds(tests: Sequence[list[Instr]], constants: Sequence[Any]) -> Kinds:
    """What handlers catch, by their tests."""
    out: list[type[BaseException]] = []
    for test in tests:
        at = [i.operands[0] for i in test if i.verb == "match"]
        names = _names(constants[~at[-1]]) if at and at[-1] < 0 else None
        for name in names or [""]:
            found = getattr(builtins, name, BaseException)  # of others nothing is known
            out.append(found if isinstance(found, type) else BaseException)
    return tuple(out)


def _names(constant: Any) -> list[str]:
    """The names of a type, or of the types in a tuple."""
    if not isinstance(constant, dict):
        return [""]
    ((kind, v),) = constant.items()
    if kind == "tuple":
        return [name for item in v for name in _names(item)]
    return [v if kind == "type" else ""]


class _Leaving:
    """Rewrites what leaves loops otherwise than by `break`.

    Note [Leaving loops]
    A Loop of ONNX ends in one way. `return v` in a loop becomes a note of v, a flag and `break`;
    behind the loop stands what returns v where the flag is set, and behind one within another a
    `break` of that. The `else` of a loop stands behind it: of one that has breaks under a flag of
    its own.
    """

    def __init__(self, registers: int, constants: list[Any]) -> None:
        self.registers, self.constants = registers, constants

    def fresh(self) -> int:
        """A new register."""
        self.registers += 1
        return self.registers - 1

    def block(
        self, block: list[Instr], exit: _Exit | None = None, broke: int | None = None
    ) -> list[Instr]:
        """A block; `exit` of the outermost loop around it, `broke`: the flag of the innermost."""
        out: list[Instr] = []
        for i in block:
            if i.verb in ("for", "while"):
                out += self.loop(i, exit)
            elif i.verb == "return" and exit is not None:
                out += exit.leave(i, out)
            else:
                if i.verb == "break" and broke is not None:
                    out.append(Instr("known", [broke], place=i.place, known=True))
                i.regions = [self.block(region, exit, broke) for region in i.regions]
                out.append(i)
        return out

    def loop(self, i: Instr, outer: _Exit | None) -> list[Instr]:
        """A loop, and what stands before and behind it."""
        *inner, other = i.regions
        exit, first = outer, list[Instr]()
        returns = any(map(_returns, inner))
        if returns and outer is None:
            exit = _Exit(self, [one for region in inner for one in _forms(region)])
            first.append(Instr("known", [exit.done], place=i.place, known=False))
        endless = self.is_endless(i)
        broke = None
        if other and any(map(_breaks, inner)):
            broke = self.fresh()
            first.append(Instr("known", [broke], place=i.place, known=False))
        i.regions = [self.block(region, exit, broke) for region in inner]
        last: list[Instr] = []
        if returns and exit is not None:
            way = exit.give(i) if outer is None else [Instr("break", place=i.place)]
            last += way if endless else [_if(exit.done, way, [], i.place)]
        if broke is not None:
            i.regions.append([])
            last.append(_if(broke, [], self.block(other, outer), i.place))
        else:
            i.regions.append([])
            last += self.block(other, outer)
        return [*first, i, *last]

    def is_endless(self, i: Instr) -> bool:
        """Whether a loop ends by a `return` alone: `while True` without a `break`."""
        if i.verb != "while" or _breaks(i.regions[1]):
            return False
        test = i.regions[0]
        known = [t.operands[0] for t in test if t.verb == "move" and t.operands[0] < 0]
        return len(test) == len(known) == 1 and self.constants[~known[0]] is True


class _Exit:
    """Where what a loop returns is kept until it has ended.

    Attributes:
        done: the register of the flag.
        size: how many items the tuple has that is returned; None where it is no tuple.
    """

    def __init__(self, leaving: _Leaving, forms: list[int | None]) -> None:
        self.done = leaving.fresh()
        self.size = forms[0] if len(set(forms)) == 1 else None
        self.results = [leaving.fresh() for _ in range(1 if self.size is None else self.size)]
        self.made = leaving.fresh()

    def leave(self, i: Instr, before: list[Instr]) -> list[Instr]:
        """In place of a `return`, behind these instructions."""
        values = i.operands
        if self.size is not None:
            values = before.pop().operands
        moves = [Instr("move", [r], [v], place=i.place) for r, v in zip(self.results, values)]
        done = Instr("known", [self.done], place=i.place, known=True)
        return [*moves, done, Instr("break", place=i.place)]

    def give(self, i: Instr) -> list[Instr]:
        """What returns what was kept."""
        if self.size is None:
            return [Instr("return", [], self.results, place=i.place)]
        made = Instr("tuple", [self.made], self.results, place=i.place)
        return [made, Instr("return", [], [self.made], place=i.place)]


def _if(flag: int, first: list[Instr], second: list[Instr], place: int) -> Instr:
    escapes = any(map(_leaves, (first, second)))
    return Instr("if", [], [flag], place=place, regions=[first, second], escapes=escapes)


def _breaks(block: list[Instr]) -> bool:
    """Whether a block has a `break` of the loop around it."""
    for i in block:
        regions = i.regions[-1:] if i.verb in ("for", "while") else i.regions
        if i.verb == "break" or any(map(_breaks, regions)):
            return True
    return False


def _returns(block: list[Instr]) -> bool:
    """Whether a block has a `return`."""
    return any(i.verb == "return" or any(map(_returns, i.regions)) for i in block)


def _forms(block: list[Instr]) -> list[int | None]:
    """Of each `return` of a block, how many items the tuple has that is made for it; None: it
    returns something else."""
    out: list[int | None] = []
    for k, i in enumerate(block):
        if i.verb == "return":
            made = block[k - 1] if k else None
            is_tuple = made is not None and made.verb == "tuple" and made.outs == i.operands
            out.append(len(made.operands) if made is not None and is_tuple else None)
        for region in i.regions:
            out += _forms(region)
    return out


def _leaves(block: list[Instr], loop: bool = False) -> bool:
    for i in block:
        if i.verb == "return" or i.verb in ("break", "continue") and not loop:
            return True
        inside = loop or i.verb in ("for", "while")
        if any(_leaves(region, inside) for region in i.regions):
            return True
    return False


def registers_read(block: list[Instr], skip: Instr | None = None) -> set[int]:
    """The registers that instructions of a block read, but for those inside of one of them."""
    out: set[int] = set()
    for i in block:
        out |= {o for o in i.operands if o >= 0}
        if i is not skip:
            for region in i.regions:
                out |= registers_read(region, skip)
            if i.verb == "while":
                out |= set(i.outs)
    return out
