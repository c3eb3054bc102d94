"""Which share of the `forward` methods in packages' source files `weft.compile` can read.

    python bench/frontend_subset.py FOLDER... [--all] [--show K]

Each folder is a package's source (an unzipped wheel); nothing is imported or run. Of every method
named `forward` (with --all: of every function) the syntax tree is lowered. Then the same is asked
of the functions of the package that it calls, of those that these call, and so on, as far as the
source tells which they are: names of the module or imported from the package, methods of `self`,
`cls` and `super()` by the classes that are written there, classes by their `__init__`, and the
functions that decorators put around others, by their `wraps`. (A call of a submodule is one of its
`forward`, which counts by itself.)

The reasons of what is outside are listed with their counts and K places each. A generator
expression in a function is inside: it stays Python's. So does another inner function that is
outside: what calls such a function does not count as inside with all that it calls.
"""

from __future__ import annotations

import argparse
import ast
import collections
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from weft.frontend import Kept, Lowered, Outside, lower_tree

Method: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
GENERATOR = "a generator expression"


@dataclass(eq=False)
class Code:
    """A function, and what lowering it said."""

    node: Method
    module: Module
    owner: Class | None
    why: Outside | None = None
    kept: set[str] = field(default_factory=set)
    wrappers: list[Code] | None = None

    def wraps(self) -> list[Code]:
        """The functions that it, a decorator, puts around others."""
        if self.wrappers is None:
            nodes = [n for s in self.node.body for n in ast.walk(s)]
            inner = [n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
            inner = [n for n in inner if any("wraps(" in ast.unparse(d) for d in n.decorator_list)]
            self.wrappers = [Code(n, self.module, None) for n in inner]
        return self.wrappers

    @property
    def whole(self) -> bool:
        return self.why is None and not self.kept - {GENERATOR}

    def lower(self) -> None:
        owner = self.owner.node.name if self.owner else None
        try:
            self.kept = set(kept(lower_tree(self.node, owner)))
        except Outside as why:
            self.why = why


@dataclass(eq=False)
class Class:
    node: ast.ClassDef
    module: Module
    methods: dict[str, Code] = field(default_factory=dict)


@dataclass(eq=False)
class Module:
    """A file: what its names are, and the modules of which it imports all names."""

    name: str
    package: str
    names: dict[str, Code | Class | tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    codes: list[Code] = field(default_factory=list)


Found: TypeAlias = Code | Class | Module | None


def kept(lowered: Lowered) -> Iterator[str]:
    """Reasons of its inner functions that stay Python's."""
    for inner in lowered.inner:
        if isinstance(inner, Kept):
            yield inner.reason.reason
        else:
            yield from kept(inner)


def index(node: ast.AST, module: Module, owner: Class | None = None) -> None:
    """Adds what stands at the level of a module or a class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            made = Class(child, module)
            if owner is None:
                module.names[child.name] = made
            index(child, module, made)
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            code = Code(child, module, owner)
            module.codes.append(code)
            (module.names if owner is None else owner.methods)[child.name] = code
        elif isinstance(child, ast.ImportFrom) and owner is None:
            base = module.package.split(".")
            base = base[: len(base) - child.level + 1] if child.level else []
            source = ".".join([*base, *([child.module] if child.module else [])])
            for alias in child.names:
                if alias.name == "*":
                    module.stars.append(source)
                else:
                    module.names[alias.asname or alias.name] = source, alias.name
        elif isinstance(child, ast.Import) and owner is None:
            for alias in child.names:
                if alias.asname:
                    module.names[alias.asname] = alias.name, ""
        elif not isinstance(child, ast.expr):
            index(child, module, owner)


class Package:
    """The modules of a folder, and what calls in them call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: dict[str, Module] = {}
        for file in sorted(folder.rglob("*.py")):
            parts = [folder.name, *file.relative_to(folder).with_suffix("").parts]
            package = parts[:-1]
            name = ".".join(package if parts[-1] == "__init__" else parts)
            try:
                tree = ast.parse(file.read_text(), str(file.relative_to(folder)))
            except (SyntaxError, UnicodeDecodeError):
                continue
            module = self.modules[name] = Module(name, ".".join(package))
            index(tree, module)

    def look(self, module: Module, name: str, depth: int = 0) -> Found:
        """What a name at the level of a module is, through imports."""
        found = module.names.get(name)
        if isinstance(found, (Code, Class)):
            return found
        sources = [found] if found else [(star, name) for star in module.stars]
        for source, wanted in sources if depth < 20 else []:
            if not wanted:
                return self.modules.get(source)
            if (other := self.modules.get(source)) and other is not module:
                if result := self.look(other, wanted, depth + 1):
                    return result
            if submodule := self.modules.get(f"{source}.{wanted}"):
                return submodule
        return None

    def value(self, node: ast.expr, module: Module) -> Found:
        """What an expression of names and dots is."""
        if isinstance(node, ast.Name):
            return self.look(module, node.id)
        if isinstance(node, ast.Attribute):
            holder = self.value(node.value, module)
            if isinstance(holder, Module):
                return self.look(holder, node.attr)
            if isinstance(holder, Class):
                return self.method(holder, node.attr)
        return None

    def bases(self, kind: Class) -> list[Class]:
        found = [self.value(base, kind.module) for base in kind.node.bases]
        return [base for base in found if isinstance(base, Class)]

    def method(self, kind: Class, name: str, above: bool = False, depth: int = 0) -> Code | None:
        """A method of a class, or of the classes above it only."""
        if not above and name in kind.methods:
            return kind.methods[name]
        for base in self.bases(kind) if depth < 20 else []:
            if found := self.method(base, name, depth=depth + 1):
                return found
        return None

    def callee(self, node: ast.expr, code: Code) -> Code | None:
        """The function of the package that a call of `node` runs."""
        if isinstance(node, ast.Attribute) and code.owner is not None:
            holder = node.value
            if isinstance(holder, ast.Name) and holder.id in ("self", "cls"):
                return self.method(code.owner, node.attr)
            if isinstance(holder, ast.Call) and getattr(holder.func, "id", "") == "super":
                return self.method(code.owner, node.attr, above=True)
        found = self.value(node, code.module)
        if isinstance(found, Class):
            return self.method(found, "__init__")
        return found if isinstance(found, Code) else None

    def called(self, code: Code) -> Iterator[Code]:
        """What a function calls, and what its decorators put around it."""
        for decorator in code.node.decorator_list:
            whole = decorator.func if isinstance(decorator, ast.Call) else decorator
            if found := self.callee(whole, code):
                yield from found.wraps()
        for statement in code.node.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and (found := self.callee(node.func, code)):
                    yield found

    def reach(self, roots: list[Code]) -> dict[Code, list[Code]]:
        """All functions that these reach, each with what it calls."""
        graph: dict[Code, list[Code]] = {}
        todo = list(roots)
        while todo:
            if (code := todo.pop()) not in graph:
                graph[code] = list(dict.fromkeys(self.called(code)))
                todo += graph[code]
        return graph


def all_whole(root: Code, graph: dict[Code, list[Code]]) -> bool:
    """Whether a function and all that it reaches are inside."""
    seen, todo = {root}, [root]
    while todo:
        code = todo.pop()
        if not code.whole:
            return False
        new = [c for c in graph[code] if c not in seen]
        seen.update(new)
        todo += new
    return True


def census(folder: Path, every: bool, show: int) -> str:
    """Prints the reasons of a package, and gives its row of the table."""
    package = Package(folder)
    codes = [code for module in package.modules.values() for code in module.codes]
    roots = [c for c in codes if every or (c.owner is not None and c.node.name == "forward")]
    graph = package.reach(roots)
    start = time.perf_counter()
    for code in graph:
        code.lower()
    seconds = time.perf_counter() - start
    inside = sum(code.why is None for code in roots)
    whole = sum(all_whole(code, graph) for code in roots)
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    stays: collections.Counter[str] = collections.Counter()
    for code in graph:
        stays.update(code.kept)
        if code.why is not None:
            file = code.module.name.replace(".", "/")
            reasons[code.why.reason].append(f"{file}:{code.why.line} in {code.node.name}")
    print(f"{folder.name}: {1e3 * seconds / max(len(graph), 1):.2f} ms each, parsing apart")
    for reason, places in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"  {len(places):5}  {reason}", *places[:show], sep="\n" + 9 * " " if show else "  ")
    for reason, count in stays.most_common():
        print(f"  {count:5}  inside, with {reason} that stays Python's")
    first, second = [f"{n}, {100 * n / max(len(roots), 1):.1f} %" for n in (inside, whole)]
    outside = sum(not code.whole for code in graph)
    cells = folder.name, len(roots), first, len(graph), outside, second
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--all", action="store_true", help="every function, not only forwards")
    parser.add_argument("--show", type=int, default=0, metavar="K", help="places of each reason")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [census(folder, options.all, options.show) for folder in options.folders]
    what = "functions" if options.all else "`forward`s"
    print(f"\n| package | {what} | inside | with what they call | of these outside | all inside |")
    print("|---|---|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
