"""Closing: from functions of Python and what they refer to, to a package that needs no Python.

The front end's instructions leave to Python what names, attributes and calls mean. Here a function
is gone through once for each way in which it is called, as partial evaluation does (Jones, Gomard,
Sestoft 1993): what is known now (`Static`: Modules, functions, classes, flags, numbers) is worked
out, and what only a run knows (`Dynamic`) is written down. Modules are so resolved to their
parameters, methods to functions, loops over ModuleLists to their turns; branches and loops over
values stay what they are, and so does recursion.

- `values`: what is known of a value
- `walk`: one function; the instructions by kind are in `frame`, `displays`, `attributes`, `making`,
  `calls`, `records`, `specials` and `branches`, each a class on the one before
- `classes`: which classes of the user's are records
- `known`: which functions of Python's and of weft's a program has
- `library`, `ordering`, `deques`: functions of Python's library in what programs can say
- `write`, `package`: the result
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from types import CodeType, FunctionType
from typing import Any

import weft
from weft.closing.classes import (
    UNSAID,
    compared_fields,
    fields_of,
    hashes_otherwise,
    is_result,
    method_of_class,
    shown_fields,
    told_of,
    why_refused,
)
from weft.closing.errors import NotExportable
from weft.closing.lowering import lower
from weft.closing.package import NotAValue, Package
from weft.closing.values import Abstract, Closure, Dynamic, Items, Lost, Pack, Ref, Static
from weft.frontend.ir import Lowered
from weft.nn.module_hooks import HOOK_TABLES

if typing.TYPE_CHECKING:
    from weft.closing.walk import Walk

_NUMBERS = (int, float)


class Target:
    """A function in instructions, and what it was made with.

    Attributes:
        lowered: its instructions.
        module: the variables of its module.
        free: what the variables hold that it reads of functions around it.
        defaults: of its parameters.
    """

    def __init__(
        self,
        lowered: Lowered,
        module: dict[str, Any],
        free: dict[str, Abstract],
        defaults: dict[str, Abstract],
    ) -> None:
        self.lowered, self.module, self.free, self.defaults = lowered, module, free, defaults

    @property
    def code(self) -> CodeType:
        """Its code object."""
        assert self.lowered.code is not None
        return self.lowered.code


class Made:
    """A function of the package that is being written, or has been.

    Attributes:
        number: its number.
        result: what it gives, if that is known.
        changes_arguments: whether dicts that it is given may be others afterwards.
        lazy: variables of its callers that iterators read which it may return.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.result: Abstract | None = None
        self.changes_arguments = True
        self.lazy: set[str] = set()


class Again(Exception):
    """An attribute turned out to be one that the program writes: closing begins anew."""


