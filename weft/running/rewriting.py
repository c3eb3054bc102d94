"""The user's files with their values looked at: what `weft run --compare` runs in their place.

Each call, operator, subscript, branch and loop of a file hands its value to an observer by way of
`__weft_seen__`, a name among the builtins. The expressions are evaluated where they stood, in the
same frames and in the same order; lines are those of the file. Sources that others read, as
`torch.jit.script` does, are as they were.
"""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, NamedTuple

__all__ = ["OBSERVER", "Files", "Finder", "Site", "rewrite"]

OBSERVER = "__weft_seen__"

#: Calls whose results hold what lay in memory; those that grow are not told of; the last where
#: they are given sizes.
_EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
_GROWN = {"resize_", "resize_as_"}
_SIZED = {
    "Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor", "IntTensor", "new",
    "LongTensor", "ShortTensor", "CharTensor", "ByteTensor", "BoolTensor",
}  # fmt: skip
#: Calls whose indices are not determined where values are as large.
_ORDERED = {"sort", "argsort", "topk", "kthvalue", "median", "mode"}
#: Builtins that give no tensor: not worth a look.
_PLAIN = {
    "print", "len", "range", "isinstance", "issubclass", "hasattr", "enumerate", "zip", "str", "id",
    "int", "float", "bool", "repr", "type", "super", "open", "sorted", "locals", "globals", "vars",
}  # fmt: skip
_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Mod: "%",
    ast.Pow: "**", ast.FloorDiv: "//", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


class Site(NamedTuple):
    """A place of a file of the user's, and what the expression there does."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    name: str


class _Rewriter(ast.NodeTransformer):
    def __init__(self, file: str, sites: list[Site]) -> None:
        self.file, self.sites = file, sites

    def seen(self, how: str, node: Any, value: ast.expr | None, name: str) -> Any:
        """`__weft_seen__.how(k, value)`: `node`'s place is that of site k."""
        place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        self.sites.append(Site(self.file, *place, name))
        number = ast.Constant(len(self.sites) - 1)
        of = ast.Attribute(ast.Name(OBSERVER, ast.Load()), how, ast.Load())
        call = ast.Call(of, [number] if value is None else [number, value], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    # ---- expressions

    def visit_Call(self, node: ast.Call) -> Any:
        name = getattr(node.func, "attr", getattr(node.func, "id", "call"))
        self.generic_visit(node)
        if name in _GROWN or (isinstance(node.func, ast.Name) and name in _PLAIN):
            return node
        if name in _SIZED and node.args and not isinstance(node.args[0], ast.Starred):
            node.args[0] = self.seen("size", node.args[0], node.args[0], name)
            return self.seen("made", node, node, name)
        if name in _EMPTY:
            return self.seen("emptied", node, node, name)
        if name in _ORDERED:
            return self._ordered(node, name)
        if not isinstance(node.func, ast.Attribute) or name not in ("backward", "step"):
            return self.seen("value", node, node, name)
        seen = self.seen("backward" if name == "backward" else "state", node, node, name)
        if name == "backward":
            first = ast.Attribute(ast.Name(OBSERVER, ast.Load()), "begin", ast.Load())
            seen.args[0] = ast.Call(first, [seen.args[0]], [])
        return ast.fix_missing_locations(seen)

    def _ordered(self, node: ast.Call, name: str) -> Any:
        """Its operand is told too: the receiver, or the first argument where that is a module."""

        def operand(value: ast.expr) -> Any:
            return self.seen("operand", value, value, name)

        if isinstance(node.func, ast.Attribute):
            node.func.value = operand(node.func.value)
        if node.args and not isinstance(node.args[0], ast.Starred):
            node.args[0] = operand(node.args[0])
        for keyword in node.keywords:
            if keyword.arg in ("input", "self"):
                keyword.value = operand(keyword.value)
        return self.seen("ordered", node, node, name)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self.seen("value", node, self._within(node), _SIGNS[type(node.op)])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        inner = self._within(node)
        if isinstance(node.op, ast.Not) or isinstance(node.operand, ast.Constant):
            return inner
        return self.seen("value", node, inner, _SIGNS[type(node.op)])

    def visit_Compare(self, node: ast.Compare) -> Any:
        sign = _SIGNS.get(type(node.ops[0]))
        inner = self._within(node)
        return inner if sign is None else self.seen("value", node, inner, sign)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        inner = self._within(node)
        return self.seen("value", node, inner, "[]") if isinstance(node.ctx, ast.Load) else inner

    def _within(self, node: Any) -> Any:
        return self.generic_visit(node)

    # ---- branches and loops

    def visit_If(self, node: Any) -> Any:
        test, name = node.test, {"If": "if", "While": "while"}.get(type(node).__name__, "if else")
        self.generic_visit(node)
        node.test = self.seen("branch", test, node.test, name)
        return node

    visit_While = visit_IfExp = visit_If

    def visit_For(self, node: ast.For) -> Any:
        iterated = node.iter
        self.generic_visit(node)
        node.iter = self.seen("each", iterated, node.iter, "for")
        return node

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        iterated, tests = node.iter, list(node.ifs)
        self.generic_visit(node)
        if not node.is_async:
            node.iter = self.seen("each", iterated, node.iter, "for")
        node.ifs = [self.seen("branch", old, new, "if") for old, new in zip(tests, node.ifs)]
        return node

    # ---- statements

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        again = ast.Name(node.target.id, ast.Load())
        value = self.seen("value", node, again, _SIGNS[type(node.op)] + "=")
        return [node, ast.copy_location(ast.Expr(value), node)]

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> Any:
        self.generic_visit(node)
        first = self.seen("caught", node, None, "except")
        node.body.insert(0, ast.copy_location(ast.Expr(first), node))
        return node

    # ---- what is not evaluated, or not as an expression

    def visit_match_case(self, node: ast.match_case) -> Any:
        if node.guard is not None:
            node.guard = self.visit(node.guard)
        node.body = self._statements(node.body)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: Any) -> Any:
        args = node.args
        node.decorator_list = [self.visit(n) for n in node.decorator_list]
        args.defaults = [self.visit(n) for n in args.defaults]
        args.kw_defaults = [n and self.visit(n) for n in args.kw_defaults]
        node.body = self._statements(node.body)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def _statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            made = self.visit(statement)
            out += made if isinstance(made, list) else [made]
        return out


