"""Functions of Python's that do something with what is known: `isinstance`, `zip`, `map`."""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any

import weft
from weft import Tensor
from weft.autograd._missing import without_derivative
from weft.base.device import expect_cpu
from weft.closing import known, library, ordering
from weft.closing.classes import fields_of, is_record, method_of_class
from weft.closing.control import while_loop
from weft.closing.errors import NotExportable
from weft.closing.frame import Words, kind_of, plain, with_reads
from weft.closing.iterables import Iterables
from weft.closing.values import (
    Abstract,
    Bound,
    Choice,
    Closure,
    Dynamic,
    Items,
    Pack,
    Ref,
    Static,
    Turn,
    Turns,
)
from weft.composites.dtypes import moved
from weft.frontend.ir import Instr
from weft.nn.transformer import _may_nest


class Specials(Iterables):
    """The part of `Walk` that knows functions of Python's."""

    def special(self, function: Any, args: list[Abstract], words: Words) -> Abstract | None:
        """What a function gives that is known here by itself; None: a run has to call it."""
        name, given = known.builtin_name(function), args
        if isinstance(function, (types.BuiltinFunctionType, type)):
            if (message := miscalled(function, len(args), tuple(words))) is not None:
                return self.raised(TypeError, message)
        if name in ordering.IN_ORDER and plain(words.get("key", Static(0))) is None:
            words = {word: value for word, value in words.items() if word != "key"}
            return self.call(Static(function), args, words)
        if name:
            args = self.items_of(name, args)
            if (made := self.in_records(name, args, words)) is not None:
                return made
        found = _SPECIAL.get(id(function))
        made = found(self, args, words) if found else None
        if made is None and args is not given:
            return self.call_at_run(self.writer.constant(known.as_constant(function)), args, words)
        return made

    def verb_iter(self, instr: Instr) -> None:
        """A generator expression: the list of what it gives, until it has a name."""
        made = self.all_of_iterator(self.read(instr.operands[0]))
        self.env[instr.outs[0]] = with_reads(made, frozenset(instr.attr))

    def special_getattr(self, args: list[Abstract], words: Words) -> Abstract | None:
        if len(args) < 2 or not isinstance(args[1], Static):
            raise NotExportable("getattr() with a name that only a run knows")
        holder, name = args[0], args[1].value
        if isinstance(holder, Static):
            self.closer.state.looks_up(holder.value, name)
        if len(args) < 3 or isinstance(holder, (Closure, Choice)):
            if self.at and self.is_called(self.at.outs[0]) and not isinstance(holder, Static):
                return Bound(self.copied(holder), name)
            return self.attribute(holder, name)
        has = self.special_hasattr(args[:2], {})
        if isinstance(has, Static):
            return self.attribute(holder, name) if has.value else args[2]
        return self.case(
            [name],
            lambda _: self.operand(has),
            lambda _: self.attribute(holder, name),
            lambda: args[2],
        )

    def is_written(self, holder: Static, name: str) -> bool:
        """Whether the program writes an attribute, so that a run knows whether it is there."""
        return self.closer.state.find(holder.value, name) is not None

    def has(self, holder: Abstract, name: Abstract) -> Abstract:
        """What `hasattr` says of an object of the package when the program runs."""
        assert isinstance(holder, Static)
        place = list(self.closer.state.written).index(id(holder.value))
        of = self.writer.constant(Ref("object", place))
        test = self.writer.constant(Ref("builtin", "hasattr"))
        return Dynamic(self.made("call", (test, of, self.operand(name)), ()))

    def special_hasattr(self, args: list[Abstract], words: Words) -> Abstract:
        """What a class of Python's says of its values; of records and objects that are written,
        the run knows."""
        holder, name = args
        if not isinstance(name, Static):
            raise NotExportable("hasattr() with a name that only a run knows")
        if isinstance(holder, Static):
            self.closer.state.looks_up(holder.value, name.value)
            found = hasattr(holder.value, name.value)
            if not found and self.is_written(holder, name.value):
                return self.has(holder, name)
            return Static(found)
        if name.value == "__array_interface__":
            return Static(False)  # no value of a program is an array
        if isinstance(holder, (Pack, Items)):
            return Static(hasattr(tuple if isinstance(holder, Pack) else holder.kind, name.value))
        if kind_of(holder) == "Tensor":
            return Static(hasattr(Tensor, name.value))
        have = [ref for kind, ref in known.TYPES.items() if hasattr(kind, name.value)]
        kinds = tuple(Ref("type", ref) for ref in dict.fromkeys(have))
        if not kinds:
            return self.of_run("hasattr", [holder, name])
        return self.case(
            [kinds],
            lambda _: self.operand(self.of_run("isinstance", [holder, Static(kinds)])),
            lambda _: Static(True),
            lambda: self.of_run("hasattr", [holder, name]),
        )

    def special_isinstance(self, args: list[Abstract], words: Words) -> Abstract | None:
        if len(args) != 2 or not isinstance(kinds := args[1], Static):
            return None
        value = self.unread(args[0])
        if isinstance(value, Static) or not isinstance(kinds.value, tuple):
            one = value.value if isinstance(value, Static) else None
            try:
                found = isinstance(one, kinds.value)
            except TypeError as error:
                return self.raised(TypeError, str(error))
            if isinstance(value, Static):
                return Static(found)
        names = list(kinds_in(kinds.value))
        if object in names:
            return Static(True)
        if isinstance(value, Pack):
            return Static(any(issubclass(tuple, name) for name in names))
        if isinstance(value, Closure):
            return Static(any(issubclass(types.FunctionType, name) for name in names))
        if collections.OrderedDict in names and dict not in names:
            reason = "isinstance() of OrderedDict, which is a dict in programs"
            raise NotExportable(reason, "ask for dict")
        if isinstance(value, Dynamic) and value.kind == "Tensor":
            return Static(any(issubclass(Tensor, name) for name in names))
        of = tuple(kind for name in names for kind in self.class_as_value(name))
        return self.of_run("isinstance", [value, Static(of)]) if of else Static(False)

    def class_as_value(self, kind: type) -> list[Ref]:
        """The classes of values that instances of a class can be; none of what no program makes."""
        kind = library.CLASSES.get(kind, kind)
        state = self.closer.state
        if is_record(kind):
            state.record(kind)
        records = [state.record(one) for one in state.kinds_of(kind)]
        return [*known.kinds_of_values(kind), *records]

    def special_len(self, args: list[Abstract], words: Words) -> Abstract | None:
        args = [self.unread(args[0])]
        items = self.known_items(args[0]) if isinstance(args[0], (Pack, Items)) else None
        if items is not None:
            return Static(len(items))
        if isinstance(args[0], Static) and not isinstance(args[0].value, Tensor):
            try:
                return Static(len(args[0].value))
            except TypeError as error:
                return self.raised(TypeError, str(error))
        found = self.by_class(args[0], "__len__", [], lambda: self.of_run("len", args))
        is_told = self.have(args[:1], "__len__")  # which may give anything
        return self.of_run("index", [found]) if is_told else found

    def _listed(self, args: list[Abstract]) -> list[list[Abstract]] | None:
        """The items of each argument, if some can be no values and all are known."""
        parts = [self.known_items(a) for a in args]
        if any(p is None for p in parts):
            return None
        found = [p for p in parts if p is not None]
        return found if not all(self.can_hold(i) for p in found for i in p) else None

    def special_enumerate(self, args: list[Abstract], words: Words) -> Abstract | None:
        start = args[1] if len(args) > 1 else words.get("start", Static(0))
        if isinstance(args[0], Turns) and isinstance(start, Static):
            pairs = enumerate(args[0].items, start.value)
            return Turns(tuple(Pack((Static(k), item)) for k, item in pairs), args[0].lengths)
        listed = self._listed(args[:1])
        if listed is None or not isinstance(start, Static):
            return None
        return Pack(tuple(Pack((Static(k), item)) for k, item in enumerate(listed[0], start.value)))

    def special_zip(self, args: list[Abstract], words: Words) -> Abstract | None:
        """With Modules among the values, turn by turn, as many as the others have values."""
        if (listed := self._listed(args)) is not None:
            return Pack(tuple(Pack(pair) for pair in zip(*listed)))
        parts = [self.known_items(a) for a in args]
        fixed = [len(p) for p in parts if p is not None and not all(map(self.can_hold, p))]
        if not fixed:
            return None
        rows: list[list[Abstract]] = []
        lengths = []
        for value, part in zip(args, parts):
            if part is None:
                kind = self.writer.constant(Ref("type", "list"))
                row = self.made("call", (kind, self.operand(value)), ())
                size = self.writer.constant(Ref("builtin", "len"))
                lengths.append(self.made("call", (size, row), ()))
                part = [Turn(row, k) for k in range(min(fixed))]
            rows.append(part)
        return Turns(tuple(Pack(pair) for pair in zip(*rows)), tuple(lengths))

    def special_reversed(self, args: list[Abstract], words: Words) -> Abstract | None:
        listed = self._listed(args)
        if listed is not None:
            return Pack(tuple(reversed(listed[0])))
        rows = self.closer.state.with_method("__getitem__")
        sized = [(kind, f) for kind, f in rows if method_of_class(kind, "__len__")]
        own = [kind for kind, _ in self.special_methods(args[0], "__reversed__")]
        found = [(kind, f) for kind, f in sized if kind not in own]
        if not own and (not found or not self.special_methods(args[0], "__getitem__")):
            return None

        def plainly() -> Abstract:
            return self.of_run("reversed", args)

        def in_rows() -> Abstract:
            return self.of_record(
                args[0],
                found,
                lambda *_: self.iterator(self.call_function(library.from_behind, args, {})),
                plainly,
            )

        return self.by_class(args[0], "__reversed__", [], in_rows)

    def special_list(self, args: list[Abstract], words: Words) -> Abstract | None:
        if not args:
            return Items(list)
        listed = self._listed(args)
        if listed is None:
            return self.of_items(list, args[0])
        return Items(list, listed[0])

    def of_items(self, kind: type, value: Abstract) -> Abstract | None:
        """A list or tuple of what a record goes through; None of other values."""
        if not self.special_methods(value, "__iter__"):
            return None
        return self.call_at_run(
            self.writer.constant(known.as_constant(kind)), [self.gone_through(value)], {}
        )

    def special_tuple(self, args: list[Abstract], words: Words) -> Abstract | None:
        if not args:
            return Static(())
        items = self.known_items(args[0])
        return self.of_items(tuple, args[0]) if items is None else self.packed(items)

    def special_dict(self, args: list[Abstract], words: Words) -> Abstract | None:
        if args:
            return None
        return Items(dict, [self.copied(v) for v in words.values()], list(words))

    def special_type(self, args: list[Abstract], words: Words) -> Abstract | None:
        if len(args) != 1:
            raise NotExportable("a class that is made")
        args = [self.unread(args[0])]
        if isinstance(args[0], Static):
            return Static(type(args[0].value))
        if isinstance(args[0], (Pack, Items)):
            return Static(tuple if isinstance(args[0], Pack) else args[0].kind)
        if kind_of(args[0]) == "Tensor":
            return Static(Tensor)
        found = self.of_run("type", args)
        assert isinstance(found, Dynamic)
        return Dynamic(found.register, "type")

    def special_bool(self, args: list[Abstract], words: Words) -> Abstract | None:
        if args and (holds := self.truth(self.unread(args[0]))) is not None:
            return Static(holds)
        if not self.have(args[:1], "__bool__", "__len__"):
            return None
        return self.of_run("bool", [self.truth_of(args[0])])

    def special_map(self, args: list[Abstract], words: Words) -> Abstract | None:
        function, *rest = args
        listed = [self.known_items(a) for a in rest]
        if all(items is not None for items in listed):
            turns = zip(*[items for items in listed if items is not None])
            made = [self.copied(self.call(function, list(turn), {})) for turn in turns]
            return Items(list, made, fresh=True)
        return self.all_of_iterator(self.mapped(function, *rest))

    def mapped(self, function: Abstract, *values: Abstract) -> Dynamic:
        """The list of what a function gives of each value, or of values side by side."""
        sources = [self.operand(self.gone_through(value)) for value in values]
        iterable, out = sources[0], self.made("list", ())
        if len(values) > 1:
            rows = self.writer.constant(Ref("builtin", "zip"))
            iterable = self.made("call", (rows, *sources), ())
        row = self.writer.register()
        with self.writer.region() as body:
            parts = [Dynamic(row)]
            if len(values) > 1:
                parts = [Dynamic(self.writer.register()) for _ in values]
                self.emit("unpack", tuple(part.register for part in parts), (row,))
            result = self.call(function, list(parts), {})
            self.emit("append", (), (out, self.operand(result)))
        self.emit("for", (row,), (iterable,), None, (body, []))
        return Dynamic(out)

    def by_key(self, args: list[Abstract], words: Words, name: str) -> Abstract | None:
        """`sorted`, `max` and `min` with a key: what it gives is computed before."""
        if (key := words.get("key")) is None:
            return None
        if set(words) - {"key", "reverse", "default"}:
            raise NotExportable(f"{name}() with other arguments than it has")
        if "default" in words:
            return self.call_function(ordering.EXTREMES[name], args, words)
        # the key and what compares both go through them
        kind = self.writer.constant(Ref("type", "list"))
        values = self.packed(args) if len(args) > 1 else self.gone_through(args[0])
        values = Dynamic(self.made("call", (kind, self.operand(values))))
        given = [values, self.mapped(key, values), words.get("reverse", Static(False))]
        return self.call_at_run(self.writer.constant(Ref("builtin", f"{name}_by")), given, {})

    def special_replace(self, args: list[Abstract], words: Words) -> Abstract:
        """`dataclasses.replace`."""
        one = args[0]
        kinds = [(k, None) for k in self.closer.state.kinds_of(object) if is_dataclass(k)]

        def another(kind: type, _: None) -> Abstract:
            if unknown := [word for word in words if word not in fields_of(kind)]:
                message = f"{kind.__name__}.__init__() got an unexpected keyword argument"
                return self.raised(TypeError, f"{message} {unknown[0]!r}")
            kept = {f: words[f] if f in words else self.attribute(one, f) for f in fields_of(kind)}
            return self.call_class(kind, [], kept)

        message = "replace() should be called on dataclass instances"
        return self.of_record(one, kinds, another, lambda: self.raised(TypeError, message))


