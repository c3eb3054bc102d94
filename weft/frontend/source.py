"""The syntax tree of a function, from its source, and only if that is what the function runs.

The source around a code object is compiled again and compared with it. Not the whole file: the
outermost function around it, with its classes as empty frames, which for a method of a class is
the method alone. Where that does not do (a lambda in a table, text at the margin of a string) it is
the whole file. What was compiled is kept, as the functions of one outermost function share it.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
import warnings
from collections import OrderedDict
from types import CodeType
from typing import Any, NamedTuple

from weft.frontend.emit import covers
from weft.frontend.ir import Outside
from weft.frontend.scope import Function, children

# `from __future__` as code objects remember it.
_FUTURE = 0
for _name in __import__("__future__").all_feature_names:
    _FUTURE |= getattr(__import__("__future__"), _name).compiler_flag
_FUTURE &= ~0x30  # CO_NESTED and what shares its bit: no features of a compilation

_INDENT = re.compile(r"[ \t]*")
_PIECES = 64


class Found(NamedTuple):
    """A function's tree, the code object that its source compiles to, and the class around it."""

    node: Function
    twin: CodeType
    owner: str | None


class Piece(NamedTuple):
    """Source that was compiled: the lines it was made of (one list per state of a file), the
    tree and the code object."""

    lines: list[str]
    tree: ast.Module
    code: CodeType


#: Files whose functions run rewritten, as under `weft run --compare`: the source counts there.
rewritten: set[str] = set()

_pieces: OrderedDict[tuple[str, int, int], Piece] = OrderedDict()


def same(code: Any, other: Any) -> bool:
    """Whether two constants, code objects among them, do the same, as far as their text says."""
    if type(code) is not type(other):
        return False
    if isinstance(code, CodeType):
        return (
            code.co_code == other.co_code
            and code.co_firstlineno == other.co_firstlineno
            and code.co_flags == other.co_flags
            and code.co_names == other.co_names
            and code.co_varnames == other.co_varnames
            and code.co_freevars == other.co_freevars
            and code.co_cellvars == other.co_cellvars
            and code.co_argcount == other.co_argcount
            and code.co_posonlyargcount == other.co_posonlyargcount
            and code.co_kwonlyargcount == other.co_kwonlyargcount
            and code.co_exceptiontable == other.co_exceptiontable
            and code.co_name == other.co_name
            and same(code.co_consts, other.co_consts)
        )
    if isinstance(code, tuple):
        return len(code) == len(other) and all(map(same, code, other))
    if isinstance(code, (float, complex)):
        return repr(code) == repr(other)
    return bool(code == other)


def find(code: CodeType, module: dict[str, Any] | None = None) -> Found:
    """The tree of the function that `code` is of.

    Args:
        code: a function's code object.
        module: globals of the function, for a source that a loader gives.

    Raises:
        Outside: there is no source, or it is not what the function runs.
    """
    file = code.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, module)
    line = code.co_firstlineno
    if line <= len(lines):
        for text, first in (excerpt(code, lines), ("", 0)):
            if text is None:
                continue
            piece = compiled(code, lines, text or "".join(lines), first)
            if piece is not None and (found := look_up(code, piece)) is not None:
                return found
    # Any text may have a name that is no file's: linecache of Python 3.13 has that of `python -c`
    # under "<string>".
    if not lines or (file.startswith("<") and file.endswith(">")):
        raise Outside("there is no source", "define the function in a file", line, file)
    raise Outside(
        "the source is not what the function runs: edited since, rewritten or generated",
        "import the module anew", line, file,
    )  # fmt: skip


