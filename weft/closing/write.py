"""The instructions of a function that is being closed, and their text."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from weft.closing.package import Function, Package
from weft.frontend.ir import Body, Instr

_WITH_NAME = {"attr", "set_attr", "del_attr"}
_WITH_OPERATOR = {"binary", "inplace", "unary", "compare", "format"}


class Writer:
    """A function's registers, constants and instructions.

    Registers are numbered as they are asked for; in the text parameters come first, then what has
    a name, then temporaries.
    """

    def __init__(self, package: Package, name: str, file: str) -> None:
        self.package, self.name, self.file = package, name, file
        self.registers: list[str] = []
        self.params: list[int] = []
        self.constants: list[Any] = []
        self._known: dict[str, int] = {}
        self.out: Body = []
        self.lines: dict[int, int] = {}

    def register(self, name: str = "") -> int:
        """A new register."""
        self.registers.append(name)
        return len(self.registers) - 1

    def param(self, name: str) -> int:
        """A new parameter."""
        self.params.append(self.register(name))
        return self.params[-1]

    def constant(self, value: Any) -> int:
        """The operand of a constant.

        Raises:
            NotAValue: programs have no such values.
        """
        made = self.package.constant(value)
        key = json.dumps(made)
        if key not in self._known:
            self._known[key] = len(self.constants)
            self.constants.append(made)
        return ~self._known[key]

    def emit(
        self,
        verb: str,
        outs: tuple[int, ...] = (),
        operands: tuple[int, ...] = (),
        attr: Any = None,
        regions: tuple[Body, ...] = (),
        offset: int = -1,
    ) -> None:
        """Adds an instruction."""
        self.out.append(Instr(verb, outs, operands, attr, regions, offset))

    @contextlib.contextmanager
    def region(self, body: Body | None = None) -> Iterator[Body]:
        """Within it instructions are added to a region of their own: a new one, or `body`."""
        made: Body = [] if body is None else body
        outer, self.out = self.out, made
        try:
            yield made
        finally:
            self.out = outer

    def finish(self, params: list[str], defaults: dict[str, Any], keyword_only: int) -> Function:
        """The function."""
        self.out = without_dead_moves(self.out, self.registers)
        text = _Text(self).run()
        return Function(
            self.name, self.file, text.text, self.constants, text.names, params, defaults,
            keyword_only, sorted((k, v) for k, v in self.lines.items() if k in text.offsets),
        )  # fmt: skip


def without_dead_moves(body: Body, registers: list[str]) -> Body:
    """Without the moves to temporaries that nothing reads."""
    read: set[int] = set()

    def see(body: Body) -> None:
        for i in body:
            read.update(i.operands)
            if i.verb in ("while", "try", "assert"):
                read.update(i.outs)
            for region in i.regions:
                see(region)

    def without(body: Body) -> Body:
        return [
            i._replace(regions=tuple(map(without, i.regions)))
            for i in body
            if i.verb != "move" or i.outs[0] in read or registers[i.outs[0]]
        ]

    see(body)
    return without(body)


class _Text:
    """A function's text, as `src/program/text.h` says."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.names: list[Any] = []
        self.offsets: set[int] = set()
        self.lines: list[str] = []
        params = writer.params
        named = [r for r, name in enumerate(writer.registers) if name and r not in set(params)]
        temps = [r for r, name in enumerate(writer.registers) if not name]
        self.order = [*params, *named, *temps]
        self.number = {r: k for k, r in enumerate(self.order)}

    def run(self) -> _Text:
        self.region(self.writer.out, 1)
        w = self.writer
        registers = [w.registers[r] or '""' for r in self.order]
        self.text = "\n".join(
            [
                f"function params={len(w.params)} own_cells=0 consts={len(w.constants)} "
                f"attrs={len(self.names)} {w.name}",
                " ".join(["registers", *registers]),
                "cells",
                "{",
                *self.lines,
                "}",
                "",
            ]
        )
        return self

    def place(self, operand: int) -> str:
        if operand < 0:
            return f"#{~operand}"
        return f"{self.writer.registers[operand]}%{self.number[operand]}"

    def name(self, value: Any) -> int:
        if value not in self.names:
            self.names.append(value)
        return self.names.index(value)

    def region(self, body: Body, depth: int) -> None:
        for instr in body:
            self.instruction(instr, depth)

    def instruction(self, i: Instr, depth: int) -> None:
        words = [self.place(r) for r in i.outs]
        if words:
            words.append("=")
        words.append(i.verb)
        if i.verb in _WITH_OPERATOR:
            words.append(f'"{i.attr}"')
        words += [self.place(o) for o in i.operands]
        words += self.extra(i)
        if i.offset >= 0:
            self.offsets.add(i.offset)
            words.append(f"@{i.offset}")
        line = "    " * depth + " ".join(words)
        if not i.regions:
            self.lines.append(line)
            return
        for k, region in enumerate(i.regions):
            self.lines.append(line + " {" if not k else "    " * depth + "} {")
            self.region(region, depth + 1)
        self.lines.append("    " * depth + "}")

    def extra(self, i: Instr) -> list[str]:
        """Names and numbers of an instruction."""
        if i.verb in _WITH_NAME:
            return [f"attr={self.name(i.attr)}"]
        if i.verb == "call":
            return [f"names={self.name(list(i.attr))}"] if i.attr else []
        if i.verb == "method":
            name, words, _ = i.attr
            out = [f"attr={self.name(name)}"]
            if words:
                out.append(f"names={self.name(list(words))}")
            return [*out, f"number={max(i.offset, 0)}"]
        if i.verb == "unpack" and i.attr is not None:
            return [f"number={n}" for n in i.attr]
        if i.verb == "try":
            return [f"number={self.number[r] if r >= 0 else -1}" for r in i.attr]
        return []