class State:
    """What stays from one go at a package to the next: functions that have been read, and
    attributes that programs write, which live in objects of the package.

    Attributes:
        keeps_training: whether programs may be set to training.
    """

    def __init__(self, keeps_training: bool) -> None:
        self.keeps_training = keeps_training
        self.written: dict[int, tuple[Any, list[str]]] = {}
        self.read: dict[int, tuple[weft.nn.Module, set[str]]] = {}
        self.records: dict[str, type] = {}
        self._cached: dict[tuple[int, str], tuple[Any, Any]] = {}
        self._asked: set[str] = set()
        self._bases: set[type] = set()
        self._equates = self._shows = False
        self._set: set[str] = set()
        self._settled: set[type] = set()
        self._lowered: dict[CodeType, Lowered] = {}

    def target(self, function: FunctionType) -> Target:
        """A function in instructions.

        Raises:
            Outside: it is not in the subset.
        """
        code = function.__code__
        if (lowered := self._lowered.get(code)) is None:
            lowered = self._lowered[code] = lower(code, function.__globals__)
        free: dict[str, Abstract] = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            with contextlib.suppress(ValueError):  # nothing is in it yet
                free[name] = Static(cell.cell_contents)
        values = function.__defaults__ or ()
        last = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
        named = {**dict(zip(last, values)), **(function.__kwdefaults__ or {})}
        defaults: dict[str, Abstract] = {name: Static(value) for name, value in named.items()}
        return Target(lowered, function.__globals__, free, defaults)

    def record(self, kind: type) -> Ref:
        """A class of the user's, whose objects are records.

        Raises:
            Again: methods were looked up that it has.
        """
        name = f"torch.return_types.{kind.__name__}" if is_result(kind) else kind.__name__
        if self.records.setdefault(name, kind) is not kind:
            raise NotExportable(f"two classes of the name {name}")
        if kind not in self._settled:
            self._settled.add(kind)
            told_late = any(method_of_class(kind, name) for name in self._asked)
            told_late |= self._equates and any(kind is k for k, _ in self.equalities())
            told_late |= self._shows and any(kind is k for k in self.that_show())
            told_late |= any(kind is not base and issubclass(kind, base) for base in self._bases)
            if told_late or any(why_refused(kind, name) for name in self._set):
                raise Again
        if why := hashes_otherwise(kind):
            raise NotExportable(f"an object of {kind.__name__}, {why}")
        return Ref("record", {"class": name, "fields": fields_of(kind), **told_of(kind)})

    def kinds_of(self, base: type) -> list[type]:
        """The classes of records that are of a class."""
        self._bases.add(base)
        return [kind for kind in self.records.values() if issubclass(kind, base)]

    def with_method(self, name: str) -> list[tuple[type, Any]]:
        """The classes of records that have a function of that name, and the function."""
        self._asked.add(name)
        found = [(kind, method_of_class(kind, name)) for kind in self.records.values()]
        return [(kind, f) for kind, f in found if f is not None]

    def equalities(self) -> list[tuple[type, list[str] | None]]:
        """The classes of records whose objects say themselves what they are equal to, and the
        dataclasses beside them, which compare fields (`compared_fields`); none where no class
        has an `__eq__` of the user's."""
        self._equates = True
        kinds = list(self.records.values())
        if not any(method_of_class(k, "__eq__") for k in kinds):
            return []
        found = [(kind, compared_fields(kind)) for kind in kinds]
        return [(kind, names) for kind, names in found if names is not UNSAID]

    def that_show(self) -> list[type]:
        """The dataclasses and named tuples whose objects show their fields, by no method of the
        user's."""
        self._shows = True
        kinds = self.records.values()
        return [
            k for k in kinds if not method_of_class(k, "__repr__") and shown_fields(k) is not None
        ]

    def that_refuse(self, name: str) -> list[tuple[type, str]]:
        """The classes of records whose objects refuse that an attribute is set, and why."""
        self._set.add(name)
        told = [(kind, why_refused(kind, name)) for kind in self.records.values()]
        return [(kind, why) for kind, why in told if why is not None]

    def looks_up(self, holder: Any, *names: str) -> None:
        """Notes that what a Module has under a name, or that it has nothing, is worked out now; no
        names: all that there is."""
        if isinstance(holder, weft.nn.Module):
            read = self.read.setdefault(id(holder), (holder, set()))[1]
            read.update(names or vars(holder))
            if any(name.startswith("__") for name in names):  # __dict__
                read.update(vars(holder))

    def find(self, holder: Any, name: str) -> int | None:
        """The number of the object that has an attribute; None if no program writes it."""
        if name not in self.written.get(id(holder), (None, ()))[1]:
            return None
        return list(self.written).index(id(holder))

    def changes(self, holder: Any, name: str) -> int:
        """The same of one that is written.

        Raises:
            Again: that was not known.
        """
        place = self.find(holder, name)
        if place is None:
            self.written.setdefault(id(holder), (holder, []))[1].append(name)
            raise Again
        return place

    def cached(self, holder: Any, name: str, function: FunctionType) -> Any:
        """What a `cached_property` gives, as long as it reads nothing that programs write; the
        object does not keep it.

        Raises:
            NotExportable: it does.
        """
        read = names_in(type(holder), function.__code__)
        for _, names in self.written.values():
            if found := read.intersection(names):
                raise NotExportable(
                    f"the cached_property {name}, which reads {min(found)}, which the program sets",
                    "make it a property, or set it in __init__",
                )
        if (id(holder), name) not in self._cached:
            self._cached[(id(holder), name)] = holder, function(holder)
        return self._cached[(id(holder), name)][1]

    def objects(self, package: Package) -> list[dict[str, Any]]:
        """The objects, as constants of a package."""
        out = []
        for holder, names in self.written.values():
            fields = {}
            for name in names:
                if not hasattr(holder, name):
                    continue  # the program is the first to write it
                try:
                    fields[name] = package.constant(getattr(holder, name))
                except NotAValue as error:
                    what = (
                        f"{type(holder).__name__}.{name}, which the program writes and is {error}"
                    )
                    raise NotExportable(what) from None
            out.append({"class": type(holder).__name__, "fields": fields})
        return out