def excerpt(code: CodeType, lines: list[str]) -> tuple[str | None, int]:
    """Source of the outermost function around `code`, its lines where they were, and its first
    line; None where the name does not say which function that is."""
    path = code.co_qualname.split(".<locals>.")[0].split(".")
    name, classes = path[-1], path[:-1]
    last = code.co_firstlineno - 1
    if "<" in code.co_qualname.split(".")[len(path) - 1]:
        return None, 0
    begin = last
    if ".<locals>." in code.co_qualname:
        header = re.compile(rf"[ \t]*(async[ \t]+)?def[ \t]+{re.escape(name)}\b")
        while begin >= 0 and not header.match(lines[begin]):
            begin -= 1
        if begin < 0:
            return None, 0
    indent = width(lines[begin])
    frames = [" " * k + f"class {c}:\n" for k, c in enumerate(classes)]
    if indent and not frames:
        frames = ["if 1:\n"]
    if indent < len(frames) or begin < len(frames):
        return None, 0
    end = last
    while lines[end].lstrip().startswith("@"):  # over decorators to the header
        end += 1
        while end < len(lines) and not (ends(lines[end], indent) or is_decorator(lines[end])):
            end += 1
        if end == len(lines):
            return None, 0
    end += 1
    while end < len(lines) and not ends(lines[end], indent):
        end += 1
    blank = "\n" * (begin - len(frames))
    return blank + "".join(frames) + "".join(lines[begin:end]), begin + 1


def width(line: str) -> int:
    found = _INDENT.match(line)
    return found.end() if found else 0


def is_decorator(line: str) -> bool:
    return line.lstrip().startswith("@")


def ends(line: str, indent: int) -> bool:
    """Whether a line at or before `indent` begins something else."""
    text = line.lstrip()
    return bool(text) and text[0] not in "#)]}" and len(line) - len(text) <= indent


def compiled(code: CodeType, lines: list[str], text: str, first: int) -> Piece | None:
    """The tree and code of `text`; None where it is no Python by itself."""
    flags = code.co_flags & _FUTURE
    key = code.co_filename, first, flags
    piece = _pieces.get(key)
    if piece is not None and piece.lines is lines:
        _pieces.move_to_end(key)
        return piece
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = compile(text, code.co_filename, "exec", flags | ast.PyCF_ONLY_AST, True)
            whole = compile(tree, code.co_filename, "exec", flags, True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    assert isinstance(tree, ast.Module)
    piece = _pieces[key] = Piece(lines, tree, whole)
    if len(_pieces) > _PIECES:
        _pieces.popitem(last=False)
    return piece


def look_up(code: CodeType, piece: Piece) -> Found | None:
    """The function in a piece that is `code`."""
    known = code.co_filename in rewritten
    twins = [c for c in codes(piece.code, code) if known or same(code, c)]
    if not twins:
        return None
    exact = [c for c in twins if c.co_linetable == code.co_linetable]
    twin = (exact or twins)[0]
    found = list(nodes(piece.tree, twin, None))
    if len(found) > 1:
        found = [f for f in found if covers(f[0], twin)] or found
    return Found(found[0][0], twin, found[0][1]) if found else None


def codes(whole: CodeType, code: CodeType) -> list[CodeType]:
    """Code objects in `whole` with the name and line of `code`."""
    found, todo = [], [whole]
    while todo:
        current = todo.pop()
        for const in current.co_consts:
            if isinstance(const, CodeType):
                if const.co_firstlineno == code.co_firstlineno and (
                    const.co_qualname == code.co_qualname
                ):
                    found.append(const)
                todo.append(const)
    return found[::-1]


def nodes(node: ast.AST, code: CodeType, owner: str | None) -> Any:
    """(function, class around it) of the functions below `node` with the name and line of
    `code`."""
    for child in children(node):
        kind, inner = type(child), owner
        if isinstance(child, (ast.stmt, ast.expr)):
            first = child.lineno
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                if child.decorator_list:
                    first = child.decorator_list[0].lineno
            last = child.end_lineno
            if not (first <= code.co_firstlineno and (last is None or code.co_firstlineno <= last)):
                continue
            if kind is ast.Lambda:
                if code.co_name == "<lambda>" and first == code.co_firstlineno:
                    yield child, owner
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if code.co_name == child.name and first == code.co_firstlineno:
                    yield child, owner
            elif isinstance(child, ast.ClassDef):
                inner = child.name
        yield from nodes(child, code, inner)


assert sys.version_info >= (3, 11)  # co_qualname, co_positions
