"""Statements, and the lowering of a whole function."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from weft.frontend.expressions import BINARY, Expressions
from weft.frontend.ir import Body, Lowered
from weft.frontend.offsets import Place, attr_place, place

Loop = ast.For | ast.While


def pattern_place(node: ast.pattern) -> Place:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


class Lowering(Expressions):
    """Lowers one function: `Lowering(node, code, twin, owner).run()`."""

    def run(self) -> Lowered:
        """The whole function.

        Raises:
            Outside: where a part of it is not in the subset.
        """
        if isinstance(self.node, ast.AsyncFunctionDef):
            raise self.outside("an async function", "", self.node)
        if (node := self.scope.suspends) is not None:
            if isinstance(node, (ast.Yield, ast.YieldFrom)):
                raise self.outside("a generator function", "return a list", node)
            raise self.outside("await, or an async comprehension", "", node)
        for name in self.scope.params:
            if name in self.cells:
                self.emit("set_cell", (), (self.locals[name],), attr=name)
        try:
            if isinstance(self.node, ast.Lambda):
                self.emit("return", (), (self.expr(self.node.body),), place(self.node.body))
                self.dead = True
            else:
                self.statements(self.node.body)
        except RecursionError:
            raise self.outside("it is nested too deeply", "", self.node) from None
        if not self.dead:
            self.emit("return", (), (self.const(None),))
        code = self.unit.code
        captured = (t.captured for t in self.scope.comprehensions.values())
        cells = dict.fromkeys([*self.cells, *sorted(set().union(*captured))])
        return Lowered(
            code.co_qualname if code else getattr(self.node, "name", "<lambda>"),
            code, self.registers, self.consts, self.out, tuple(self.free), tuple(cells),
            self.inner, self.inlined,
        )  # fmt: skip

    def statements(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            how = STATEMENTS.get(type(node))
            if how is None:
                raise self.outside(*OUTSIDE.get(type(node), (type(node).__name__, "")), node)
            temps = self.temps
            how(self, node)
            self.temps = temps

    # ---- assignment

    def assign(self, target: ast.expr, operand: int) -> None:
        """Assigns a value to a target."""
        if isinstance(target, ast.Name):
            self.store(self.mangled(target.id), operand, target)
        elif isinstance(target, ast.Attribute):
            holder, name = self.expr(target.value), self.mangled(target.attr)
            self.emit("set_attr", (), (holder, operand), attr_place(target, target), attr=name)
        elif isinstance(target, ast.Subscript):
            holder, key = self.expr(target.value), self.expr(target.slice)
            self.emit("set_item", (), (holder, key, operand), place(target))
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, operand)
        else:
            raise self.outside(f"assignment to {type(target).__name__}", "", target)

    def unpack(self, target: ast.Tuple | ast.List, operand: int) -> None:
        """Names up to the first other target take their values at once."""
        elements = target.elts
        stars = [k for k, e in enumerate(elements) if isinstance(e, ast.Starred)]
        parts = [e.value if isinstance(e, ast.Starred) else e for e in elements]
        ways: list[tuple[int, Callable[[], None]]] = []
        plain, taken = True, set()
        for part in parts:
            plain = plain and is_name(part)
            register, step = self.target(part) if plain else (self.temp(), None)
            if step is None or register in taken:
                register = self.temp() if step is not None else register
                step = self.assigning(part, register)
            taken.add(register)
            ways.append((register, step))
        attr = (stars[0], len(parts) - stars[0] - 1) if stars else None
        self.emit("unpack", tuple([r for r, _ in ways]), (operand,), place(target), attr=attr)
        for _, step in ways:
            step()

    def assigning(self, target: ast.expr, register: int) -> Callable[[], None]:
        return lambda: self.assign(target, register)

    def stmt_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) == 1:
            target, value = node.targets[0], node.value
            where = self.resolve(self.mangled(target.id)) if isinstance(target, ast.Name) else None
            if isinstance(where, int):
                self.evaluate(value, where)
                self.bind(where)
                return
            if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, ast.Tuple):
                if len(target.elts) == len(value.elts):
                    starred = [e for e in (*target.elts, *value.elts) if isinstance(e, ast.Starred)]
                    if not starred:
                        return self.assign_each(target, value)
        if isinstance(target := node.targets[0], (ast.Tuple, ast.List)):
            has_star = any(isinstance(e, ast.Starred) for e in target.elts)
            caller = self.unit.offsets.at("unpack", place(target))
            operand = self.collected(node.value, caller, None if has_star else len(target.elts))
        else:
            operand = self.expr(node.value)
        for target in node.targets:
            self.assign(target, operand)

    def assign_each(self, target: ast.Tuple | ast.List, value: ast.Tuple) -> None:
        """`a, b = b, a`: all values first, without a tuple."""
        names = [e.id for e in ast.walk(target) if isinstance(e, ast.Name)]
        written = {self.resolve(self.mangled(name)) for name in names}
        operands = []
        for element in value.elts:
            operand = self.expr(element)
            if operand in written:
                self.move(copy := self.temp(), operand, place(element))
                operand = copy
            operands.append(operand)
        for part, operand in zip(target.elts, operands):
            self.assign(part, operand)

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            if isinstance(node.target, ast.Attribute):
                self.expr(node.target.value)
            elif isinstance(node.target, ast.Subscript):
                self.operands([node.target.value, node.target.slice])
            return
        assign = ast.Assign([node.target], node.value)
        self.stmt_Assign(ast.copy_location(assign, node))

    def stmt_AugAssign(self, node: ast.AugAssign) -> None:
        target, op, where = node.target, BINARY[type(node.op)], place(node)
        if isinstance(target, ast.Name):
            name = self.mangled(target.id)
            old = self.read(name, target)
            operands = old, self.expr(node.value)
            register = self.resolve(name)
            out = register if isinstance(register, int) else self.temp()
            self.emit("inplace", (out,), operands, where, attr=op)
            self.store(name, out, target)
            return
        old, new = self.temp(), self.temp()
        if isinstance(target, ast.Attribute):
            holder, name, at = self.expr(target.value), self.mangled(target.attr), place(target)
            at = attr_place(target, target)
            self.emit("attr", (old,), (holder,), at, attr=name)
            self.emit("inplace", (new,), (old, self.expr(node.value)), where, attr=op)
            self.emit("set_attr", (), (holder, new), at, attr=name)
        else:
            holder, key, at = self.expr(target.value), self.expr(target.slice), place(target)
            self.emit("item", (old,), (holder, key), at)
            self.emit("inplace", (new,), (old, self.expr(node.value)), where, attr=op)
            self.emit("set_item", (), (holder, key, new), at)

    def stmt_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self.delete(target)

    def delete(self, target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            where = self.resolve(self.mangled(target.id))
            if not isinstance(where, int):
                hint = "assign None"
                raise self.outside(f"del of {target.id}, which is no local here", hint, target)
            self.emit("delete", (where,), (), place(target))
        elif isinstance(target, ast.Attribute):
            holder, name = self.expr(target.value), self.mangled(target.attr)
            self.emit("del_attr", (), (holder,), attr_place(target, target), attr=name)
        elif isinstance(target, ast.Subscript):
            self.emit("del_item", (), self.operands([target.value, target.slice]), place(target))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self.delete(element)

    # ---- control flow

    def stmt_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.expr(node.value)

    def stmt_Pass(self, node: ast.stmt) -> None:
        pass

    def stmt_If(self, node: ast.If) -> None:
        test = self.condition(node.test, place(node))
        other = (lambda: self.statements(node.orelse)) if node.orelse else None
        then = lambda: self.statements(node.body)  # noqa: E731
        self.branch(test, then, other, place(node.test), place(node))

    def stmt_While(self, node: ast.While) -> None:
        out = self.temp()

        def test() -> None:
            self.move(out, self.condition(node.test, place(node)))

        regions = self.region(test), *self.loop(node)
        where = place(node.test), place(node)
        self.emit("while", (out,), (), *where, regions=regions)

    def stmt_For(self, node: ast.For) -> None:
        iterable = self.expr(node.iter)
        element, step = self.target(node.target)
        regions = self.loop(node, step)
        where = place(node.iter), place(node)
        self.emit("for", (element,), (iterable,), *where, regions=regions)

    def loop(self, node: Loop, step: Callable[[], None] | None = None) -> tuple[Body, Body]:
        def body() -> None:
            if step is not None:
                step()
            self.statements(node.body)

        return self.perhaps(body), self.perhaps(lambda: self.statements(node.orelse))

    def stmt_Break(self, node: ast.Break) -> None:
        self.emit("break", (), ())
        self.dead = True

    def stmt_Continue(self, node: ast.Continue) -> None:
        self.emit("continue", (), ())
        self.dead = True

    def stmt_Return(self, node: ast.Return) -> None:
        value = self.const(None) if node.value is None else self.expr(node.value)
        self.emit("return", (), (value,), place(node))
        self.dead = True

    def stmt_With(self, node: ast.With) -> None:
        def enter(k: int) -> None:
            if k == len(node.items):
                self.statements(node.body)
                return
            item = node.items[k]
            manager, out = self.expr(item.context_expr), self.temp()

            def body() -> None:
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, out)
                enter(k + 1)

            region = self.perhaps(body)
            where = place(item.context_expr), place(node)
            self.emit("with", (out,), (manager,), *where, regions=(region,))

        enter(0)

    # ---- exceptions

    def stmt_Raise(self, node: ast.Raise) -> None:
        if node.exc is None:
            self.emit("reraise", (), (), place(node))
        else:
            operands = self.operands([n for n in (node.exc, node.cause) if n is not None])
            self.emit("raise", (), operands, place(node))
        self.dead = True

    def stmt_Assert(self, node: ast.Assert) -> None:
        if not __debug__:
            return
        test = self.condition(node.test, place(node))
        outs: tuple[int, ...] = ()
        regions: tuple[Body, ...] = ()
        if (message := node.msg) is not None:
            outs = (out := self.temp(),)
            regions = (self.perhaps(lambda: self.evaluate(message, out)),)
        self.emit("assert", outs, (test,), place(node), place(node.test), regions=regions)

    def stmt_Try(self, node: ast.Try) -> None:
        before = self.bound.copy()
        regions, ends = [self.region(lambda: self.statements(node.body))], []
        regions.append(self.region(lambda: self.statements(node.orelse)))
        if not self.dead:
            ends.append(self.bound)
        registers, outs, handlers = [], [], []
        for handler in node.handlers:
            self.bound, self.dead = before.copy(), False
            register, match, body = self.handler(handler)
            registers.append(register)
            outs.append(match[0])
            handlers += [match[1], body]
            if not self.dead:
                ends.append(self.bound)
        self.bound, self.dead = before.copy(), False
        last = self.region(lambda: self.statements(node.finalbody))
        if ends:
            self.bound |= set.intersection(*ends)
        self.dead = self.dead or not ends
        regions += [last, *handlers]
        self.emit("try", tuple(outs), (), place(node), attr=registers, regions=tuple(regions))

    def handler(self, node: ast.ExceptHandler) -> tuple[int, tuple[int, Body], Body]:
        """The register of the exception or -1, the test whether it handles, and what it does.

        A name is unbound at the end, whichever way that is.
        """
        out, kind = self.temp(), node.type

        def test() -> None:
            if kind is None:
                self.move(out, self.const(True))
            else:
                self.emit("match", (out,), (self.expr(kind),), place(node))

        match = self.region(test)
        if node.name is None:
            return -1, (out, match), self.region(lambda: self.statements(node.body))
        where = self.resolve(name := self.mangled(node.name))
        if not isinstance(where, int):
            raise self.outside(f"an exception {name} that an inner function uses",
                               "assign it to another name", node)  # fmt: skip

        def unbind() -> None:
            self.move(where, self.const(None))
            self.emit("delete", (where,), ())

        body = self.region(lambda: self.statements(node.body))
        whole = self.region(
            lambda: self.emit("try", (), (), attr=[], regions=(body, [], self.region(unbind)))
        )
        return where, (out, match), whole

    # ---- the rest

    def stmt_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.store(self.mangled(node.name), self.function(node), node)

    def stmt_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            out, where = self.temp(), place(node)
            self.emit("import", (out,), (), where, attr=(alias.name, None, 0))
            parts = alias.name.split(".")
            if alias.asname is not None:
                for part in parts[1:]:
                    self.emit("import_from", (inner := self.temp(),), (out,), where, attr=part)
                    out = inner
            self.store(self.mangled(alias.asname or parts[0]), out, node)

    def stmt_ImportFrom(self, node: ast.ImportFrom) -> None:
        names = tuple([alias.name for alias in node.names])
        out, where = self.temp(), place(node)
        attr = (node.module or "", names, node.level)
        self.emit("import", (out,), (), where, attr=attr)
        for alias in node.names:
            self.emit("import_from", (value := self.temp(),), (out,), where, attr=alias.name)
            self.store(self.mangled(alias.asname or alias.name), value, node)

    def stmt_Match(self, node: ast.Match) -> None:
        """Patterns of constants and values, alternatives of them, names and `_`."""
        subject = self.expr(node.subject)
        if subject >= 0:  # a name that a pattern binds may be the subject
            self.move(copy := self.temp(), subject, place(node.subject))
            subject = copy

        def case(k: int) -> None:
            if k == len(node.cases):
                return
            one = node.cases[k]
            others = lambda: case(k + 1)  # noqa: E731

            def guarded() -> None:
                if one.guard is None:
                    return self.statements(one.body)
                where = place(one.guard)
                guard = self.condition(one.guard, where)
                self.branch(guard, lambda: self.statements(one.body), others, where)

            if one.guard is not None and k + 1 < len(node.cases):
                raise self.outside("a case with a guard before another", "if and elif", one.guard)
            self.pattern(one.pattern, subject, guarded, others)

        case(0)

    def pattern(
        self, pattern: Any, subject: int, then: Callable[[], Any], other: Callable[[], Any]
    ) -> None:
        """Runs `then` where the pattern matches, else `other`."""
        if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
            if pattern.name is not None:
                self.store(self.mangled(pattern.name), subject, pattern)  # type: ignore[arg-type]
            then()
            return
        parts = pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]
        test = self.temp()

        def alternative(k: int) -> None:
            part = parts[k]
            if isinstance(part, ast.MatchValue):
                operands, op = (subject, self.expr(part.value)), "=="
            elif isinstance(part, ast.MatchSingleton):
                operands, op = (subject, self.const(part.value)), "is"
            else:
                raise self.outside("a match statement with more than values", "if and elif", part)
            self.emit("compare", (test,), operands, pattern_place(part), attr=op)
            if k + 1 < len(parts):
                self.branch(test, lambda: None, lambda: alternative(k + 1))

        alternative(0)
        self.branch(test, then, other, pattern_place(pattern))


STATEMENTS: dict[type[ast.AST], Callable[[Lowering, Any], None]] = {
    getattr(ast, name.removeprefix("stmt_")): how
    for name, how in vars(Lowering).items()
    if name.startswith("stmt_")
} | {ast.Global: Lowering.stmt_Pass, ast.Nonlocal: Lowering.stmt_Pass}

OUTSIDE: dict[type[ast.AST], tuple[str, str]] = {
    ast.ClassDef: ("a class definition", "define the class outside of the function"),
    ast.AsyncFunctionDef: ("an async function", "define it outside of the function"),
    ast.AsyncFor: ("async for", ""),
    ast.AsyncWith: ("async with", ""),
}
if hasattr(ast, "TryStar"):
    OUTSIDE[ast.TryStar] = ("except*", "except")