def rewrite(source: bytes, file: str, sites: list[Site]) -> CodeType:
    """The code of a file that hands its values on; `sites` gets what its numbers stand for."""
    tree = ast.parse(source, file)
    return compile(_Rewriter(file, sites).visit(tree), file, "exec", dont_inherit=True)


class Files:
    """Which files are the user's: those below the program's folder and the current one, without
    installed packages, Python's own, and the two that are compared."""

    def __init__(self, *folders: str) -> None:
        self._roots = tuple({os.path.join(os.path.realpath(f), "") for f in folders})
        own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        std = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
        self._left_out = tuple(os.path.join(os.path.realpath(f), "") for f in (own, *std))
        self.sites: list[Site] = []
        self.known: set[str] = set()

    def __contains__(self, file: str) -> bool:
        real = os.path.realpath(file)
        return (
            real.startswith(self._roots)
            and not real.startswith(self._left_out)
            and not {"site-packages", "dist-packages"} & set(real.split(os.sep))
        )

    def code(self, file: str) -> CodeType:
        """The code to run for a file."""
        with open(file, "rb") as stream:
            source = stream.read()
        self.known.add(file)
        return rewrite(source, file, self.sites)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, file: str, files: Files) -> None:
        super().__init__(name, file)
        self._files = files

    def get_code(self, fullname: str) -> CodeType:
        return self._files.code(self.path)


class Finder:
    """Of `sys.meta_path`: the user's modules, rewritten."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in ("weft", "torch") or name in sys.builtin_module_names:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        if spec.origin is None or spec.origin not in self._files:
            return None
        spec.loader = _Loader(name, spec.origin, self._files)
        return spec
