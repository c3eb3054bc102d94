"""Programs that were loaded, as parts of one that is being closed: a head on a loaded backbone.

Their functions are added as they are, with the numbers and names that they have in the package.
Parameters and buffers are those of the Modules, so that they train on; the objects with attributes
that programs write come behind the package's own.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from weft.closing import known
from weft.closing.errors import NotExportable
from weft.closing.package import Function, Package

if TYPE_CHECKING:
    from weft.closing.close import Closer


class LoadedEntry:
    """A method of a program that was loaded.

    Attributes:
        program: the Module; `_settle()` gives its package, what is told of its Modules, and its
            tensors, with what all of it is now.
        name: the method's.
    """

    program: Any
    name: str


def numbers_of(closer: Closer, program: Any) -> dict[str, int]:
    """The numbers of a loaded program's entries in the package, to which it is added once.

    Raises:
        NotExportable: it calls ops as an older weft had them.
    """
    if id(program) not in closer.loaded:
        text, told, tensors = program._settle()
        data = json.loads(text)
        _note_ops(closer.package, data["ops"])
        moved = _Moved(closer, tensors)
        for place, one in enumerate(data["objects"]):
            path, names = (told["attributes"] or [(None, ())] * (place + 1))[place]
            holder = object() if path is None else program.get_submodule(path)
            fields = {name: moved.constant(value) for name, value in one["fields"].items()}
            closer.package.objects.append({**one, "fields": fields})
            closer.package.written.append((holder, list(names)))
        for path, names in told["fixed"].items():
            closer.package.read.append((program.get_submodule(path), set(names)))
        made = [Function(**moved.function(one)) for one in data["functions"]]
        closer.package.functions += made
        closer.loaded[id(program)] = {k: moved.first + n for k, n in data["entries"].items()}
    return closer.loaded[id(program)]


def _note_ops(package: Package, ops: dict[str, int]) -> None:
    for name, version in ops.items():
        if version != known.version_of(name):
            raise NotExportable(
                f"a loaded program with {name} as an older weft had it (version {version})",
                "load its state_dict into a Module with its source",
            )
        package.ops[name] = version


class _Moved:
    """What a loaded program's constants are in the package."""

    def __init__(self, closer: Closer, tensors: dict[str, Any]) -> None:
        self.package, self.tensors = closer.package, tensors
        self.first = len(closer.package.functions)
        self.first_object = len(closer.state.written) + len(closer.package.objects)

    def constant(self, value: Any) -> Any:
        """A constant as JSON."""
        if isinstance(value, list):
            return [self.constant(one) for one in value]
        if not isinstance(value, dict):
            return value
        ((kind, inner),) = value.items()
        if kind == "function":
            return {kind: inner + self.first}
        if kind == "object":
            return {kind: inner + self.first_object}
        if kind == "tensor":
            return {kind: self.package.tensor(self.tensors[inner])}
        return value if kind == "record" else {kind: self.constant(inner)}

    def function(self, told: dict[str, Any]) -> dict[str, Any]:
        """A function as JSON."""
        constants = [self.constant(one) for one in told["constants"]]
        defaults = {name: self.constant(one) for name, one in told["defaults"].items()}
        return {**told, "constants": constants, "defaults": defaults}


def dataclass_of(
    name: str,
    qualname: str,
    fields: list[str],
    uncompared: list[str],
    unshown: list[str],
    is_itself: bool,
    is_opaque: bool,
    unhashable: bool,
) -> type:
    """A class for objects of a dataclass that is not here, as results of a program."""
    told: list[Any] = []
    for name_of in fields:
        hidden: dict[str, Any] = {
            "compare": name_of not in uncompared,
            "repr": name_of not in unshown,
        }
        told.append((name_of, Any, dataclasses.field(default=None, **hidden)))
    hashed = not unhashable and not is_itself
    return dataclasses.make_dataclass(
        name, told, namespace={"__qualname__": qualname}, repr=not is_opaque,
        eq=not is_itself, unsafe_hash=hashed,
    )  # fmt: skip


def class_of(name: str, qualname: str) -> type:
    """The same of other objects."""
    return type(name, (), {"__qualname__": qualname})
