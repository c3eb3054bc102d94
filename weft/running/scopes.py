"""Which names of a program stand for what of PyTorch's, by scope; `weft check` asks.

A name is known only where all that binds it in its scope says the same: an import, or an
assignment of something known. What is bound twice, differently, is not known.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from weft.base.alias import home_of
from weft.running import offered

__all__ = ["Class", "Known", "Scope", "TENSOR", "bind"]

Bound = Callable[[], "Known | None"]


class Class(NamedTuple):
    """A class of the program's."""

    node: ast.ClassDef
    scope: Scope


class Known(NamedTuple):
    """What an expression is: a path of PyTorch's, a class of the program's, or a tensor."""

    path: str = ""
    local: Class | None = None
    is_tensor: bool = False


TENSOR = Known(is_tensor=True)
_ALSO_TENSORS = {"T", "mT", "H", "mH", "data", "real", "imag"}


class Scope:
    """The names of a module, a function or a class, and what binds them."""

    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        self.node, self.parent = node, parent
        self.is_class = isinstance(node, ast.ClassDef)
        self.bound: dict[str, list[Bound]] = {}
        self.elsewhere: dict[str, Scope] = {}
        self.inner: dict[ast.AST, Scope] = {}
        self._asked: set[str] = set()
        self._known: dict[str, Known | None] = {}

    def add(self, name: str, what: Bound = lambda: None) -> None:
        self.elsewhere.get(name, self).bound.setdefault(name, []).append(what)

    def top(self) -> Scope:
        return self if self.parent is None else self.parent.top()

    def find(self, name: str) -> Known | None:
        """What a name is where it is read in this scope."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.elsewhere:
                return scope.elsewhere[name].find(name)
            if name in scope.bound:
                return scope._of(name)
            scope = scope.parent
            while scope is not None and scope.is_class:
                scope = scope.parent
        return None

    def _of(self, name: str) -> Known | None:
        if name not in self._known:
            if name in self._asked:
                return None  # it is bound by way of itself
            self._asked.add(name)
            found = [bound() for bound in self.bound[name]]
            same = all(known == found[0] for known in found)
            self._known[name] = found[0] if same else None
        return self._known[name]

    def known(self, node: ast.AST | None) -> Known | None:
        """What an expression is."""
        match node:
            case ast.Name(id=name):
                return self.find(name)
            case ast.Attribute(value=value, attr=attr):
                owner = self.known(value)
                if owner is not None and owner.path:
                    return Known(f"{owner.path}.{attr}")
                return TENSOR if owner == TENSOR and attr in _ALSO_TENSORS else None
            case ast.Call(func=function):
                return self._made_by(function)
            case ast.Subscript(value=value):
                return TENSOR if self.known(value) == TENSOR else None
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
                return TENSOR if self.known(operand) == TENSOR else None
            case ast.BinOp(left=left, right=right):
                sides = [n for n in (left, right) if not isinstance(n, ast.Constant)]
                return TENSOR if sides and all(self.known(n) == TENSOR for n in sides) else None
        return None

    def _made_by(self, function: ast.expr) -> Known | None:
        path = ""
        if isinstance(function, ast.Attribute) and self.known(function.value) == TENSOR:
            path = f"torch.Tensor.{function.attr}"
        elif (known := self.known(function)) is not None:
            path = known.path
        return TENSOR if path and offered.gives_tensor(path) else None


def _targets(node: ast.AST) -> list[str]:
    """The names that an assignment to `node` binds."""
    return [
        n.id
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del))
    ]


class _Binder(ast.NodeVisitor):
    """Fills the scopes of a module."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def within(self, node: ast.AST, bodies: list[ast.AST]) -> None:
        outer = self.scope
        self.scope = outer.inner[node] = Scope(node, outer)
        for part in (n for body in bodies for n in ast.walk(body)):
            if isinstance(part, (ast.Global, ast.Nonlocal)):
                home = outer.top() if isinstance(part, ast.Global) else outer
                self.scope.elsewhere |= dict.fromkeys(part.names, home)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            self._parameters(node.args, outer)
        for body in bodies:
            self.visit(body)
        self.scope = outer

    def _parameters(self, args: ast.arguments, outer: Scope) -> None:
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
            self.scope.add(arg.arg, functools.partial(_annotated, outer, arg.annotation))
        for star in (args.vararg, args.kwarg):
            if star is not None:
                self.scope.add(star.arg)

    def visit_FunctionDef(self, node: Any) -> None:
        self.scope.add(node.name)
        args = node.args
        for part in (*node.decorator_list, *args.defaults, *filter(None, args.kw_defaults)):
            self.visit(part)
        self.within(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.within(node, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        scope = self.scope
        self.scope.add(node.name, lambda: Known(local=Class(node, scope)))
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self.within(node, list(node.body))

    def _comprehension(self, node: Any) -> None:
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.within(node, [*node.generators, *results])

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            full = alias.name if alias.asname else alias.name.partition(".")[0]
            name = alias.asname or full
            self.scope.add(name, _path(full))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            full = f"{node.module}.{alias.name}" if node.level == 0 else ""
            self.scope.add(alias.asname or alias.name, _path(full))

    def visit_Assign(self, node: ast.Assign) -> None:
        scope = self.scope
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope.add(target.id, lambda: scope.known(node.value))
            else:
                self.visit(target)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        scope = self.scope
        if isinstance(node.target, ast.Name) and node.value is not None:
            scope.add(node.target.id, lambda: scope.known(node.value))
        else:
            self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            self.scope.add(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        home = self.scope
        while isinstance(home.node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            assert home.parent is not None
            home = home.parent
        home.add(node.target.id)
        self.visit(node.value)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.scope.add(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: Any) -> None:
        if node.name:
            self.scope.add(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs


def _path(full: str) -> Bound:
    known = Known(full) if home_of(full) is not None else None
    return lambda: known


def _annotated(scope: Scope, annotation: ast.expr | None) -> Known | None:
    known = scope.known(annotation)
    return TENSOR if known is not None and known.path == "torch.Tensor" else None


def bind(tree: ast.Module) -> Scope:
    """The scope of a module, with those within it."""
    binder = _Binder(Scope(tree, None))
    for node in tree.body:
        binder.visit(node)
    return binder.scope
