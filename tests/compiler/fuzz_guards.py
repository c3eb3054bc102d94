"""Random changes to random objects: guards hold exactly where every read would be told again.

    python tests/compiler/fuzz_guards.py --runs 10000 --seed 1

What a read gives is found here a second time, in Python and without guards, with the kind of place
it is found in. Where guards hold, `getattr` itself has to give what it gave, too.
"""

from __future__ import annotations

import argparse
import random
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import weft
from weft import _C, nn
from weft.nn import module_hooks

NAMES = ("a", "b", "c", "f", "forward")
VALUES: list[Any] = [
    *(weft.zeros(i) for i in range(3)),
    *(nn.Parameter(weft.zeros(i)) for i in range(3)),
    *(lambda self, i=i: i for i in range(3)),
    *(classmethod(lambda cls, i=i: i) for i in range(2)),
    *(nn.Identity() for _ in range(2)),
    *("0", 0.0, -0.0, None, True, (1,), [2], property(lambda self: 1)),
]
PLAIN = (object.__getattribute__, types.ModuleType.__getattribute__)
TABLES = ("_parameters", "_modules", "_buffers")
MISSING, NOT_PLAIN = "missing", "not plain"

Undo = Callable[[], object]


def nothing() -> None:
    """What undoes no change."""


class Read(NamedTuple):
    """What was noted: how to ask again, what was told, and the size of the guards with it."""

    again: Callable[[], Any]
    told: Any
    real: Callable[[], Any]
    given: Any
    size: int


