"""Functions that a function makes: nested ones, lambdas, generator expressions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import CodeType
from typing import Any

from weft.frontend.emit import Emitter
from weft.frontend.ir import Kept, Lowered, Outside
from weft.frontend.offsets import place
from weft.frontend.scope import Function, Scope, mangle

CO_FUTURE_ANNOTATIONS = 0x1000000


class Functions(Emitter):
    """Lowers what makes functions."""

    def expr(self, node: ast.expr, into: int | None = None) -> int:
        raise NotImplementedError

    def operands(self, nodes: Sequence[ast.expr]) -> tuple[int, ...]:
        raise NotImplementedError

    def make(self, node: Any, inner: Lowered | Kept, defaults: int, words: int) -> int:
        """The instruction `function`. What the function uses of its surroundings must be cells."""
        for name in inner.free:
            if not isinstance(self.resolve(name), str):
                raise self.outside(f"an inner function's variable {name} is not found", "", node)
        self.inner.append(inner)
        out = self.temp()
        number = len(self.inner) - 1
        self.emit("function", (out,), (defaults, words), place(node), attr=number)
        return out

    def lowered(self, node: Function, name: str, line: int) -> Lowered | Kept:
        """The inner function, or the reason why it stays Python's."""
        child = self.unit.child(node, name, line) or (None, None)
        around = frozenset({*self.cells, *self.free}).union(*(t.captured for t, _ in self.inside))
        try:
            return self.another(node, child[0], child[1], around).run()
        except Outside as reason:
            scope = self.memo.get(id(node)) or Scope(node, self.owner, self.memo)
            code = child[0]
            free = code.co_freevars if code else tuple(sorted(scope.free() & around))
            return Kept(name, code, free, reason)

    def another(
        self,
        node: Function,
        code: CodeType | None,
        twin: CodeType | None,
        around: frozenset[str],
    ) -> Functions:
        """A lowering of an inner function."""
        return type(self)(node, code, twin, self.owner, around, self.file, self.memo)

    def run(self) -> Lowered:
        raise NotImplementedError

    def expr_Lambda(self, node: ast.Lambda, into: int | None) -> int:
        defaults, words = self.defaults(node.args)
        return self.make(node, self.lowered(node, "<lambda>", node.lineno), defaults, words)

    def expr_GeneratorExp(self, node: ast.GeneratorExp, into: int | None) -> int:
        """A function of the first iterator, called; its body stays Python's."""
        reason = self.outside("a generator expression", "a list comprehension", node)
        child = self.unit.child(node, "<genexpr>", node.lineno)
        around = {*self.cells, *self.free}.union(*(t.captured for t, _ in self.inside))
        free = child[0].co_freevars if child else tuple(sorted(self.memo[id(node)].free() & around))
        none = self.const(None)
        kept = Kept("<genexpr>", child[0] if child else None, free, reason)
        function = self.make(node, kept, none, none)
        iterable = self.expr(node.generators[0].iter)
        where = place(node.generators[0].iter), place(node)
        self.emit("iter", (iterator := self.temp(),), (iterable,), *where)
        self.emit("call", (out := self.temp(),), (function, iterator), place(node), attr=())
        return out

    def defaults(self, args: ast.arguments) -> tuple[int, int]:
        """Operands with the tuple and the dict of default values, or the constant None."""
        defaults = words = self.const(None)
        if args.defaults:
            values = self.operands(args.defaults)
            self.emit("tuple", (defaults := self.temp(),), values, place(args.defaults[0]))
        pairs: list[int] = []
        for arg, default in zip(args.kwonlyargs, args.kw_defaults):
            if default is not None:
                pairs += [self.const(mangle(self.owner, arg.arg)), self.expr(default)]
        if pairs:
            self.emit("dict", (words := self.temp(),), tuple(pairs))
        return defaults, words

    def function(self, node: ast.FunctionDef) -> int:
        """A nested `def` without the assignment to its name."""
        if getattr(node, "type_params", None):
            raise self.outside("a generic function", "leave the parameters out", node)
        decorators = self.operands(node.decorator_list)
        defaults, words = self.defaults(node.args)
        annotations = self.annotations(node)
        first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
        out = self.make(node, self.lowered(node, node.name, first), defaults, words)
        if annotations is not None:
            self.emit("set_attr", (), (out, annotations), place(node), attr="__annotations__")
        for decorator, value in zip(node.decorator_list[::-1], decorators[::-1]):
            self.emit("call", (made := self.temp(),), (value, out), place(decorator), attr=())
            out = made
        return out

    def annotations(self, node: ast.FunctionDef) -> int | None:
        """The dict of annotations, if any."""
        args = node.args
        order = [*args.args, *args.posonlyargs, args.vararg, *args.kwonlyargs, args.kwarg]
        pairs: list[int] = []
        code = self.unit.twin
        postponed = code is not None and code.co_flags & CO_FUTURE_ANNOTATIONS
        given = [(self.mangled(arg.arg), arg.annotation) for arg in order if arg]
        for name, annotation in (*given, ("return", node.returns)):
            if annotation is None:
                continue
            text = self.const(ast.unparse(annotation)) if postponed else self.expr(annotation)
            pairs += [self.const(name), text]
        if not pairs:
            return None
        self.emit("dict", (out := self.temp(),), tuple(pairs), place(node))
        return out
