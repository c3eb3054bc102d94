"""Which of PyTorch's names a program uses that weft does not offer, read from its source.

Nothing of the program runs. What is not certain is not told: a name counts where all that binds it
says that it is PyTorch's. `scopes` knows what names stand for, `offered` what weft has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from weft.base.alias import home_of
from weft.running import offered
from weft.running.offered import Gap
from weft.running.scopes import TENSOR, Class, Known, Scope, bind

__all__ = ["Missing", "Names", "check"]

_PROBED = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}
#: Questions of devices that are not here: what such an `if` is for never runs.
_ABSENT = {
    "torch.cuda.is_available", "torch.backends.mps.is_available", "torch.backends.mps.is_built",
    "torch.xpu.is_available", "torch.mps.is_available", "torch.backends.cuda.is_built",
}  # fmt: skip


class Missing(NamedTuple):
    """A name that is used and not offered; `optional` says why the program can do without."""

    line: int
    name: str
    hint: str
    optional: str = ""


class Names:
    """The names that programs give to attributes, of whatever; and their texts."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self.given: set[str] = set()
        for node in (n for tree in trees for n in ast.walk(tree)):
            match node:
                case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                    self.given.add(name)
                case ast.Constant(value=str(text)):
                    self.given.add(text)
                case ast.ClassDef(body=body):
                    self.given.update(_names_in(body))
                case ast.keyword(arg=str(name)):
                    self.given.add(name)


