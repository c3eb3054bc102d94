"""Statements of a model's Python text, and where the last use of a value is."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

# Names that the text itself uses.
_RESERVED = ("self", "torch", "ops", "math")
_BUILTINS = ("range", "list", "int", "bool", "len", "zip", "min", "max", "abs", "float", "None")


@dataclass(slots=True)
class Statement:
    """One statement: a line, or a head with a body, or several.

    Attributes:
        text: the line; empty if there are parts.
        sets: names that it gives values to and that nothing had set before.
        reads: names that it reads.
        parts: heads, as "if x:", with their bodies.
        keeps: it runs though nobody reads what it sets, as `ys.append(y)`.
    """

    text: str = ""
    sets: tuple[str, ...] = ()
    reads: frozenset[str] = frozenset()
    parts: list[tuple[str, list[Statement]]] = field(default_factory=list)
    keeps: bool = False


class Names:
    """Identifiers of a function, each once, of letters, digits and underscores alone.

    Nothing of a file gets into the text of its functions but through this and `repr` of numbers.
    """

    def __init__(self) -> None:
        self._used = {*_RESERVED, *_BUILTINS}

    def fresh(self, wanted: str, default: str = "value") -> str:
        """A new identifier like `wanted`."""
        base = re.sub(r"[^A-Za-z0-9]+", "_", wanted).strip("_")[:80] or default
        if base[0].isdigit() or keyword.iskeyword(base) or keyword.issoftkeyword(base):
            base = f"{default}_{base}"
        name, k = base, 1
        while name in self._used:
            k += 1
            name = f"{base}_{k}"
        self._used.add(name)
        return name


def _reads(statement: Statement) -> set[str]:
    """All names that a statement, its parts included, reads."""
    found = set(statement.reads)
    for _, body in statement.parts:
        for inner in body:
            found |= _reads(inner)
    return found


def lines(block: list[Statement], wanted: Iterable[str], depth: int = 1) -> Iterator[str]:
    """The lines of a block, without what leads to nothing; values go after their last use.

    Args:
        block: the statements.
        wanted: names that are read after it.
        depth: how far the lines stand in.
    """
    live = set(wanted)
    own = {name for s in block for name in s.sets}
    kept: list[tuple[Statement, set[str], set[str]]] = []
    for s in reversed(block):
        if not (s.keeps or live.intersection(s.sets)):
            continue
        reads = _reads(s)
        over = ((reads & own) | set(s.sets)) - live
        kept.append((s, over, set(live)))
        live |= reads
    for s, over, after in reversed(kept):
        shift = "    " * depth
        gone = sorted(over) if not s.text.startswith(("return", "break")) else []
        for head, body in s.parts:
            yield f"{shift}{head}"
            inner = list(lines(body, after | set(s.sets), depth + 1))
            yield from inner or [f"{shift}    pass"]
        if s.parts:
            if gone:
                yield f"{shift}del {', '.join(gone)}"
        else:
            # a name that nobody reads is set by a line that sets others as well
            yield f"{shift}{s.text}" + (f"; del {', '.join(gone)}" if gone else "")


def shown(value: Any) -> str:
    """Numbers, strings and lists of them as an expression."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return f'float("{value}")'
    return repr(value)
