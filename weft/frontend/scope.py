"""What the names of a function mean: its locals, what inner functions use of them, the rest.

CPython's symbol table says the same, but of comprehensions as functions of their own (as its 3.11
runs them); here they belong to the function that they stand in, with variables of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Memo: TypeAlias = "dict[int, Scope]"


def mangle(owner: str | None, name: str) -> str:
    """A name as the class `owner` makes it private."""
    if owner is None or not name.startswith("__") or name.endswith("__") or "." in name:
        return name
    return f"_{bare}{name}" if (bare := owner.lstrip("_")) else name


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """In the order of `co_varnames`."""
    rest = [a for a in (arguments.vararg, arguments.kwarg) if a]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes directly below `node`."""
    for value in node.__dict__.values():
        if isinstance(value, ast.AST):
            yield value
        elif type(value) is list:
            for item in value:
                if isinstance(item, ast.AST):
                    yield item


def is_plain_generator(node: ast.expr) -> bool:
    """Whether it is a generator expression that may run as a list comprehension does where all of
    it is collected at once: one loop, and nothing in it that could tell the difference."""
    if not isinstance(node, ast.GeneratorExp) or len(node.generators) > 1:
        return False
    apart = (ast.Lambda, ast.GeneratorExp, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    parts = [part for part in ast.walk(node) if part is not node]
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return not (
        node.generators[0].is_async
        or any(isinstance(part, apart) for part in parts)
        or names & {"super", "__class__", "locals", "vars", "dir", "eval", "exec"}
    )


class Targets:
    """The variables of a comprehension, and which of them inner functions use."""

    def __init__(self, node: Comprehension, owner: str | None) -> None:
        self.captured: set[str] = set()
        self.names: dict[str, None] = {}
        for generator in node.generators:
            for target in ast.walk(generator.target):
                if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                    self.names[mangle(owner, target.id)] = None


class Scope:
    """The names of a function, a generator expression or a class.

    Args:
        node: its syntax tree.
        owner: the class that it stands in, for private names.
        memo: scopes that are known, by the identity of their tree.

    Attributes:
        params: names of the parameters.
        locals: names that it binds, in order; parameters are not among them.
        used: names that it, or an inner function, reads.
        captured: those of its names that inner functions use.
        unset: names that may become unbound: by `del`, or at the end of an `except … as`.
        rebound: names that an expression binds (`:=`).
        comprehensions: their variables, by the identity of their tree; generator expressions that
            are collected at once, by an assignment to several targets or a star, are among them.
        generators: the other generator expressions that stand in it.
        suspends: the first `yield` or `await`, if any.
    """

    def __init__(self, node: ast.AST, owner: str | None, memo: Memo) -> None:
        self.owner, self.memo = owner, memo
        self.params: list[str] = []
        self.locals: dict[str, None] = {}
        self.used: set[str] = set()
        self.captured: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.unset: set[str] = set()
        self.rebound: set[str] = set()
        self.comprehensions: dict[int, Targets] = {}
        self.generators: list[ast.GeneratorExp] = []
        self.suspends: ast.AST | None = None
        self.inside: list[Targets] = []
        self.is_class = isinstance(node, ast.ClassDef)
        self.is_generator = isinstance(node, ast.GeneratorExp)
        if isinstance(node, ast.ClassDef):
            self.owner = node.name
            self.visit_all(node.body)
        elif isinstance(node, ast.GeneratorExp):
            self.locals.update(Targets(node, owner).names)
            self.visit_generators(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            self.params = [mangle(owner, a.arg) for a in parameters(node.args)]
            if isinstance(node, ast.Lambda):
                self.visit(node.body)
            else:
                self.visit_all(node.body)
        for name in self.params:
            self.locals.pop(name, None)
        for name in self.globals | self.nonlocals:
            self.locals.pop(name, None)

    def free(self) -> set[str]:
        """Names of variables around it, as far as there are any of that name."""
        if self.is_class:  # what it binds is not seen by its methods
            own = self.used - self.locals.keys() | self.captured
            return own - {"__class__"} - self.globals
        return (self.used | self.nonlocals) - {*self.params, *self.locals} - self.globals

    def bind(self, name: str) -> None:
        self.locals[mangle(self.owner, name)] = None

    def use(self, name: str, captured: bool = False) -> None:
        """A read of a name, by an inner function if `captured`."""
        for targets in reversed(self.inside):
            if name in targets.names:
                if captured:
                    targets.captured.add(name)
                return
        self.used.add(name)
        if captured:
            self.captured.add(name)

    def inner(self, node: ast.AST) -> None:
        """An inner function, generator expression or class."""
        scope = self.memo.get(id(node))
        if scope is None:
            scope = self.memo[id(node)] = Scope(node, self.owner, self.memo)
        if scope.is_generator:
            for name in scope.rebound:  # of the function around all generator expressions
                self.rebound.add(name)
                if self.is_generator:
                    self.used.add(name)
                else:
                    self.locals[name] = None
        for name in scope.free():
            self.use(name, captured=True)

    def visit_all(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self.visit(node)

    def visit(self, node: ast.AST) -> None:
        if (how := _VISITORS.get(type(node))) is not None:
            how(self, node)
            return
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                self.visit(value)
            elif type(value) is list:
                for item in value:
                    if isinstance(item, ast.AST):
                        self.visit(item)

    def visit_Name(self, node: ast.Name) -> None:
        name = mangle(self.owner, node.id)
        if isinstance(node.ctx, ast.Load):
            self.use(name)
            if name == "super" and not self.is_class:
                self.use("__class__")
        elif not (self.inside and name in self.inside[-1].names):
            if not (self.is_generator and name in self.locals):
                self.locals[name] = None
            if isinstance(node.ctx, ast.Del):
                self.unset.add(name)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        name = mangle(self.owner, node.target.id)
        self.rebound.add(name)
        if self.is_generator:
            self.used.add(name)
        else:
            self.locals[name] = None
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        self.visit(node.annotation)  # not evaluated, but inner functions hold what it names
        if node.value is not None:
            self.visit(node.value)

    def visit_function(self, node: Function) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        if not isinstance(node, ast.Lambda):
            self.bind(node.name)
            for part in (*node.decorator_list, *(a.annotation for a in parameters(node.args))):
                if part is not None:
                    self.visit(part)
            if node.returns is not None:
                self.visit(node.returns)
        self.inner(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bind(node.name)
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self.inner(node)

    def visit_generator(self, node: ast.GeneratorExp) -> None:
        self.generators.append(node)
        self.visit(node.generators[0].iter)
        self.inner(node)

    def visit_comprehension(self, node: Comprehension) -> None:
        self.visit(node.generators[0].iter)
        targets = self.comprehensions[id(node)] = Targets(node, self.owner)
        self.inside.append(targets)
        self.visit_generators(node)
        self.inside.pop()

    def visit_collected(self, node: ast.expr) -> None:
        if is_plain_generator(node):
            assert isinstance(node, ast.GeneratorExp)
            self.visit_comprehension(node)
        else:
            self.visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self.visit(target)
        if len(node.targets) == 1 and isinstance(node.targets[0], (ast.Tuple, ast.List)):
            self.visit_collected(node.value)
        else:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        self.visit(node.func)
        for arg in node.args:
            if isinstance(arg, ast.Starred) and len(node.args) == 1 and node.keywords:
                self.visit(arg.value)  # handed on as it is, and run after the keywords
            else:
                self.visit(arg)
        for keyword in node.keywords:
            self.visit(keyword)

    def visit_generators(self, node: Comprehension) -> None:
        """All but what runs outside: the first iterable."""
        for k, generator in enumerate(node.generators):
            if generator.is_async and self.suspends is None:
                self.suspends = node
            self.visit(generator.target)
            for part in (*([generator.iter] if k else []), *generator.ifs):
                self.visit(part)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.visit(part)

    def visit_suspension(self, node: ast.AST) -> None:
        self.suspends = self.suspends or node
        for child in children(node):
            self.visit(child)

    def visit_handler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bind(node.name)
            self.unset.add(mangle(self.owner, node.name))
        if node.type:
            self.visit(node.type)
        self.visit_all(node.body)

    def visit_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self.bind(alias.asname or alias.name.split(".")[0])

    def visit_declaration(self, node: ast.Global | ast.Nonlocal) -> None:
        names = self.globals if isinstance(node, ast.Global) else self.nonlocals
        names.update(mangle(self.owner, name) for name in node.names)

    def visit_pattern(self, node: ast.AST) -> None:
        name = getattr(node, "rest" if isinstance(node, ast.MatchMapping) else "name")
        if name is not None:
            self.bind(name)
        for child in children(node):
            self.visit(child)


_VISITORS = {
    ast.Name: Scope.visit_Name,
    ast.Constant: lambda self, node: None,
    ast.NamedExpr: Scope.visit_NamedExpr,
    ast.Assign: Scope.visit_Assign,
    ast.Call: Scope.visit_Call,
    ast.Starred: lambda self, node: self.visit_collected(node.value),
    ast.AnnAssign: Scope.visit_AnnAssign,
    ast.FunctionDef: Scope.visit_function,
    ast.AsyncFunctionDef: Scope.visit_function,
    ast.Lambda: Scope.visit_function,
    ast.ClassDef: Scope.visit_ClassDef,
    ast.GeneratorExp: Scope.visit_generator,
    ast.ListComp: Scope.visit_comprehension,
    ast.SetComp: Scope.visit_comprehension,
    ast.DictComp: Scope.visit_comprehension,
    ast.Yield: Scope.visit_suspension,
    ast.YieldFrom: Scope.visit_suspension,
    ast.Await: Scope.visit_suspension,
    ast.AsyncFor: Scope.visit_suspension,
    ast.AsyncWith: Scope.visit_suspension,
    ast.ExceptHandler: Scope.visit_handler,
    ast.Import: Scope.visit_import,
    ast.ImportFrom: Scope.visit_import,
    ast.Global: Scope.visit_declaration,
    ast.Nonlocal: Scope.visit_declaration,
    ast.MatchAs: Scope.visit_pattern,
    ast.MatchStar: Scope.visit_pattern,
    ast.MatchMapping: Scope.visit_pattern,
}
