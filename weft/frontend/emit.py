"""The state of a lowering: registers, constants, the instructions so far, what is bound."""

from __future__ import annotations

import ast
import opcode
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from weft.frontend.ir import INLINED_SHIFT, Body, Inlined, Instr, Kept, Lowered, Outside
from weft.frontend.offsets import Offsets, Place, place
from weft.frontend.scope import Memo, Scope, Targets, mangle, parameters

CO_VARARGS, CO_VARKEYWORDS = 0x4, 0x8
Step = Callable[[], Any]
Located = ast.expr | ast.stmt | ast.excepthandler


def const_key(value: Any) -> Any:
    """Equal of constants that are the same in type and value, signs of zeros and NaNs included."""
    kind = type(value)
    if kind is tuple:
        return kind, tuple(map(const_key, value))
    return kind, (repr(value) if kind in (float, complex) else value)


class Unit:
    """One code object during its lowering: the function's own, or a comprehension's."""

    def __init__(self, code: CodeType | None, twin: CodeType | None, number: int) -> None:
        self.code, self.twin, self.number = code, twin, number
        self.offsets = Offsets(twin)
        consts = code.co_consts if code else ()
        self.consts = {const_key(c): c for c in consts if not isinstance(c, CodeType)}

    def child(self, node: ast.AST, name: str, line: int) -> tuple[CodeType, CodeType] | None:
        """The inner code object of `node`, and its twin; None where the compiler made none."""
        if self.code is None or self.twin is None:
            return None
        found = [
            k for k, c in enumerate(self.twin.co_consts)
            if isinstance(c, CodeType) and c.co_name == name and c.co_firstlineno == line
        ]  # fmt: skip
        if len(found) > 1:
            found = [k for k in found if covers(node, self.twin.co_consts[k])] or found
        if not found:
            return None
        return self.code.co_consts[found[0]], self.twin.co_consts[found[0]]


