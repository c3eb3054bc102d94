"""Expressions: every method gives the operand that holds the value.

`into` is a register that the value may be put into right away: it is written by the last
instruction only, so that what comes before may read what the register held.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from weft.frontend.emit import ASKS_ONCE, INLINES, Emitter, Unit
from weft.frontend.functions import Functions
from weft.frontend.ir import Inlined
from weft.frontend.offsets import Place, attr_place, place
from weft.frontend.scope import Comprehension

BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}
COMPARE = {
    ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
CONVERSIONS = {-1: "", ord("r"): "r", ord("s"): "s", ord("a"): "a"}

# Functions that look at the frame of their caller; the first always, the others without arguments.
FRAMES = {"exec", "eval", "locals", "globals", "breakpoint"}
BARE_FRAMES = {"vars", "dir"}
FRAME_ATTRIBUTES = {"_getframe", "currentframe"}


def constant(node: ast.expr) -> tuple[Any] | None:
    """The value of a constant, a number with a sign, or a tuple of such; None if it is none."""
    if isinstance(node, ast.Constant):
        return (node.value,)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if isinstance(node.operand, ast.Constant):
            value = node.operand.value
            return (-value,) if isinstance(value, (int, float, complex)) else None
    if isinstance(node, ast.Tuple):
        return (tuple(v[0] for v in values),) if (values := constants(node.elts)) else None
    return None


def constants(nodes: Sequence[ast.expr]) -> list[tuple[Any]] | None:
    """Values of nodes that are all constant, at least one."""
    values = [constant(node) for node in nodes]
    found = [v for v in values if v is not None]
    return found if found and len(found) == len(values) else None


def has_star(nodes: Sequence[ast.expr]) -> bool:
    return any(isinstance(node, ast.Starred) for node in nodes)


class Expressions(Functions, Emitter):
    """Lowers expressions."""

    def expr(self, node: ast.expr, into: int | None = None) -> int:
        """The operand that holds the value of `node`."""
        how = EXPRESSIONS.get(type(node))
        if how is None:
            raise self.outside(f"the expression {type(node).__name__}", "", node)
        return how(self, node, into)

    def evaluate(self, node: ast.expr, register: int) -> None:
        """The value of `node` into a register."""
        self.move(register, self.expr(node, register), place(node))

    def operands(self, nodes: Sequence[ast.expr]) -> tuple[int, ...]:
        return tuple([self.expr(node) for node in nodes])

    def result(self, into: int | None) -> int:
        return self.temp() if into is None else into

    # ---- names, constants, operators

    def expr_Name(self, node: ast.Name, into: int | None) -> int:
        if node.id == "__debug__":
            return self.const(__debug__)
        return self.read(self.mangled(node.id), node)

    def expr_Constant(self, node: ast.Constant, into: int | None) -> int:
        return self.const(node.value)

    def expr_BinOp(self, node: ast.BinOp, into: int | None) -> int:
        operands = self.expr(node.left), self.expr(node.right)
        out = self.result(into)
        self.emit("binary", (out,), operands, place(node), attr=BINARY[type(node.op)])
        return out

    def expr_UnaryOp(self, node: ast.UnaryOp, into: int | None) -> int:
        if (value := constant(node)) is not None:
            return self.const(value[0])
        operand = self.expr(node.operand)
        out = self.result(into)
        self.emit("unary", (out,), (operand,), place(node), attr=UNARY[type(node.op)])
        return out

    def compare(self, node: ast.Compare, k: int, left: int, out: int) -> int:
        """Comparison number `k`; gives its right operand."""
        op, right = node.ops[k], node.comparators[k]
        folded = None
        if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.List, ast.Set)):
            folded = constants(right.elts)
        if folded is not None:  # as the compiler does
            kind = tuple if isinstance(right, ast.List) else frozenset
            operand = self.const(kind([value[0] for value in folded]))
        else:
            operand = self.expr(right)
        self.emit("compare", (out,), (left, operand), place(node), attr=COMPARE[type(op)])
        return operand

    def expr_Compare(self, node: ast.Compare, into: int | None) -> int:
        left = self.expr(node.left)
        if len(node.ops) == 1:
            out = self.result(into)
            self.compare(node, 0, left, out)
            return out
        return self.chain(node, left, tested=False)

    def chain(self, node: ast.Compare, left: int, tested: bool) -> int:
        """`a < b < c`; `tested`: only its truth counts, and is asked of each part once."""
        out = self.temp()

        def step(k: int, left: int) -> None:
            right = self.compare(node, k, left, out)
            if k + 1 < len(node.ops):
                false = (lambda: self.move(out, self.const(False))) if tested else None
                self.branch(out, lambda: step(k + 1, right), false, place(node))

        step(0, left)
        return out

    # ---- and, or, not, conditional expressions

    def expr_BoolOp(self, node: ast.BoolOp, into: int | None) -> int:
        out = self.temp()
        self.boolean(node, out, None)
        return out

    def boolean(self, node: ast.BoolOp, out: int, truth: int | None) -> None:
        """The value into `out` and, where `truth` is a register, something of its truth there."""
        ends = isinstance(node.op, ast.Or)  # the truth that ends it

        def step(k: int) -> None:
            value, test = node.values[k], out
            if k + 1 == len(node.values):
                if truth is not None and isinstance(value, ast.BoolOp):
                    return self.boolean(value, out, truth)
                self.evaluate(value, out)
                if truth is not None:
                    self.move(truth, out)
                return
            if isinstance(value, ast.BoolOp) and ASKS_ONCE:
                self.boolean(value, out, test := self.temp())
            else:
                self.evaluate(value, out)

            def end() -> None:
                if truth is not None:
                    self.move(truth, self.const(ends))

            def go_on() -> None:
                step(k + 1)

            ways = (end, go_on) if ends else (go_on, end)
            self.branch(test, *ways, place(value), place(node))

        step(0)

    def condition(self, node: ast.expr, where: Place) -> int:
        """An operand with the truth of `node`, whose parts are asked for theirs once; `where` is
        the place of what asks."""
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self.chain(node, self.expr(node.left), tested=True)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            operand = self.condition(node.operand, where)
            places = place(node), where
            self.emit("unary", (negated := self.temp(),), (operand,), *places, attr="not")
            return negated
        if isinstance(node, ast.IfExp):
            test, out = self.condition(node.test, where), self.temp()
            then, other = (
                lambda part=part: self.move(out, self.condition(part, where))
                for part in (node.body, node.orelse)
            )
            self.branch(test, then, other, place(node.test), where)
            return out
        if not isinstance(node, ast.BoolOp):
            return self.expr(node)
        ends, out = isinstance(node.op, ast.Or), self.temp()

        def step(k: int) -> None:
            operand = self.condition(node.values[k], where)
            if k + 1 == len(node.values):
                self.move(out, operand)
                return
            ways = (lambda: self.move(out, self.const(ends))), (lambda: step(k + 1))
            then, other = ways if ends else ways[::-1]
            self.branch(operand, then, other, place(node.values[k]), place(node), where)

        step(0)
        return out

    def expr_IfExp(self, node: ast.IfExp, into: int | None) -> int:
        test = self.condition(node.test, place(node))
        out = self.result(into)
        self.branch(
            test,
            lambda: self.evaluate(node.body, out),
            lambda: self.evaluate(node.orelse, out),
            place(node.test),
            place(node),
        )
        return out

    def expr_NamedExpr(self, node: ast.NamedExpr, into: int | None) -> int:
        value = self.expr(node.value)
        self.store(self.mangled(node.target.id), value, node.target)
        return value

    # ---- attributes, items, calls

    def expr_Attribute(self, node: ast.Attribute, into: int | None) -> int:
        if node.attr in FRAME_ATTRIBUTES:
            raise self.outside(f"{node.attr} looks at a frame", "", node)
        value = self.expr(node.value)
        out = self.result(into)
        name = self.mangled(node.attr)
        self.emit("attr", (out,), (value,), attr_place(node, node), attr=name)
        return out

    def expr_Subscript(self, node: ast.Subscript, into: int | None) -> int:
        operands = self.expr(node.value), self.expr(node.slice)
        out = self.result(into)
        self.emit("item", (out,), operands, place(node))
        return out

    def expr_Slice(self, node: ast.Slice, into: int | None) -> int:
        none = self.const(None)
        parts = (node.lower, node.upper, node.step)
        operands = tuple([none if part is None else self.expr(part) for part in parts])
        out = self.result(into)
        self.emit("slice", (out,), operands, place(node))
        return out

    def is_plain(self, node: ast.expr) -> bool:
        """Whether evaluating it does nothing at all."""
        if isinstance(node, ast.Name):
            where = self.resolve(self.mangled(node.id))
            return isinstance(where, int) and where in self.bound and where not in self.rebound
        return constant(node) is not None

    def expr_Call(self, node: ast.Call, into: int | None) -> int:
        func, words = node.func, node.keywords
        if isinstance(func, ast.Name) and self.resolve(func.id) is None:
            if func.id == "super" and not node.args and not words:
                return self.super_call(node, into)
            bare = not node.args and not words
            if func.id in FRAMES or (bare and func.id in BARE_FRAMES):
                raise self.outside(f"{func.id}() looks at the frame of its caller", "", node)
        if has_star(node.args) or any(word.arg is None for word in words):
            return self.starred_call(node, into)
        names = tuple([word.arg for word in words])
        values = [*node.args, *[word.value for word in words]]
        if isinstance(func, ast.Attribute):
            if func.attr in FRAME_ATTRIBUTES:
                raise self.outside(f"{func.attr} looks at a frame", "", node)
            holder, where = self.expr(func.value), attr_place(func, node)
            name = self.mangled(func.attr)
            if all(map(self.is_plain, values)):
                operands = (holder, *self.operands(values))
                out, found = self.result(into), self.offset("lookup", attr_place(func, func))
                attr = name, names, found
                self.emit("method", (out,), operands, where, place(node), attr=attr)
                return out
            found = self.temp()  # the method is looked up before the arguments are evaluated
            self.emit("lookup", (found,), (holder,), attr_place(func, func), attr=name)
            operands = (found, *self.operands(values))
        else:
            operands, where = (self.expr(func), *self.operands(values)), place(node)
        out = self.result(into)
        self.emit("call", (out,), operands, where, place(node), attr=names)
        return out

    def super_call(self, node: ast.Call, into: int | None) -> int:
        if "__class__" not in self.free or not self.scope.params:
            raise self.outside("super() outside of a method", "super(Class, self)", node)
        if self.inside and not INLINES:
            raise self.outside("super() in a comprehension", "call it before", node)
        assert isinstance(node.func, ast.Name)
        operands = self.read("__class__", node), self.read(self.scope.params[0], node)
        out = self.result(into)
        self.emit("super", (out,), operands, place(node))
        return out

    def starred_call(self, node: ast.Call, into: int | None) -> int:
        """With `*args` or `**kwargs`. One `*args` alone is handed on as it is."""
        callee, none = self.expr(node.func), self.const(None)
        if len(node.args) == 1 and isinstance(star := node.args[0], ast.Starred):
            args = self.collected(star.value, self.unit.offsets.at("call_ex", place(node)))
        else:
            args = self.sequence(node.args, "tuple", node, None)
        kwargs = none
        group: list[int] = []

        def flush() -> None:
            nonlocal kwargs, group
            if not group and kwargs != none:
                return
            self.emit("dict", (part := self.temp(),), tuple(group), place(node))
            group = []
            if kwargs == none:
                kwargs = part
            else:
                self.emit("insert", (), (kwargs, part, callee), place(node))

        for word in node.keywords:
            if word.arg is not None:
                group += [self.const(word.arg), self.expr(word.value)]
                continue
            flush()
            value = self.expr(word.value)
            self.emit("insert", (), (kwargs, value, callee), place(node))
        if group:
            flush()
        out = self.result(into)
        self.emit("call_ex", (out,), (callee, args, kwargs), place(node))
        return out

    # ---- displays

    def expr_Tuple(self, node: ast.Tuple, into: int | None) -> int:
        if (value := constant(node)) is not None:
            return self.const(value[0])
        return self.sequence(node.elts, "tuple", node, into)

    def expr_List(self, node: ast.List, into: int | None) -> int:
        return self.sequence(node.elts, "list", node, into)

    def expr_Set(self, node: ast.Set, into: int | None) -> int:
        return self.sequence(node.elts, "set", node, into)

    def sequence(
        self, nodes: Sequence[ast.expr], kind: str, node: ast.expr, into: int | None
    ) -> int:
        """A tuple, list or set of the values of `nodes`, stars among them or not."""
        first = next((k for k, n in enumerate(nodes) if isinstance(n, ast.Starred)), len(nodes))
        items = self.operands(nodes[:first])
        if first == len(nodes):
            out = self.result(into)
            self.emit(kind, (out,), items, place(node))
            return out
        built = "set" if kind == "set" else "list"
        extend, append = ("update", "add") if kind == "set" else ("extend", "append")
        self.emit(built, (out := self.temp(),), items, place(node))
        for item in nodes[first:]:
            if isinstance(item, ast.Starred):
                caller = self.unit.offsets.at(extend, place(node))
                self.emit(extend, (), (out, self.collected(item.value, caller)), place(node))
            else:
                self.emit(append, (), (out, self.expr(item)), place(node))
        if kind == "tuple":
            self.emit("to_tuple", (result := self.result(into),), (out,), place(node))
            return result
        return out

    def expr_Dict(self, node: ast.Dict, into: int | None) -> int:
        whole: int | None = None
        group: list[int] = []

        def flush() -> int:
            nonlocal group
            self.emit("dict", (part := self.temp(),), tuple(group), place(node))
            group = []
            if whole is None:
                return part
            self.emit("merge", (), (whole, part), place(node))
            return whole

        for key, value in zip(node.keys, node.values):
            if key is not None:
                group += [self.expr(key), self.expr(value)]
                continue
            if group or whole is None:
                whole = flush()
            self.emit("merge", (), (whole, self.expr(value)), place(node))
        return flush() if group or whole is None else whole

    def expr_JoinedStr(self, node: ast.JoinedStr, into: int | None) -> int:
        parts = self.operands(node.values)
        if not parts:
            return self.const("")
        if len(parts) == 1:
            return parts[0]
        out = self.result(into)
        self.emit("join", (out,), parts, place(node))
        return out

    def expr_FormattedValue(self, node: ast.FormattedValue, into: int | None) -> int:
        value = self.expr(node.value)
        spec = self.expr(node.format_spec) if node.format_spec else self.const("")
        out = self.result(into)
        conversion = CONVERSIONS[node.conversion]
        self.emit("format", (out,), (value, spec), place(node), attr=conversion)
        return out

    # ---- comprehensions

    def expr_ListComp(self, node: ast.ListComp, into: int | None) -> int:
        return self.comprehension(node, "list", "<listcomp>")

    def expr_SetComp(self, node: ast.SetComp, into: int | None) -> int:
        return self.comprehension(node, "set", "<setcomp>")

    def expr_DictComp(self, node: ast.DictComp, into: int | None) -> int:
        return self.comprehension(node, "dict", "<dictcomp>")

    def collected(self, node: ast.expr, caller: int, most: int | None = None) -> int:
        """The value of `node`, all of which is taken at once by the instruction at `caller`: a list
        of what a generator expression gives, `most` and one more if it gives more than `most`."""
        if isinstance(node, ast.GeneratorExp) and id(node) in self.scope.comprehensions:
            return self.comprehension(node, "list", "<genexpr>", caller, most)
        return self.expr(node)

    def comprehension(
        self,
        node: Comprehension,
        kind: str,
        name: str,
        caller: int | None = None,
        most: int | None = None,
    ) -> int:
        """A loop with variables of its own, in the code object that CPython gives it, which the
        instruction at `caller` runs."""
        unit, bound = self.unit, self.bound.copy()
        first = self.expr(node.generators[0].iter)
        targets = self.scope.comprehensions[id(node)]
        taken = {*self.cells, *self.free, *(n for t, _ in self.inside for n in t.captured)}
        if clash := targets.captured & taken:
            names = ", ".join(sorted(clash))
            raise self.outside(
                f"a comprehension's variable that an inner function uses hides another ({names})",
                "give it another name", node,
            )  # fmt: skip
        child = unit.child(node, name, node.lineno)
        if child is not None:
            call = unit.offsets.at("call", place(node)) if caller is None else caller
            self.inlined.append(Inlined(child[0], unit.number, call))
            self.unit = Unit(*child, len(self.inlined))
        elif not INLINES:
            self.unit = Unit(None, None, unit.number)
        self.inside.append((targets, self.targets[id(node)]))
        self.emit(kind, (out := self.temp(),), (), place(node))
        for captured in sorted(targets.captured):
            self.emit("new_cell", (), (), attr=captured)
        count = None
        if most is not None:
            self.emit("move", (count := self.temp(),), (self.const(0),))
        self.generators(node, 0, first, out, unit, lambda: self.end_at(count, most))
        self.inside.pop()
        self.unit, self.bound = unit, bound
        return out

    def end_at(self, count: int | None, most: int | None) -> None:
        """Ends a loop that has run more than `most` times."""
        if count is None:
            return
        self.emit("binary", (count,), (count, self.const(1)), attr="+")
        self.emit("compare", (test := self.temp(),), (count, self.const(most)), attr=">")
        self.branch(test, lambda: self.emit("break", (), ()), None)

    def generators(
        self,
        node: Comprehension,
        k: int,
        iterable: int,
        out: int,
        unit: Unit,
        then: Callable[[], None],
    ) -> None:
        """The loops from number `k` on; `unit`: where the iterator is made; `then`: what follows
        each element."""
        generator = node.generators[k]

        def inner() -> None:
            if k + 1 < len(node.generators):
                following = self.expr(node.generators[k + 1].iter)
                self.generators(node, k + 1, following, out, self.unit, then)
            elif isinstance(node, ast.DictComp):
                key, value = node.key, node.value
                pair = key.lineno, value.end_lineno, key.col_offset, value.end_col_offset
                operands = out, self.expr(key), self.expr(value)
                self.emit("put", (), operands, pair if INLINES else place(node))
            else:
                verb, elt = "add" if isinstance(node, ast.SetComp) else "append", node.elt
                value = elt if INLINES or isinstance(node, ast.GeneratorExp) else node
                self.emit(verb, (), (out, self.expr(elt)), place(value))
                then()

        def filtered(tests: list[ast.expr]) -> None:
            if not tests:
                return inner()
            test = self.condition(tests[0], place(node))
            self.branch(test, lambda: filtered(tests[1:]), None, place(tests[0]), place(node))

        element, step = self.target(generator.target)

        def body() -> None:
            step()
            filtered(generator.ifs)

        region, current = self.perhaps(body), self.unit
        self.unit = unit
        self.emit("for", (element,), (iterable,), place(generator.iter), place(node),
                  regions=(region, []))  # fmt: skip
        self.unit = current

    def target(self, target: ast.expr) -> tuple[int, Callable[[], None]]:
        """The register for a value that is assigned to `target`, and what does the rest."""
        where = self.resolve(self.mangled(target.id)) if isinstance(target, ast.Name) else None
        if isinstance(where, int):
            return where, lambda: self.bind(where)
        register = self.temp()
        return register, lambda: self.assign(target, register)

    def assign(self, target: ast.expr, operand: int) -> None:
        raise NotImplementedError


EXPRESSIONS: dict[type[ast.AST], Callable[[Any, Any, int | None], int]] = {
    getattr(ast, name.removeprefix("expr_")): how
    for kind in (Functions, Expressions)
    for name, how in vars(kind).items()
    if name.startswith("expr_")
}
