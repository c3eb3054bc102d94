"""A program without Python, as files have it: functions, their constants, tensors by name.

The JSON of a package is what `src/native/package.h` reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import weft
from weft import Tensor
from weft.base.subclasses import lends_memory
from weft.closing import known
from weft.closing.errors import NotExportable
from weft.closing.values import Ref

FORMAT = 1


_OF_ITEMS: dict[type, str] = {
    tuple: "tuple", list: "list", weft.Size: "size", set: "set", frozenset: "frozenset",
}  # fmt: skip


class NotAValue(Exception):
    """A constant that no program can hold: a Module, a function of Python's."""


@dataclass(slots=True)
class Function:
    """One function of a package."""

    name: str
    file: str
    text: str
    constants: list[Any]
    names: list[Any]
    params: list[str]
    defaults: dict[str, Any]
    keyword_only: int
    lines: list[tuple[int, int]]

    def as_json(self) -> dict[str, Any]:
        """As it stands in the JSON of a package."""
        return {name: getattr(self, name) for name in Function.__slots__}


@dataclass(slots=True)
class Package:
    """Functions that call each other, and what they refer to.

    Attributes:
        functions: by number.
        entries: which of them may be called from outside, by name.
        tensors: what constants refer to, by name.
        objects: what keeps attributes that programs write: class and fields.
        ops: the ops that are called, with the version of their schema.
        written: of each of these objects what it stands for, and the names of the attributes.
        read: the names that were looked up of each Module: what they gave is in the functions.
    """

    functions: list[Function] = field(default_factory=list)
    entries: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    objects: list[dict[str, Any]] = field(default_factory=list)
    ops: dict[str, int] = field(default_factory=dict)
    written: list[tuple[Any, list[str]]] = field(default_factory=list)
    read: list[tuple[weft.nn.Module, set[str]]] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The package without its tensors."""
        return json.dumps(
            {
                "weft": FORMAT,
                "ops": dict(sorted(self.ops.items())),
                "functions": [f.as_json() for f in self.functions],
                "entries": self.entries,
                "objects": self.objects,
                "tensors": list(self.tensors),
            },
            separators=(",", ":"),
        )

    def name_tensor(self, tensor: Tensor, name: str) -> None:
        """Gives a tensor its name; one that has one keeps it.

        Raises:
            NotExportable: its memory is not all that it is.
        """
        if not lends_memory(tensor):
            raise NotExportable(
                f"the tensor {name!r} of {type(tensor).__name__}, which is no dense one",
                "make a buffer of each dense tensor that it consists of, as values()",
            )
        if id(tensor) not in self._names:
            self._names[id(tensor)] = name
            self.tensors[name] = tensor

    def has_name(self, tensor: Tensor) -> bool:
        """Whether it is a parameter or buffer, or what the program refers to already."""
        return id(tensor) in self._names

    def tensor(self, tensor: Tensor) -> str:
        """The name of a tensor."""
        if id(tensor) not in self._names:
            number = sum(name.startswith("constant.") for name in self.tensors)
            while f"constant.{number}" in self.tensors:
                number += 1
            self.name_tensor(tensor, f"constant.{number}")
        return self._names[id(tensor)]

    def calls(self, op: str) -> None:
        """Notes that an op is called, or a method of tensors that is one.

        Raises:
            NotExportable: one of weft's own, whose arguments nobody checks.
        """
        version = known.version_of(op)
        if version is None:
            raise NotExportable(f"a call of {op}, an op that only weft itself calls")
        self.ops[op] = version

    def constant(self, value: Any) -> Any:
        """A constant as JSON.

        Raises:
            NotAValue: programs have no such values.
        """
        value = known.as_constant(value)
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            if not -(2**63) <= value < 2**63:
                raise NotAValue("an int of more than 64 bits")
            return value
        if kind is float:
            return {"float": number(value)}
        if kind is complex:
            return {"complex": [number(value.real), number(value.imag)]}
        if kind in _OF_ITEMS:
            return {_OF_ITEMS[kind]: [self.constant(item) for item in value]}
        if kind is dict:
            return {"dict": [[self.constant(k), self.constant(v)] for k, v in value.items()]}
        if kind is slice:
            return {"slice": [self.constant(p) for p in (value.start, value.stop, value.step)]}
        if kind is range:
            return {"range": [value.start, value.stop, value.step]}
        if value is Ellipsis:
            return {"ellipsis": True}
        if isinstance(value, weft.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, Tensor):
            return {"tensor": self.tensor(value)}
        if isinstance(value, Ref):
            if value.kind == "op":
                self.calls(value.name)
            return {value.kind: value.name}
        raise NotAValue(what_it_is(value))


def number(value: float) -> float | str:
    """A number as JSON has it."""
    return value if math.isfinite(value) else str(value)


def value_of(told: Any, tensors: Mapping[str, Tensor]) -> Any:
    """A plain constant as `Package.constant` tells it.

    Raises:
        ValueError: it is none of these.
    """
    if not isinstance(told, dict):
        return told
    ((kind, value),) = told.items()
    match kind:
        case "float":
            return float(value)
        case "complex":
            return complex(*map(float, value))
        case "tuple":
            return tuple(value_of(v, tensors) for v in value)
        case "size":
            return weft.Size(value)
        case "list":
            return [value_of(v, tensors) for v in value]
        case "dict":
            return {value_of(k, tensors): value_of(v, tensors) for k, v in value}
        case "tensor":
            return tensors[value]
    raise ValueError(f"[load] expected a plain value, got {kind!r}")


def what_it_is(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, weft.nn.Module):
        return f"a Module ({type(value).__name__})"
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return f"{name}" if name else f"an object of {type(value).__qualname__}"