def names_in(kind: type, code: CodeType) -> set[str]:
    """The names of attributes that a method may read, and methods of the same class by it."""
    found: set[str] = set()
    left = [code]
    while left:
        code = left.pop()
        left += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        for name in {*code.co_names} - found:
            found.add(name)
            inner = inspect.getattr_static(kind, name, None)
            inner = inner.fget if isinstance(inner, property) else getattr(inner, "func", inner)
            if isinstance(inner, FunctionType):
                left.append(inner.__code__)
    return found


def expect_no_hooks(module: Any) -> None:
    """Raises for a Module that calls more than its `forward`."""
    for name in HOOK_TABLES:
        if module.__dict__.get(name):
            raise NotExportable(f"a Module with hooks ({type(module).__name__})", "remove them")


class Closer:
    """Makes a package; each entry adds what it reaches."""

    def __init__(self, package: Package, state: State) -> None:
        self.package, self.state = package, state
        self.made: dict[Any, Made] = {}
        self.loaded: dict[int, dict[str, int]] = {}  # entries of programs that were loaded
        self._alive: list[Any] = []  # what keys are identities of
        self._under_way: dict[Any, set[Any]] = {}

    def function(self, target: Target, arguments: list[Abstract]) -> tuple[Made, list[Abstract]]:
        """The function for a call with these arguments, in the order of the parameters, and what is
        passed when it runs.

        Numbers that are known are part of what a function is made for, but for those in which a
        call differs from one of the same function that is still being gone through: recursion over
        numbers ends so.
        """
        patterns = [self.pattern(a) for a in arguments]
        free = tuple((name, self.pattern(a)) for name, a in target.free.items())
        base = (id(target.lowered), id(target.module), free, *map(without_numbers, patterns))
        numbers = tuple(patterns)
        general = any(other != numbers for other in self._under_way.get(base, ()))
        passed: list[Abstract] = []
        for k, value in enumerate(arguments):
            if general and is_number(value):
                passed.append(value)
                arguments[k] = Dynamic(-1)
            else:
                passed += dynamic_parts(value)
        passed += [part for value in target.free.values() for part in dynamic_parts(value)]
        patterns = [self.pattern(a) for a in arguments]
        key = (id(target.lowered), id(target.module), free, *patterns)
        if key not in self.made:
            self._alive.append(target)
            self._alive.append(arguments)
            self.write(key, base, tuple(patterns), target, arguments)
        return self.made[key], passed

    def write(
        self, key: Any, base: Any, patterns: Any, target: Target, arguments: list[Abstract]
    ) -> None:
        """Goes through a function that is not there yet."""
        number, walk = self.new(target)
        made = self.made[key] = Made(number)
        under_way = self._under_way.setdefault(base, set())
        under_way.add(patterns)
        try:
            self.package.functions[number] = walk.run(arguments)
            made.result = walk.result()
            made.changes_arguments = walk.changes_arguments()
            made.lazy = walk.returned_lazy
        finally:
            under_way.discard(patterns)

    def entry(self, name: str, target: Target, fixed: list[Abstract], modes: list[Ref]) -> None:
        """Adds an entry: a function of which the first parameters are known; others are passed."""
        number, walk = self.new(target)
        self.package.functions[number] = walk.run_entry(fixed, modes)
        self.package.entries[name] = number

    def open_function(
        self, target: Target, fixed: list[Abstract], modes: list[Ref], by_name: bool
    ) -> int:
        """The number of a function that binds its arguments when the program runs, as entries do,
        behind the first ones, which are known; whether some may come by name."""
        free = tuple((name, self.pattern(a)) for name, a in target.free.items())
        given = by_name, *map(self.pattern, fixed)
        key = ("open", id(target.lowered), id(target.module), free, *given)
        if key not in self.made:
            self._alive += [target, fixed]
            number, walk = self.new(target)
            self.made[key] = Made(number)
            self.package.functions[number] = walk.run_entry(fixed, modes, by_name)
        return self.made[key].number

    def new(self, target: Target) -> tuple[int, Walk]:
        """The number of a function that is about to be gone through, and what goes."""
        from weft.closing.walk import Walk

        self.package.functions.append(None)  # type: ignore[arg-type]
        return len(self.package.functions) - 1, Walk(self, target)

    def pattern(self, value: Abstract) -> Any:
        """What of an argument a function is made for."""
        if isinstance(value, Static):
            return constant_key(value.value)
        if isinstance(value, Dynamic):
            return "dynamic", value.kind
        if isinstance(value, (Pack, Items)):
            keys = tuple(value.keys) if isinstance(value, Items) else ()
            return type(value), keys, tuple(map(self.pattern, value.items))
        if isinstance(value, Closure):
            captured = tuple((n, self.pattern(v)) for n, v in captured_by(value))
            return "closure", id(value.lowered), captured
        raise NotExportable(
            value.what if isinstance(value, Lost) else "a value that is no argument"
        )