@functools.cache
def miscalled(function: Callable[..., Any], count: int, words: tuple[str, ...]) -> str | None:
    """What a function of Python's says of so many arguments, and of those by name, if it does not
    take them."""
    if function.__module__ != "builtins":
        return None
    given = [()] * count  # which `sorted` goes through before it looks at its words
    try:
        inspect.signature(function).bind(*given, **dict.fromkeys(words))
    except ValueError:  # it tells no signature
        least, most = _COUNTS.get(function.__name__, (0, count))
        if least <= count <= (1 if "default" in words else most):
            return None
    except TypeError:
        pass
    else:
        return None
    try:
        function(*given, **dict.fromkeys(words))
    except TypeError as error:
        return str(error)
    return None


_MANY = 1 << 30
_COUNTS = {
    "iter": (1, 2), "next": (1, 2), "getattr": (2, 3), "map": (2, _MANY), "filter": (2, 2),
    "min": (1, _MANY), "max": (1, _MANY), "int": (0, 2), "str": (0, 3), "bool": (0, 1),
}  # fmt: skip


def kinds_in(kinds: Any) -> Iterator[type]:
    """The classes that the second argument of `isinstance` names."""
    if isinstance(kinds, tuple):
        for one in kinds:
            yield from kinds_in(one)
    elif isinstance(kinds, types.UnionType) or typing.get_origin(kinds) is typing.Union:
        yield from kinds_in(typing.get_args(kinds))
    elif isinstance(kinds, type):
        yield kinds
    elif kinds is None:
        yield type(None)
    elif isinstance(typing.get_origin(kinds), type) and not typing.get_args(kinds):
        yield typing.get_origin(kinds)  # typing.List
    else:
        raise NotExportable(f"isinstance() of {kinds!r}", "name classes")


