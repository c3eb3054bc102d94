"""Which share of the `forward` methods in packages' source files `weft.compile` can read.

    python bench/frontend_subset.py FOLDER... [--all] [--show K]

Each folder is a package's source (an unzipped wheel); nothing is imported or run. Of every method
named `forward` (with --all: of every function) the syntax tree is lowered; the reasons of those
that are outside are listed with their counts and K places each. A generator expression in a
function is inside: it stays Python's, and so does an inner function that is outside.
"""

from __future__ import annotations

import argparse
import ast
import collections
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from weft.frontend import Kept, Lowered, Outside, lower_tree

Method: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def methods(node: ast.AST, every: bool, owner: str | None = None) -> Iterator[tuple[Method, str]]:
    """(function, its class) of the functions below `node` that count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from methods(child, every, child.name)
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if every or (owner is not None and child.name == "forward"):
                yield child, owner
        elif not isinstance(child, ast.expr):
            yield from methods(child, every, owner)


def kept(lowered: Lowered) -> Iterator[str]:
    """Reasons of its inner functions that stay Python's."""
    for inner in lowered.inner:
        if isinstance(inner, Kept):
            yield inner.reason.reason
        else:
            yield from kept(inner)


def census(folder: Path, every: bool, show: int) -> None:
    total = inside = 0
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    stays: collections.Counter[str] = collections.Counter()
    seconds = 0.0
    for file in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(file.read_text())
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node, owner in methods(tree, every):
            total += 1
            start = time.perf_counter()
            try:
                lowered = lower_tree(node, owner)
                inside += 1
                stays.update(set(kept(lowered)))
            except Outside as why:
                reasons[why.reason].append(f"{file.relative_to(folder)}:{why.line}")
            seconds += time.perf_counter() - start
    what = "functions" if every else "forwards"
    share = 100 * inside / max(total, 1)
    print(f"{folder.name}: {inside} of {total} {what} are inside, {share:.1f} %", end="; ")
    print(f"{1e3 * seconds / max(total, 1):.2f} ms each, parsing apart")
    for reason, places in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"  {len(places):5}  {reason}", *places[:show], sep="\n" + 9 * " " if show else "  ")
    for reason, count in stays.most_common():
        print(f"  {count:5}  inside, with {reason} that stays Python's")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--all", action="store_true", help="every function, not only forwards")
    parser.add_argument("--show", type=int, default=0, metavar="K", help="places of each reason")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for folder in options.folders:
        census(folder, options.all, options.show)


if __name__ == "__main__":
    main()