def covers(node: Any, code: CodeType) -> bool:
    """Whether the instructions of `code` are those of `node`, by their places: in it, but not in
    what runs outside of it, as default values and the first iterable do. Where no place is known,
    a constant lambda in 3.12, by the constant."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        apart = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        given = parameters(node.args)
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
        pairs = zip(code.co_varnames, given)  # private ones have a prefix
        if count != len(given) or not all(name.endswith(arg.arg) for name, arg in pairs):
            return False
    else:
        apart = [node.generators[0].iter]
    seen = False
    for line, last, column, final in code.co_positions():
        if column and line is not None and last is not None and final is not None:
            seen, where = True, (line, column, last, final)
            if not contains(node, *where):
                return False
            if not any(contains(part, *where) for part in apart):
                return True
    if seen or not isinstance(body := getattr(node, "body", None), ast.Constant):
        return not seen and code.co_code[2] != opcode.opmap.get("RETURN_CONST")
    return const_key(body.value) in map(const_key, code.co_consts)


def contains(node: Any, line: int, column: int, last: int, final: int) -> bool:
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return start <= (line, column) and (last, final) <= end


class Emitter:
    """What both expressions and statements need.

    Args:
        node: the syntax tree of the function.
        code: its code object, None for a tree alone.
        twin: the same, compiled from the tree's source: the places of its instructions are sure.
        owner: the class that it stands in.
        around: names of variables of the functions around it, for a tree alone.
        file: its file, for messages.
        memo: scopes that are known.
    """

    def __init__(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        code: CodeType | None,
        twin: CodeType | None,
        owner: str | None,
        around: frozenset[str] = frozenset(),
        file: str = "",
        memo: Memo | None = None,
    ) -> None:
        self.node, self.code, self.owner, self.file = node, code, owner, file
        self.memo: Memo = {} if memo is None else memo
        scope = self.memo.get(id(node))
        self.scope = scope or self.memo.setdefault(id(node), Scope(node, owner, self.memo))
        names = [*self.scope.params, *self.scope.locals]
        self.cells = {name: None for name in names if name in self.scope.captured}
        self.free = code.co_freevars if code else tuple(sorted(self.scope.free() & around))
        self.registers = list(self.scope.params)
        self.locals = {name: k for k, name in enumerate(self.registers)}
        self.bound = set(self.locals.values())
        for name in self.scope.locals:
            if name not in self.cells:
                self.locals[name] = self.register(name)
        self.targets: dict[int, dict[str, int]] = {
            key: {n: self.register(n) for n in targets.names if n not in targets.captured}
            for key, targets in self.scope.comprehensions.items()
        }
        self.unset = {k for name, k in self.locals.items() if name in self.scope.unset}
        self.rebound = {k for name, k in self.locals.items() if name in self.scope.rebound}
        self.bound -= self.unset
        self.temps = len(self.registers)
        self.inside: list[tuple[Targets, dict[str, int]]] = []
        self.consts: list[Any] = []
        self.const_numbers: dict[Any, int] = {}
        self.out: Body = []
        self.dead = False
        self.unit = Unit(code, twin, 0)
        self.inner: list[Lowered | Kept] = []
        self.inlined: list[Inlined] = []

    # ---- registers and constants

    def register(self, name: str) -> int:
        self.registers.append(name)
        return len(self.registers) - 1

    def temp(self) -> int:
        """A temporary; those of a statement are free for the next one."""
        self.temps += 1
        if self.temps > len(self.registers):
            self.registers.append("")
        return self.temps - 1

    def const(self, value: Any) -> int:
        """A constant: the very object that the code object has, if any, as `is` may be asked."""
        key = const_key(value)
        number = self.const_numbers.get(key)
        if number is None:
            number = self.const_numbers[key] = len(self.consts)
            self.consts.append(self.unit.consts.get(key, value))
        return ~number

    # ---- instructions

    def emit(
        self,
        verb: str,
        outs: tuple[int, ...],
        operands: tuple[int, ...],
        *places: Place,
        attr: Any = None,
        regions: tuple[Body, ...] = (),
    ) -> None:
        """Adds an instruction; `places`: of the bytecode instruction that does the same."""
        self.out.append(Instr(verb, outs, operands, attr, regions, self.offset(verb, *places)))

    def offset(self, verb: str, *places: Place) -> int:
        """That of an instruction, in its code object."""
        offset = self.unit.offsets.at(verb, *places) if places else -1
        if offset >= 0 and self.unit.number:
            offset += self.unit.number << INLINED_SHIFT
        return offset

    def move(self, target: int, operand: int, *places: Place) -> None:
        if target != operand:
            self.emit("move", (target,), (operand,), *places)

    def region(self, step: Step) -> Body:
        """The instructions that `step` adds, apart."""
        before, self.out = self.out, []
        try:
            step()
            return self.out
        finally:
            self.out = before

    def statements(self, nodes: list[ast.stmt]) -> None:
        raise NotImplementedError

    def branch(self, cond: int, then: Step, other: Step | None, *places: Place) -> None:
        """`if`: what is bound afterwards is bound by both ways."""
        bound, dead = self.bound, self.dead
        self.bound = bound.copy()
        first = self.region(then)
        first_bound, first_dead = self.bound, self.dead
        self.bound, self.dead = bound.copy(), dead
        second = self.region(other) if other else []
        if not first_dead:
            self.bound = first_bound if self.dead else first_bound & self.bound
        self.dead = self.dead and first_dead
        self.emit("if", (), (cond,), *places, regions=(first, second))

    def perhaps(self, step: Step) -> Body:
        """A region that may not run, or not to its end: what it binds may not be bound."""
        bound, dead = self.bound, self.dead
        self.bound = bound.copy()
        body = self.region(step)
        self.bound, self.dead = bound, dead
        return body

    # ---- names

    def resolve(self, name: str) -> int | str | None:
        """The register of a variable, its name where it lives in a cell, None for a global."""
        for targets, registers in reversed(self.inside):
            if name in targets.names:
                return name if name in targets.captured else registers[name]
        if name in self.cells:
            return name
        if (register := self.locals.get(name)) is not None:
            return register
        return name if name in self.free and name not in self.scope.globals else None

    def read(self, name: str, node: ast.expr) -> int:
        """The operand that a variable is. A local is one only where it surely is bound, and no
        later operand can bind it anew."""
        where = self.resolve(name)
        if isinstance(where, int):
            if where in self.bound and where not in self.rebound:
                return where
            if self.inside and where not in self.locals.values() and where not in self.bound:
                raise self.outside("a variable of a comprehension before it is set", "", node)
            verb = "outer" if self.inside and not INLINES else "move"
            self.emit(verb, (copy := self.temp(),), (where,), place(node))
            if where not in self.unset:
                self.bound.add(where)
            return copy
        if where is None:
            verb = "global"
        else:
            verb = "free" if where in self.free or self.is_outer(where) else "cell"
        self.emit(verb, (result := self.temp(),), (), place(node), attr=name)
        return result

    def store(self, name: str, operand: int, node: Located) -> None:
        """Assigns a variable."""
        where = self.resolve(name)
        if isinstance(where, int):
            self.move(where, operand, place(node))
            self.bind(where)
        elif where is None or where in self.free and not self.is_target(name):
            kind = "global" if where is None else "nonlocal"
            raise self.outside(f"a {kind} variable is set ({name})", "return the value", node)
        else:
            self.emit("set_cell", (), (operand,), place(node), attr=name)

    def bind(self, register: int) -> None:
        if register not in self.unset:
            self.bound.add(register)

    def is_outer(self, name: str) -> bool:
        """Whether CPython reads a cell of this function as one around a comprehension."""
        return bool(self.inside) and not INLINES and not self.is_target(name)

    def is_target(self, name: str) -> bool:
        return any(name in targets.names for targets, _ in self.inside)

    def mangled(self, name: str) -> str:
        return mangle(self.owner, name)

    def outside(self, reason: str, hint: str, node: Any) -> Outside:
        return Outside(reason, hint, getattr(node, "lineno", 0), self.file)


INLINES = sys.version_info >= (3, 12)  # comprehensions run in the frame of their function
ASKS_ONCE = sys.version_info < (3, 12)  # `a and b or c` does not ask a false `a` again