def _einsum(walk: Specials, args: list[Abstract], words: Words) -> Abstract | None:
    """With `...`, of which a run knows the dims: with one subscript for all of them."""
    if not args or not isinstance(args[0], Static) or not isinstance(args[0].value, str):
        return None
    listed = walk.known_items(args[1]) if len(args) == 2 and kind_of(args[1]) != "Tensor" else None
    operands = args[1:] if listed is None else listed
    if "..." not in args[0].value:
        if listed is None:
            return None
        return walk.call_function(weft.einsum, [args[0], *listed], words)
    rest = library.rest_of(args[0].value)
    if len(operands) != len(rest.places):
        raise NotExportable(f"einsum() of {len(rest.places)} operands with {len(operands)}")
    shape = walk.call_function(library.sizes_of_rest, [Static(rest.places), *operands], {})
    flat = [
        walk.call_function(library.with_one_for_rest, [x, Static(place), shape], {})
        for x, place in zip(operands, rest.places)
    ]
    out = walk.call_function(weft.einsum, [Static(rest.equation), *flat], {})
    if rest.at is None:
        return out
    return walk.call_function(library.with_rest, [out, Static(rest.at), shape], {})


def _vmap(walk: Specials, args: list[Abstract], words: Words) -> Abstract | None:
    raise NotExportable("vmap(), which maps a function of Python's", "write the batch's dimension")


