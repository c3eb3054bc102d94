"""Schemas of operators, as text and taken apart: `ns::name.overload(Tensor x, int n=2) -> Tensor`.

The language is that of PyTorch's native functions
(https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md), its objects are those
that `torch.ops.aten.add.Tensor._schema` has.

>>> s = parse_schema("my::scale(Tensor x, *, float by=0.5) -> Tensor")
>>> s.name, [(a.name, str(a.type), a.kwarg_only) for a in s.arguments]
('my::scale', [('x', 'Tensor', False), ('by', 'float', True)])
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["AliasInfo", "Argument", "FunctionSchema", "Type", "parse_schema", "types_of_schemas"]

#: The words for types, with what PyTorch calls them once read.
_WORDS = {
    "Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool",
    "str": "str", "Scalar": "number", "ScalarType": "int", "Layout": "int", "Device": "Device",
    "MemoryFormat": "int", "Generator": "Generator", "Storage": "Storage", "Dimname": "str",
    "QScheme": "QScheme", "SymBool": "bool", "complex": "complex", "Any": "Any", "Stream": "Stream",
}  # fmt: skip


def types_of_schemas() -> tuple[str, ...]:
    """The words for types that a schema may have, before `[]` and `?`."""
    return tuple(_WORDS)


@dataclass(frozen=True, repr=False)
class Type:
    """A type: a word, or a list or an Optional of an `item`."""

    word: str
    item: Type | None = None

    def __str__(self) -> str:
        if self.item is not None:
            return f"{self.word}[{self.item}]"
        return _WORDS[self.word]

    __repr__ = __str__

    def base(self) -> str:
        """The word inside of all lists and Optionals."""
        return self.word if self.item is None else self.item.base()

    def has_list(self) -> bool:
        """Whether a list is in it."""
        return self.word == "List" or (self.item is not None and self.item.has_list())


@dataclass(frozen=True)
class AliasInfo:
    """`(a!)`: the sets of memory that a value is in, and whether the operator writes it."""

    before_set: frozenset[str]
    is_write: bool


@dataclass(frozen=True)
class Argument:
    """An argument or a result of a schema."""

    name: str
    type: Type
    text: str  #: as it was written, without its default
    default_value: Any = None
    has_default: bool = False
    kwarg_only: bool = False
    alias_info: AliasInfo | None = None
    N: int | None = None  #: the length of `int[2]`
    default_text: str = ""

    def has_default_value(self) -> bool:
        """Whether a call may leave it out."""
        return self.has_default

    @property
    def is_out(self) -> bool:
        """Whether it is given only to be written."""
        return self.kwarg_only and self.is_write

    @property
    def is_write(self) -> bool:
        """Whether the operator writes it."""
        return self.alias_info is not None and self.alias_info.is_write

    def __str__(self) -> str:
        written = f"{self.text} {self.name}".rstrip()
        return f"{written}={self.default_text}" if self.has_default else written


@dataclass(frozen=True)
class FunctionSchema:
    """An operator's name, arguments and results.

    Attributes:
        name: with its namespace, `my::scale`.
        overload_name: what follows the dot, or "".
        arguments, returns: in order.
    """

    name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]

    @property
    def is_mutable(self) -> bool:
        """Whether a call writes one of its arguments."""
        return any(a.is_write for a in self.arguments)

    def __str__(self) -> str:
        positional = [str(a) for a in self.arguments if not a.kwarg_only]
        keyword = [str(a) for a in self.arguments if a.kwarg_only]
        listed = ", ".join([*positional, *(["*", *keyword] if keyword else [])])
        made = ", ".join(str(r) for r in self.returns)
        alone = len(self.returns) == 1 and not self.returns[0].name
        name = self.name + (f".{self.overload_name}" if self.overload_name else "")
        return f"{name}({listed}) -> {made if alone else f'({made})'}"

    __repr__ = __str__


def _default_text(value: Any, kind: Type) -> str:
    if isinstance(value, str) and kind.base() == "str":
        return f'"{value}"'
    if isinstance(value, float):
        text = f"{value:.17g}"
        return text if re.search(r"[.en]", text) else text + "."
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


_TYPE = re.compile(r"(\w+)(\([^)]*\))?((?:\[\d*\](?:\([^)]*\))?|\?)*)")


def _bad(text: str, what: str) -> RuntimeError:
    return RuntimeError(
        f"[schema] expected {what}, got {text!r}. Hint: a schema reads "
        "'name(Tensor x, int n=2, *, float? eps=None) -> Tensor'"
    )


def _type(text: str) -> tuple[Type, AliasInfo | None, int | None]:
    match = _TYPE.fullmatch(text)
    if match is None or match[1] not in _WORDS:
        raise _bad(text, f"a type among {', '.join(_WORDS)}, then [] or ? (unknown type specifier)")
    kind, alias, size = Type(match[1]), match[2], None
    for mark in re.findall(r"\[\d*\]|\?", match[3]):
        kind = Type("Optional" if mark == "?" else "List", kind)
        if mark[1:-1]:
            size = int(mark[1:-1])
    found = alias or next(iter(re.findall(r"\([^)]*\)", match[3])), None)
    if found is None:
        return kind, None, size
    sets = found[1:-1].partition("->")[0].strip()
    names = frozenset(n.strip() for n in sets.rstrip("!").split("|"))
    return kind, AliasInfo(names, sets.endswith("!")), size


def _split(text: str) -> list[str]:
    """What lies between the commas that are in no bracket and no quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for k, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def _default(text: str, kind: Type) -> Any:
    """The value of a default: a number, a word in quotes, a list, a constant by its name."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        listed = re.fullmatch(r"\[(.*)\]", text)
        return text if listed is None else [_default(t, kind) for t in _split(listed[1])]
    if kind.base() == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _argument(text: str, keyword: bool) -> Argument:
    declared, equals, default = text.partition("=")
    match = re.fullmatch(r"(.*\S)\s+(\w+)", declared.strip())
    if match is None:
        raise _bad(text, "a type and a name for each argument")
    kind, alias, size = _type(match[1].strip())
    value = _default(default.strip(), kind) if equals else None
    shown = _default_text(value, kind)
    if size is not None and isinstance(value, (int, float)):
        value = [value] * size
    text = re.sub(r"\s+", " ", match[1])
    return Argument(match[2], kind, text, value, bool(equals), keyword, alias, size, shown)


def _arguments(text: str) -> tuple[Argument, ...]:
    found: list[Argument] = []
    keyword = False
    for part in _split(text):
        if part == "*":
            keyword = True
            continue
        found.append(_argument(part, keyword))
    names = [a.name for a in found]
    if len(set(names)) < len(names):
        raise _bad(text, "arguments of different names")
    return tuple(found)


def _result(text: str) -> Argument:
    match = re.fullmatch(r"(\S+)(?:\s+(\w+))?", text.replace(" -> ", "->"))
    if match is None:
        raise _bad(text, "a type for each result")
    kind, alias, size = _type(match[1])
    return Argument(match[2] or "", kind, match[1].replace("->", " -> "), alias_info=alias, N=size)


def _closing(text: str) -> int:
    """Where the bracket that is the first to open closes."""
    depth = 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and c == ")":
            return k
    raise _bad(text, "a bracket that closes")


def parse_schema(text: str) -> FunctionSchema:
    """A schema of its text.

    Raises:
        RuntimeError: it is none, or names a type that there is not.
    """
    match = re.match(r"\s*([\w:]+)(?:\.(\w+))?\s*(?=\()", text)
    if match is None:
        raise _bad(text, "a name and arguments in brackets")
    rest = text[match.end() :]
    end = _closing(rest)
    arrow = re.fullmatch(r"\s*->\s*(.*\S)\s*", rest[end + 1 :], re.DOTALL)
    if arrow is None:
        raise _bad(text, "results behind an arrow")
    made = arrow[1]
    several = made.startswith("(") and _closing(made) == len(made) - 1
    returns = tuple(map(_result, _split(made[1:-1] if several else made)))
    return FunctionSchema(match[1], match[2] or "", _arguments(rest[1:end]), returns)
