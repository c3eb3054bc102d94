"""Functions in instructions, for programs: generator expressions are lists, made at once."""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

from weft.frontend.ir import Lowered
from weft.frontend.lower import Lowering
from weft.frontend.offsets import place
from weft.frontend.scope import Function, Scope, Targets
from weft.frontend.source import find


def lower(code: CodeType, module: dict[str, Any] | None) -> Lowered:
    """A function in instructions.

    Raises:
        Outside: it has no source, or one that is not what it runs, or is not in the subset.
    """
    found = find(code, module)
    return Eager(found.node, code, found.twin, found.owner, file=code.co_filename).run()


class Eager(Lowering):
    """A lowering in which a generator expression is the list of what it would give.

    A generator computes while whoever has it asks. Where all of it is asked for, only the order of
    effects differs, which expressions in models seldom have.
    """

    def __init__(self, node: Function, *args: Any, **kwargs: Any) -> None:
        super().__init__(node, *args, **kwargs)
        for generator in self.scope.generators:
            self.add(generator, self.memo[id(generator)])
        self.temps = len(self.registers)

    def add(self, node: ast.GeneratorExp, scope: Scope) -> None:
        """Registers for the variables of a generator expression, and of comprehensions in it."""
        own = self.scope.comprehensions[id(node)] = Targets(node, self.owner)
        own.captured = scope.captured & own.names.keys()
        for key, targets in {id(node): own, **scope.comprehensions}.items():
            self.scope.comprehensions[key] = targets
            names = [n for n in targets.names if n not in targets.captured]
            self.targets[key] = {n: self.register(n) for n in names}
        for inner in scope.generators:
            self.add(inner, self.memo[id(inner)])

    def expr(self, node: ast.expr, into: int | None = None) -> int:
        """The register of an expression's value."""
        return self.listed(node) if isinstance(node, ast.GeneratorExp) else super().expr(node, into)

    def collected(self, node: ast.expr, caller: int, most: int | None = None) -> int:
        return self.expr(node)

    def listed(self, node: ast.GeneratorExp) -> int:
        """As a list comprehension, in the code object of the generator."""
        if self.scope.comprehensions[id(node)].captured:
            raise self.outside(
                "a generator expression whose variable an inner function uses", "a loop", node
            )
        made = self.comprehension(node, "list", "<genexpr>")
        inner = (targets.captured for targets in self.scope.comprehensions.values())
        reads = sorted({*self.cells}.union(*inner) & names_read(node))
        self.emit("iter", (out := self.temp(),), (made,), place(node), attr=reads)
        return out


def names_read(node: ast.GeneratorExp) -> set[str]:
    """The names that a generator expression reads once it is gone through: all but those of what
    it goes through first."""
    first, *others = node.generators
    inside = [node.elt, *first.ifs, *others]
    return {n.id for part in inside for n in ast.walk(part) if isinstance(n, ast.Name)}
