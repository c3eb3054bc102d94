"""The sources that `weft check` reads: scripts, notebooks, folders and packages."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

__all__ = ["Source", "Unreadable", "find", "read"]

#: Magics of a notebook's cell whose other lines are Python.
_OF_PYTHON = ("%%time", "%%timeit", "%%capture", "%%prun")
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages"}


class Unreadable(Exception):
    """A file that is no Python: where, and why."""


class Source(NamedTuple):
    """A file's syntax tree, and how its lines are called: by number, in a notebook by cell."""

    path: str
    tree: ast.Module
    cells: tuple[int, ...] = ()

    def place(self, line: int) -> str:
        """`file.py:3`, `file.ipynb:cell 2:3`: the line as a person finds it."""
        before = [first for first in self.cells if first < line]
        if not before:
            return f"{self.path}:{line}"
        return f"{self.path}:cell {len(before)}:{line - before[-1]}"


def find(what: str) -> list[Path]:
    """The files of a script, a folder or an installed package. LookupError: there is none."""
    path = Path(what)
    if path.is_file():
        return [path]
    if path.is_dir():
        return sorted(_below(path))
    search: list[str] | None = None
    origin = ""
    for part in what.split("."):
        spec = PathFinder.find_spec(part, search) if part.isidentifier() else None
        if spec is None:
            raise LookupError(f"[check] expected a file, a folder or a package, got {what!r}")
        search, origin = spec.submodule_search_locations, spec.origin or ""
    folders = [Path(folder) for folder in search or ()]
    if folders:
        return sorted(file for folder in folders for file in _below(folder))
    if not origin.endswith(".py"):
        raise LookupError(f"[check] expected a package with sources, got {what!r}, which has none")
    return [Path(origin)]


def _below(folder: Path) -> Iterator[Path]:
    for at, folders, files in os.walk(folder):
        folders[:] = [
            name for name in folders
            if not name.startswith(".") and name not in _LEFT_OUT
            and not (Path(at) / name / "pyvenv.cfg").exists()
        ]  # fmt: skip
        yield from (Path(at) / name for name in files if name.endswith((".py", ".ipynb")))


def read(path: Path) -> Source:
    """A file's tree. Unreadable: it is no Python that this Python reads."""
    try:
        if path.suffix == ".ipynb":
            return _notebook(path)
        return Source(str(path), ast.parse(path.read_bytes(), str(path)))
    except SyntaxError as error:
        raise Unreadable(f"{path}:{error.lineno or 0}: {error.msg}") from None
    except (ValueError, OSError, RecursionError) as error:
        raise Unreadable(f"{path}: {error}") from None


def _notebook(path: Path) -> Source:
    """The cells of code as one module, a cell's first line after the last of the one before."""
    cells = json.loads(path.read_bytes()).get("cells", ())
    body, firsts, line = [], [], 0
    for cell in cells:
        text = "".join(cell.get("source", ()))
        firsts.append(line)
        if cell.get("cell_type") == "code":
            try:
                tree = compile(
                    _without_magics(text), str(path), "exec",
                    ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
                )  # fmt: skip
            except SyntaxError as error:
                where = f"{path}:cell {len(firsts)}:{error.lineno}"
                raise Unreadable(f"{where}: {error.msg}") from None
            body += ast.increment_lineno(tree, line).body
        line += text.count("\n") + 1
    return Source(str(path), ast.Module(body, []), tuple(firsts))


def _without_magics(text: str) -> str:
    """A cell's Python: the lines for IPython and the shell are empty."""
    lines = text.split("\n")
    if lines[0].startswith("%%") and not lines[0].startswith(_OF_PYTHON):
        return ""
    return "\n".join(_plain(line) for line in lines)


def _plain(line: str) -> str:
    start = line.lstrip()
    if start.startswith(("%", "!", "?")) or line.rstrip().endswith("?"):
        return line[: len(line) - len(start)] + "pass"
    return line