def _operator(
    walk: Specials, args: list[Abstract], words: Words, *, verb: str, name: str
) -> Abstract | None:
    """A function of the module `operator`, as the operator."""
    return walk.now(_OPERATORS[verb][name], args, words) or Dynamic(
        walk.made(verb, tuple(map(walk.operand, args)), name)
    )


_OPERATORS: dict[str, dict[str, Callable[..., Any]]] = {
    "binary": known.BINARY, "unary": known.UNARY, "compare": {
        name: f for name, f in known.COMPARE.items() if name not in ("in", "not in", "is", "is not")
    },
}  # fmt: skip


def _first(_: Specials, args: list[Abstract], words: Words) -> Abstract | None:
    """Of a function that only names what it is given."""
    return args[0]


def _outputs(walk: Specials, args: list[Abstract], words: Words) -> Abstract | None:
    """Results that no gradient goes through: programs have them outside of the graph."""
    return args[2]


def _moved(walk: Specials, args: list[Abstract], words: Words) -> Abstract | None:
    """To the meta device, which programs have not: a run that names it is told so."""
    walk.call_function(expect_cpu, [Static("meta")], {})
    return args[0]


def _while_loop(walk: Specials, args: list[Abstract], words: Words) -> Abstract | None:
    """A loop over values in registers of their own; how many is known."""
    names = "cond_fn", "body_fn", "carried_inputs", "additional_inputs"
    given = {"additional_inputs": Static(()), **dict(zip(names, args)), **words}
    carried, rest = (walk.known_items(given[name]) for name in names[2:])
    if carried is None or rest is None:
        raise NotExportable(
            "while_loop() over a tuple that only a run knows", "write the tuple there"
        )
    homes = [walk.writer.register() for _ in carried]
    for home, value in zip(homes, carried):
        walk.emit("move", (home,), (walk.operand(value),))
    values: list[Abstract] = [Dynamic(home) for home in homes]
    test = walk.writer.register()
    with walk.writer.region() as first:
        holds = walk.call(given["cond_fn"], [*values, *rest], {})
        walk.emit("move", (test,), (walk.operand(holds),))
    with walk.writer.region() as second:
        result = walk.call(given["body_fn"], [*values, *rest], {})
        if len(homes) == 1 and kind_of(result) == "Tensor":  # a single value needs no tuple
            walk.emit("move", (homes[0],), (walk.operand(result),))
        else:
            walk.emit("unpack", tuple(homes), (walk.operand(result),))
    walk.emit("while", (test,), (), None, (first, second, []))
    return Pack(tuple(Dynamic(walk.made("move", (home,))) for home in homes))


