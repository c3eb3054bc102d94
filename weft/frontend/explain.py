"""Every line of a function that keeps it, or an inner function of it, outside of the subset."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType
from typing import Any

from weft.frontend.functions import Functions
from weft.frontend.ir import Kept, Lowered, Outside
from weft.frontend.lower import Lowering
from weft.frontend.scope import Function


class Explaining(Lowering):
    """A lowering that notes what is outside and goes on after it; what it makes is of no use."""

    found: list[Outside]

    @property
    def name(self) -> str:
        return self.code.co_qualname if self.code else getattr(self.node, "name", "<lambda>")

    def note(self, reason: Outside, function: str = "") -> None:
        self.found.append(reason.of(function or self.name))

    def run(self) -> Lowered:
        try:
            return super().run()
        except Outside as reason:
            self.note(reason)
            raise

    def another(
        self, node: Function, code: CodeType | None, twin: CodeType | None, around: frozenset[str]
    ) -> Functions:
        made = super().another(node, code, twin, around)
        assert isinstance(made, Explaining)
        made.found = self.found
        return made

    def make(self, node: Any, inner: Lowered | Kept, defaults: int, words: int) -> int:
        if isinstance(node, ast.GeneratorExp) and isinstance(inner, Kept):
            self.note(inner.reason, f"{self.name}.<locals>.{inner.name}")
        return super().make(node, inner, defaults, words)

    def expr(self, node: ast.expr, into: int | None = None) -> int:
        try:
            return super().expr(node, into)
        except Outside as reason:
            self.note(reason)
            return self.const(None)

    def statements(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            try:
                super().statements([node])
            except Outside as reason:
                self.note(reason)

    def assign(self, target: ast.expr, operand: int) -> None:
        self.noting(lambda: super(Explaining, self).assign(target, operand))

    def delete(self, target: ast.expr) -> None:
        self.noting(lambda: super(Explaining, self).delete(target))

    def pattern(
        self, pattern: Any, subject: int, then: Callable[[], Any], other: Callable[[], Any]
    ) -> None:
        def both() -> None:
            then()
            other()

        self.noting(lambda: super(Explaining, self).pattern(pattern, subject, then, other), both)

    def noting(self, step: Callable[[], Any], instead: Callable[[], Any] = lambda: None) -> None:
        try:
            step()
        except Outside as reason:
            self.note(reason)
            instead()