def _names_in(body: list[ast.stmt]) -> Iterator[str]:
    for node in (n for statement in body for n in ast.walk(statement)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def check(tree: ast.Module, names: Names) -> list[Missing]:
    """What a module uses that is not offered, by line; each name once a line."""
    visitor = _Visitor(bind(tree), names)
    for node in tree.body:
        visitor.visit(node)
    return sorted(set(visitor.found))


class _Visitor(ast.NodeVisitor):
    def __init__(self, scope: Scope, names: Names) -> None:
        self.scope, self.names = scope, names
        self.found: list[Missing] = []
        self.optional = ""
        self.guarded: frozenset[str] = frozenset()
        self.given = self._given_paths(scope)
        self.owners: dict[str, type] = {}  # the first parameter of a method: its class's base
        self.postponed = any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__"
            and "annotations" in {alias.name for alias in node.names}
            for node in getattr(scope.node, "body", ())
        )  # fmt: skip

    def _given_paths(self, scope: Scope) -> set[str]:
        """Paths that the program assigns itself."""
        return {
            known.path
            for node, inner in _with_scopes(scope)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            if (known := inner.known(node)) is not None
        }

    # ---- what is told

    def tell(self, node: ast.AST, gap: Gap | None, said: str = "") -> None:
        if gap is None or gap.path in self.given:
            return
        why = self.optional
        if gap.path in self.guarded:
            why = "asked for by hasattr"
        line = getattr(node, "lineno", 0)
        self.found.append(Missing(line, said or gap.path, gap.hint, why))

    @contextmanager
    def under(self, optional: str = "", guarded: Iterable[str] = ()) -> Iterator[None]:
        before = self.optional, self.guarded
        self.optional = self.optional or optional
        self.guarded |= frozenset(guarded)
        yield
        self.optional, self.guarded = before

    # ---- names

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if home_of(alias.name) is not None:
                self.tell(node, offered.module_gap(alias.name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or home_of(module) is None:
            return
        if (gap := offered.module_gap(module)) is not None:
            self.tell(node, gap)
            return
        for alias in node.names:
            if alias.name != "*":
                self.tell(alias, offered.gap_in(f"{module}.{alias.name}"))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        known = self.scope.known(node)
        if known is not None and known.path:
            if isinstance(node.ctx, ast.Load):
                self.tell(node, offered.gap_in(known.path))
            elif (owner := self.scope.known(node.value)) is not None:
                self.tell(node, offered.gap_in(owner.path))
            return
        self.visit(node.value)
        if not isinstance(node.ctx, ast.Load) or node.attr in self.names.given:
            return
        if self.scope.known(node.value) == TENSOR:
            path = f"torch.Tensor.{node.attr}"
            self.tell(node, offered.gap_in(path))
        elif isinstance(node.value, ast.Name) and node.value.id in self.owners:
            owner_type = self.owners[node.value.id]
            gap = offered.attribute_of(owner_type, node.attr)
            of = f"torch.nn.{owner_type.__name__}" if gap else ""
            self.tell(node, gap, f"{node.value.id}.{node.attr} (of {of})")

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(
                func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), *rest]
            ):
                known = self.scope.known(owner)
                if known is not None and known.path:
                    with self.under(optional="getattr has another answer" if rest else ""):
                        self.tell(node, offered.gap_in(f"{known.path}.{name}"))
        self.generic_visit(node)

    def visit_annotation(self, node: ast.AST | None) -> None:
        if node is not None:
            with self.under(optional="an annotation" if self.postponed else ""):
                self.visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        self.visit_annotation(node.annotation)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit_annotation(node.annotation)
        self._all(filter(None, (node.target, node.value)))

    # ---- what may not run

    def visit_Try(self, node: Any) -> None:
        probes = any(_catches(handler) for handler in node.handlers)
        before = len(self.found)
        with self.under(optional="its absence is caught" if probes else ""):
            self._all(node.body)
        lacks = len(self.found) > before
        with self.under(optional="" if lacks or not probes else "for other versions of torch"):
            self._all(node.handlers)
        self._all(node.orelse)
        self._all(node.finalbody)

    visit_TryStar = visit_Try

    def visit_If(self, node: ast.If) -> None:
        self._either(node.test, node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._either(node.test, [node.body], [node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._either(node, [], [])

    def _either(self, test: ast.expr, then: Iterable[ast.AST], other: Iterable[ast.AST]) -> None:
        asked: set[str] = set()
        why, absent = "", False
        for part in ast.walk(test):
            known = self.scope.known(part) if isinstance(part, (ast.Attribute, ast.Name)) else None
            path = known.path if known is not None else ""
            if path == "torch.__version__":
                why = "behind a question of the version"
            if "TYPE_CHECKING" in (getattr(part, "id", ""), getattr(part, "attr", "")):
                absent = True
            asked.update(self._asked(part))
        absent = absent or self._is_absent(test)
        with self.under(guarded=asked, optional=why):
            if isinstance(test, ast.BoolOp):
                self._all(test.values)
            else:
                self.visit(test)
            with self.under(optional="does not run here" if absent else ""):
                self._all(then)
            self._all(other)

    def _asked(self, part: ast.AST) -> Iterator[str]:
        match part:
            case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(name))]):
                known = self.scope.known(owner)
                if known is not None and known.path:
                    yield f"{known.path}.{name}"

    def _is_absent(self, test: ast.expr) -> bool:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return any(self._is_absent(value) for value in test.values)
        known = self.scope.known(test.func) if isinstance(test, ast.Call) else None
        return known is not None and known.path in _ABSENT

    # ---- scopes

    def _all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        inner = self.scope.inner.get(node)
        if inner is None:
            super().generic_visit(node)
            return
        outer, owners = self.scope, self.owners
        for part in ast.iter_child_nodes(node):
            if part is getattr(node, "returns", None):
                self.visit_annotation(part)
            elif not _is_inside(node, part):
                self.visit(part)
        self.scope = inner
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.owners = self._owner(node, outer)
        self._all(n for n in ast.iter_child_nodes(node) if _is_inside(node, n))
        self.scope, self.owners = outer, owners

    def _owner(self, node: Any, outer: Scope) -> dict[str, type]:
        """Of which class of weft's a method's first parameter is, and those of outer methods."""
        args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        out = {n: kind for n, kind in self.owners.items() if n not in {a.arg for a in args}}
        marks = {getattr(d, "id", getattr(d, "attr", "")) for d in node.decorator_list}
        if not isinstance(outer.node, ast.ClassDef) or not args or outer.parent is None:
            return out
        name = args[0].arg
        if not marks & {"staticmethod", "classmethod"} and len(self.scope.bound[name]) == 1:
            base = _base(Class(outer.node, outer.parent), frozenset())
            if base is not None:
                out[name] = base
        return out


def _is_inside(node: ast.AST, part: ast.AST) -> bool:
    """Whether a part of a function, class or comprehension belongs to its own scope."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return part in node.body
    return not isinstance(part, ast.arguments)


def _with_scopes(scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    """All nodes below that of a scope, each with the scope that it is in."""
    waiting: list[tuple[ast.AST, Scope]] = [(scope.node, scope)]
    while waiting:
        node, within = waiting.pop()
        yield node, within
        within = within.inner.get(node, within)
        waiting.extend((child, within) for child in ast.iter_child_nodes(node))


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type
    if kinds is None:
        return True
    each = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    return any(getattr(kind, "id", "") in _PROBED for kind in each)


def _base(own: Class, seen: frozenset[str]) -> type | None:
    """The class of `torch.nn` that a class of the program's surely is one of, and no other."""
    node = own.node
    hides = {"__getattr__", "__getattribute__", "__dict__"}
    if node.name in seen or node.decorator_list or node.keywords or len(node.bases) != 1:
        return None
    if hides & set(_names_in(node.body)):
        return None
    known: Known | None = own.scope.known(node.bases[0])
    if known is None:
        return None
    if known.local is not None:
        return _base(known.local, seen | {node.name})
    found = offered.thing(known.path) if known.path.startswith("torch.nn.") else None
    return found if isinstance(found, type) and found is not object else None