class World:
    """Objects, reads that were noted of them, and what undoes the changes made since."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.guards: Any = _C._Guards()
        slots = type("Slots", (), {"__slots__": ("a", "b")})
        base = type("Base", (), {})
        plain = type("Plain", (base,), {"k": 1})
        module = type("Own", (nn.Module,), {})
        self.classes: list[Any] = [slots, base, plain, type("Both", (slots, base), {}), module]
        self.classes.append(type("Below", (module,), {}))
        self.objects: list[Any] = [self.draw.choice(self.classes)() for _ in range(3)]
        self.objects += [self.classes[4](), self.classes[5]()]
        self.modules = [o for o in self.objects if isinstance(o, nn.Module)]
        self.holders = [*self.objects, *self.classes, types.ModuleType("python")]
        self.dicts: list[dict[str, Any]] = [{}, {name: self.value() for name in NAMES}]
        self.lists: list[list[Any]] = [[], []]
        self.cells = [types.CellType(self.value()) for _ in range(2)]
        self.functions = [make_function() for _ in range(2)]
        self.reads: list[Read] = []
        self.undos: list[Undo] = []

    def value(self) -> Any:
        """A large int, each time an object of its own, or one of the shared values."""
        draw = self.draw
        return int("9" * draw.randint(10, 11)) if draw.random() < 0.3 else draw.choice(VALUES)

    def step(self) -> None:
        """Do something at random, and look."""
        kind = self.draw.random()
        if kind < 0.4:
            self.undos.append(self.draw.choice(CHANGES)(self))
        elif kind < 0.7:
            for _ in range(self.draw.randint(0, len(self.undos))):
                self.undos.pop()()
        elif kind < 0.9:
            self.read()
        elif kind < 0.95:
            self.shrink()
        else:
            self.guards.seal()
        self.check()

    def check(self) -> None:
        wrong = [read for read in self.reads if read.again() != read.told]
        for _ in range(2):
            holds = self.guards.hold()
            assert holds == (not wrong), (holds, wrong)
        if holds:
            assert all(read.real() == read.given for read in self.reads)

    # --- reads ----------------------------------------------------------------------------------

    def read(self) -> None:
        """Note something; what is noted already adds nothing."""
        before = self.guards.reads
        noted, again, real = self.draw.choice(READS)(self)
        size = self.guards.reads
        assert noted or size == before
        if size > before:
            self.reads.append(Read(again, again(), real, real(), size))

    def shrink(self) -> None:
        del self.reads[self.draw.randint(0, len(self.reads)) :]
        self.guards.shrink(self.reads[-1].size if self.reads else 0)

    def read_attribute(self) -> Any:
        o, name, g = self.draw.choice(self.holders), self.draw.choice(NAMES), self.guards
        there = g.attribute(o, name)
        if there is not None:
            assert as_bound(there[0]) == asked(o, name)
        noted = there is not None or g.property_of(o, name) is not None or g.lacks(o, name)
        return noted, lambda: told(o, name), lambda: asked(o, name)

    def read_global(self) -> Any:
        d, e, name = *self.dicts, self.draw.choice(NAMES)

        def again() -> Any:
            return shown(d[name]) if name in d else shown(e[name]) if name in e else MISSING

        return self.guards.global_(d, e, name) is not None, again, again

    def read_items(self) -> Any:
        o = self.draw.choice([*self.lists, *self.dicts])

        def again() -> Any:
            if isinstance(o, dict):
                return [(key, shown(value)) for key, value in o.items()]
            return [shown(item) for item in o]

        return self.guards.items(o), again, again

    def read_cell(self) -> Any:
        cell = self.draw.choice(self.cells)

        def again() -> Any:
            return shown(cell.cell_contents)

        return self.guards.cell(cell), again, again

    def read_type(self) -> Any:
        o = self.draw.choice(self.objects)

        def again() -> Any:
            return id(type(o))

        return self.guards.type_of(o), again, again

    def read_function(self) -> Any:
        f = self.draw.choice(self.functions)

        def again() -> Any:
            named = f.__kwdefaults__
            items = [(key, shown(value)) for key, value in named.items()]
            return id(f.__code__), id(f.__defaults__), id(named), items

        return self.guards.function(f), again, again

    def read_call(self) -> Any:
        if not self.modules:
            return False, nothing, nothing
        m = self.draw.choice(self.modules)

        def again() -> Any:
            tables = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
            if in_classes(type(m), "__call__") is not nn.Module.__call__:
                return NOT_PLAIN, 0
            hooked = type(m)._hooked or any(m.__dict__.get(table) for table in tables)
            place, what = told(m, "forward")
            return (NOT_PLAIN, 0) if hooked or place not in ("class", "value") else (place, what)

        return self.guards.module_call(m), again, again

    # --- changes, each of which gives what undoes it --------------------------------------------

    def change_attribute(self) -> Undo:
        o, name = self.draw.choice(self.holders), self.draw.choice(NAMES)
        if isinstance(o, nn.Module):
            tables = [o.__dict__.get(which, o.__dict__) for which in ("", *TABLES)]
            return self.put(self.draw.choice(tables), name)
        before = own(o, name)
        try:
            if self.draw.random() < 0.3:
                delattr(o, name)
            else:
                setattr(o, name, self.value())
        except AttributeError:
            return nothing
        return lambda: delattr(o, name) if before is MISSING else setattr(o, name, before)

    def put(self, table: dict[str, Any], name: str) -> Undo:
        before = dict(table)
        if self.draw.random() < 0.3:
            table.pop(name, None)
        else:
            table[name] = self.value()

        def undo() -> None:
            table.clear()
            table.update(before)

        return undo

    def change_dict(self) -> Undo:
        return self.put(self.draw.choice(self.dicts), self.draw.choice(NAMES))

    def change_list(self) -> Undo:
        items, kind = self.draw.choice(self.lists), self.draw.randrange(4)
        before = list(items)
        if kind == 0 and items:
            items[self.draw.randrange(len(items))] = self.value()
        elif kind == 1 and items:
            items.pop()
        elif kind == 2:
            items.reverse()
        else:
            items.extend(self.value() for _ in range(self.draw.choice((1, 2, 40))))

        def undo() -> None:
            items[:] = before

        return undo

    def change_cell(self) -> Undo:
        cell = self.draw.choice(self.cells)
        before, cell.cell_contents = cell.cell_contents, self.value()
        return lambda: setattr(cell, "cell_contents", before)

    def change_function(self) -> Undo:
        f = self.draw.choice(self.functions)
        if self.draw.random() < 0.4:
            return self.put(f.__kwdefaults__, "b")
        other = make_function()
        name = self.draw.choice(("__code__", "__defaults__", "__kwdefaults__"))
        before = getattr(f, name)
        setattr(f, name, getattr(other, name))
        return lambda: setattr(f, name, before)

    def change_class_of(self) -> Undo:
        o = self.draw.choice(self.objects)
        before = type(o)
        try:
            o.__class__ = self.draw.choice(self.classes)
        except TypeError:
            return nothing
        return lambda: setattr(o, "__class__", before)

    def change_look_up(self) -> Undo:
        cls = self.draw.choice(self.classes)
        ways: dict[str, Any] = {
            "__getattribute__": lambda self, name: object.__getattribute__(self, name),
            "__getattr__": lambda self, name: 1,
            "__call__": lambda self: 1,
        }
        name = self.draw.choice(list(ways))
        if name in cls.__dict__:
            return nothing
        setattr(cls, name, ways[name])
        return lambda: delattr(cls, name)

    def change_bases(self) -> Undo:
        cls = self.draw.choice(self.classes)
        before = cls.__bases__
        try:
            cls.__bases__ = (type("Extra", (), {self.draw.choice(NAMES): self.value()}), *before)
        except TypeError:
            return nothing
        return lambda: setattr(cls, "__bases__", before)

    def change_dictionary(self) -> Undo:
        o = self.draw.choice(self.objects)
        if type(o).__dictoffset__ == 0:
            return nothing
        before = o.__dict__
        o.__dict__ = dict(before)
        return lambda: setattr(o, "__dict__", before)

    def change_hooks(self) -> Undo:
        m = self.draw.choice(self.objects)
        if self.draw.random() < 0.2:
            return module_hooks.register_module_forward_hook(print).remove
        return m.register_forward_hook(print).remove if isinstance(m, nn.Module) else nothing


READS = [World.read_attribute] * 6 + [
    *(World.read_global, World.read_items, World.read_cell, World.read_type),
    *(World.read_function, World.read_call, World.read_call),
]
CHANGES = [World.change_attribute] * 6 + [
    *(World.change_dict, World.change_list, World.change_cell, World.change_function),
    *(World.change_class_of, World.change_look_up, World.change_bases),
    *(World.change_dictionary, World.change_hooks),
]


def make_function() -> Any:
    """A function with a code object, defaults and a dictionary of its own."""

    def f(a: Any = None, *, b: Any = None) -> None:
        """Do nothing."""

    made = types.FunctionType(f.__code__.replace(co_name="g"), {}, "g", (object(),))
    made.__kwdefaults__ = {"b": 1}
    return made


def shown(value: Any) -> Any:
    """What guards compare of a value."""
    if type(value) in (int, str, bool, type(None)):
        return type(value), value
    return (float, value.hex()) if type(value) is float else id(value)


def as_bound(value: Any) -> Any:
    """The same of a value that an attribute gave: methods are bound anew each time."""
    if isinstance(value, types.MethodType):
        return id(value.__func__), id(value.__self__)
    return shown(value)


def asked(o: Any, name: str) -> Any:
    try:
        return as_bound(getattr(o, name))
    except AttributeError:
        return MISSING


def in_classes(cls: Any, name: str) -> Any:
    return next((c.__dict__[name] for c in cls.__mro__ if name in c.__dict__), MISSING)


def in_slot(slot: Any, o: Any) -> Any:
    try:
        return slot.__get__(o)
    except AttributeError:
        return MISSING


def dict_of(o: Any) -> Any:
    found = getattr(o, "__dict__", {})
    return {} if found == 1 else found  # of `__getattr__`


def own(o: Any, name: str) -> Any:
    """What an object has itself under a name."""
    found = in_classes(type(o), name)
    if isinstance(found, types.MemberDescriptorType):
        return in_slot(found, o)
    return dict_of(o).get(name, MISSING)


def told(o: Any, name: str) -> tuple[str, Any]:
    """In which kind of place an attribute is found, and what."""
    if isinstance(o, type):
        found = in_classes(o, name)
        return (MISSING, 0) if found is MISSING else ("class", shown(found))
    cls = type(o)
    found = in_classes(cls, name)
    if in_classes(cls, "__getattribute__") not in PLAIN:
        return NOT_PLAIN, 0
    if isinstance(found, property):
        return "property", id(found)
    mine = own(o, name)
    if mine is not MISSING:
        return "value", shown(mine)
    if found is not MISSING and not isinstance(found, types.MemberDescriptorType):
        return "class", shown(found)
    way = in_classes(cls, "__getattr__")
    if way is nn.Module.__getattr__:
        tables = (o.__dict__.get(which, {}) for which in TABLES)
        mine = next((table[name] for table in tables if name in table), MISSING)
        return (MISSING, 0) if mine is MISSING else ("value", shown(mine))
    return (MISSING if way is MISSING else NOT_PLAIN), 0


def run(seed: int, steps: int = 60) -> None:
    world = World(seed)
    try:
        for _ in range(8):
            world.read()
        for _ in range(steps):
            world.step()
    finally:  # hooks of all modules would outlive it
        while world.undos:
            world.undos.pop()()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=10000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    for seed in range(given.seed, given.seed + given.runs):
        try:
            run(seed)
        except Exception as error:
            raise SystemExit(f"seed {seed}: {type(error).__name__}: {error}") from error
    print(f"{given.runs} runs")


if __name__ == "__main__":
    main()
