"""The longest files and functions of src/ and weft/: a report, no limit.

A file of about 500 lines wants to be two, a function of about 40 wants a helper (CONTRIBUTING.md).
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ("src", "weft")
# The lines of clang-format: a head starts a line, its body ends with a brace under that.
STATEMENT = re.compile(r" *(if|for|while|switch|return|else|do|try|catch|namespace|struct|class"
                       r"|enum|union|extern|case|default|auto)\b")  # fmt: skip


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, line, lines) of each function, without its docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = node.body[0] if ast.get_docstring(node) else None
            told = 0 if doc is None else (doc.end_lineno or 0) - doc.lineno + 1
            yield node.name, node.lineno, (node.end_lineno or 0) - node.lineno + 1 - told


def cpp_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, line, lines) of each function that is not inside of another."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        indent = len(line) - len(line.lstrip())
        comment = line.lstrip().startswith(("//", "#"))
        named = None if comment else re.search(r"([\w:~]+)\(", line)
        if indent in (0, 4) and named and "[" not in line and not STATEMENT.match(line):
            head = at  # which may go on in deeper lines
            while not lines[head].endswith(("{", ";", "}")) and head + 1 < len(lines):
                head += 1
            close = " " * indent + "}"
            if lines[head].endswith("{") and close in lines[head:]:
                end = lines.index(close, head)
                yield named[1], at + 1, end - at + 1
                at = end
        at += 1


def longest(count: int) -> list[list[str]]:
    """The lines of the report: files, then functions."""
    files, functions = [], []
    for path in (p for folder in CODE for p in sorted((ROOT / folder).rglob("*"))):
        if path.suffix not in (".py", ".cpp", ".h"):
            continue
        text, name = path.read_text(), path.relative_to(ROOT)
        files.append((text.count("\n"), str(name)))
        found = python_functions(text) if path.suffix == ".py" else cpp_functions(text)
        functions += [(lines, f"{name}:{line} {function}") for function, line, lines in found]
    return [
        [f"{lines:5} {what}" for lines, what in sorted(part, reverse=True)[:count]]
        for part in (files, functions)
    ]


def main() -> None:
    """Print the report; the argument says how many of each, ten by default."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for title, lines in zip(("files", "functions"), longest(count)):
        print(f"longest {title}:", *lines, sep="\n")


if __name__ == "__main__":
    main()
