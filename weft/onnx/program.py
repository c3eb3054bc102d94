"""A function of a package as instructions, from its text (src/program/text.h)."""

from __future__ import annotations

from dataclasses import dataclass, field


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


def parse(text: str) -> tuple[int, list[Instr]]:
    """How many registers, and the instructions."""
    lines = [line for line in text.splitlines() if line.strip()]
    registers = len(lines[1].split()) - 1
    at = 4

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
            if made.verb == "with":  # modes of gradients, which a graph does not have
                out += made.regions[0]
                continue
            made.escapes = made.verb == "if" and any(map(_leaves, made.regions))
            out.append(made)
        return out

    return registers, block()


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