_SPECIAL: dict[int, Callable[..., Abstract | None]] = {
    id(getattr): Specials.special_getattr,
    id(hasattr): Specials.special_hasattr,
    id(isinstance): Specials.special_isinstance,
    id(len): Specials.special_len,
    id(enumerate): Specials.special_enumerate,
    id(zip): Specials.special_zip,
    id(reversed): Specials.special_reversed,
    id(list): Specials.special_list,
    id(tuple): Specials.special_tuple,
    id(dict): Specials.special_dict,
    id(type): Specials.special_type,
    id(iter): Specials.special_iter,
    id(next): Specials.special_next,
    id(map): Specials.special_map,
    id(bool): Specials.special_bool,
    id(str): functools.partial(Specials.special_text, names=("__str__", "__repr__")),
    id(repr): functools.partial(Specials.special_text, names=("__repr__",)),
    id(format): Specials.special_format,
    id(print): Specials.special_print,
    id(weft._C._rename_node): _first,
    id(while_loop): _while_loop,
    id(without_derivative): _outputs,
    id(moved): _moved,
    id(_may_nest): lambda walk, args, words: Static(False),
    id(weft.einsum): _einsum,
    id(dataclasses.replace): Specials.special_replace,
    id(weft.jit.fork): lambda walk, args, words: walk.call(args[0], args[1:], words),
    id(weft.jit.wait): _first,
    id(weft.vmap): _vmap,
    id(weft.func.vmap): _vmap,
    **{
        id(function): functools.partial(_operator, verb=verb, name=name)
        for verb, functions in _OPERATORS.items()
        for name, function in functions.items()
    },
    **{
        id(f): functools.partial(Specials.special_conversion, name=f.__name__)
        for f in (abs, float, int, complex, round, operator.index)
    },
    **{id(f): functools.partial(Specials.by_key, name=f.__name__) for f in (sorted, max, min)},
}