def captured_by(closure: Closure) -> list[tuple[str, Abstract]]:
    """What a closure brings along, itself left out."""
    parts = [(n, v) for n, v in closure.captured.items() if v is not closure]
    parts += [("", v) for v in closure.defaults]
    return parts + list(closure.words.items())


def is_number(value: Abstract) -> bool:
    """Whether it is a number that is known."""
    return isinstance(value, Static) and type(value.value) in _NUMBERS


def without_numbers(pattern: Any) -> Any:
    """A pattern in which known numbers are unknown."""
    return ("dynamic", "") if isinstance(pattern, tuple) and pattern[0] in _NUMBERS else pattern


def constant_key(value: Any) -> Any:
    """Equal for the same constants: by type and value where they are plain, else by identity."""
    kind = type(value)
    if kind in (int, bool, str, type(None)):
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)
    if kind is tuple:
        return kind, tuple(map(constant_key, value))
    return "identity", id(value)


def dynamic_parts(value: Abstract) -> list[Dynamic]:
    """The registers in a value, in order."""
    if isinstance(value, Dynamic):
        return [value]
    if isinstance(value, (Pack, Items)):
        return [part for item in value.items for part in dynamic_parts(item)]
    if isinstance(value, Closure):
        return [part for _, item in captured_by(value) for part in dynamic_parts(item)]
    return []


def inside(value: Abstract, fresh: Any) -> Abstract:
    """The same value within a function whose parameters its registers are; `fresh` makes them."""
    if isinstance(value, Dynamic):
        return Dynamic(fresh(), value.kind)
    if isinstance(value, Pack):
        return Pack(tuple(inside(item, fresh) for item in value.items))
    if isinstance(value, Items):
        return Items(value.kind, [inside(item, fresh) for item in value.items], list(value.keys))
    if isinstance(value, Closure):
        captured: dict[str, Abstract] = {}
        defaults = value.defaults
        made = Closure(value.lowered, captured, value.module, defaults, value.words)
        for name, item in value.captured.items():
            captured[name] = made if item is value else inside(item, fresh)
        if any(map(dynamic_parts, [*value.defaults, *value.words.values()])):
            raise NotExportable(
                "a default value of an inner function that only a run knows",
                "pass the value as an argument",
            )
        return made
    return value
