"""What classes of the user's say of their objects: special methods, attributes, texts."""

from __future__ import annotations

import codecs
import dataclasses
import inspect
import string
from collections.abc import Callable
from typing import Any

from weft.closing import known, library, ordering
from weft.closing.calls import Calls
from weft.closing.classes import ByFields, fields_of, is_frozen, method_of_class, shown_fields
from weft.closing.errors import NotExportable
from weft.closing.frame import Words, as_number, kind_of
from weft.closing.values import Abstract, Dynamic, Items, Pack, Ref, Static
from weft.frontend.ir import Instr

# Special methods that no program asks for.
_NOT_ASKED = ("__setattr__", "__getattribute__", "__delattr__", "__hash__")
_TEXT = ("__str__", "__repr__")
_HOLDERS = (list, tuple, dict, set, frozenset)
_LISTS = Static((Ref("type", "list"), Ref("type", "tuple")))
_ROWS = Static((*_LISTS.value, Ref("type", "dict")))
_CONVERSIONS: dict[str, tuple[str, ...]] = {
    "abs": ("__abs__",), "float": ("__float__", "__index__"), "int": ("__int__", "__index__"),
    "complex": ("__complex__", "__float__"), "round": ("__round__",), "index": ("__index__",),
    "reversed": ("__reversed__",),
}  # fmt: skip
_FILL = {"+": "list", "|": "dict"}  # in place, with what a value goes through


class Records(Calls):
    """The part of `Walk` that asks the classes of records, where a value may be one."""

    def of_run(self, name: str, args: list[Abstract]) -> Abstract:
        """What a builtin gives when the program runs."""
        return self.call_at_run(self.writer.constant(Ref("builtin", name)), args, {})

    def have(self, values: list[Abstract], *names: str) -> bool:
        """Whether one of the values may be a record that has one of these methods, or hold one
        that shows itself."""
        held = "__repr__" in names and any(isinstance(v, (Pack, Items)) for v in values)
        return any(self.special_methods(v, name) for v in values for name in names) or (
            held and bool(self.closer.state.with_method("__repr__"))
        )

    def first_of(
        self,
        options: list[tuple[Abstract, str, list[Abstract]]],
        plain: Callable[[], Abstract],
    ) -> Abstract:
        """What the first gives of holders whose class has the method that is named with them."""
        if not options:
            return plain()
        (holder, name, args), *rest = options
        return self.by_class(holder, name, args, lambda: self.first_of(rest, plain))

    # ---- operators

    def operate(self, instr: Instr, parts: list[Abstract], name: str, kind: str = "") -> None:
        """An operator, as a special method of the first operand or of the second says where one is
        a record that has it; in place, as that for this says before."""
        verb, sign = instr.verb, instr.attr
        pairs = list(zip(parts, known.methods_of(name)))
        if verb == "inplace":
            pairs.insert(0, (parts[0], f"__i{name}__"))
        found = [pair for pair in pairs if self.special_methods(*pair)]
        if verb == "compare" and found and found[-1] is pairs[-1]:  # of one class, or by none
            said = [f for _, f in self.special_methods(*found[-1])]
            found = found[: -1 if all(isinstance(f, ByFields) for f in said) else None]
        if sign in ("in", "not in") and self.asks_equality(parts):
            return self.settle(instr, self.negated(self.found_in(parts), sign == "not in"))
        if name == "eq" and self.asks_equality(parts):
            return self.settle(instr, self.equal(list(map(self.for_any, parts))))
        if name == "ne" and not found and self.asks_equality(parts):
            equal = self.equal(list(map(self.for_any, parts)))
            return self.settle(instr, self.negated(equal, True))
        if sign == "%" and verb == "binary":
            parts = self.filled_in(parts)
        if verb == "inplace" and sign in _FILL:
            parts = [parts[0], self.items_where(parts[0], _FILL[sign], parts[1])]
        in_rows = sign in ordering.COMPARES_ROWS and self.asks_order(parts, name)
        if not found and not in_rows:
            parts = list(map(as_number, parts))
            return self.give(instr, verb, tuple(map(self.operand, parts)), sign, kind)

        parts = list(map(self.for_any, parts))
        found = [(parts[-1 if part is pairs[-1][0] else 0], method) for part, method in found]
        options = [
            (part, method, parts[:1] if part is parts[-1] and part is not parts[0] else parts[1:])
            for part, method in found
        ]

        def plain() -> Abstract:
            if name == "ne" and self.asks_equality(parts):
                return self.negated(self.equal(parts), True)
            if in_rows:
                return self.rows_compared(parts, sign)
            return Dynamic(self.made(verb, tuple(map(self.operand, parts)), sign))

        return self.settle(instr, self.first_of(options, plain))

    # ---- order

    def asks_order(self, parts: list[Abstract], name: str) -> bool:
        """Whether both may be lists or tuples that hold objects which say themselves what they are
        less than."""
        may_hold = all(
            isinstance(v, (Pack, Items))
            or isinstance(v, Dynamic)
            and not v.kind
            or isinstance(v, Static)
            and isinstance(v.value, (list, tuple))
            for v in parts
        )
        return may_hold and any(map(self.closer.state.with_method, known.methods_of(name)))

    def rows_compared(self, parts: list[Abstract], sign: str) -> Abstract:
        """`<` and others of lists and tuples, item by item; of other values the run's own."""
        one, other = (Dynamic(self.operand(part)) for part in parts)
        return self.case(
            [ordering.COMPARES_ROWS[sign]],
            lambda _: self.operand(self.of_run("isinstance", [one, _LISTS])),
            lambda function: self.call_function(function, [one, other], {}),
            lambda: Dynamic(self.made("compare", (one.register, other.register), sign)),
        )

    def of_class(
        self, kind: type, found: Any, holder: Abstract, args: list[Abstract], words: Words
    ) -> Abstract:
        """A method of a record; a comparison that dataclasses made, by the fields."""
        if not isinstance(found, ByFields):
            return super().of_class(kind, found, holder, args, words)

        def by_fields(function: Callable[..., Any]) -> Abstract:
            rows = [
                Pack(tuple(self.attribute(v, name) for name in found.fields))
                for v in (holder, args[0])
            ]
            return self.call_function(function, [Dynamic(self.operand(row)) for row in rows], {})

        of = Static(self.closer.state.record(kind))
        operands = self.operand(holder), self.operand(args[0])
        return self.case(
            [ordering.COMPARES[found.sign]],
            lambda _: self.operand(self.of_run("isinstance", [args[0], of])),
            by_fields,
            lambda: Dynamic(self.made("compare", operands, found.sign)),
        )

    # ---- equality

    def asks_equality(self, values: list[Abstract]) -> bool:
        """Whether one of the values may be, or hold, an object that says itself what it is equal
        to."""
        may_be = any(
            isinstance(v, (Pack, Items)) or isinstance(v, Dynamic) and kind_of(v) != "Tensor"
            for v in values
        )
        return may_be and bool(self.closer.state.equalities())

    def equal(self, parts: list[Abstract]) -> Abstract:
        """`==` of two values: as the class of one says, of lists, tuples and dicts by their items,
        of dataclasses by their fields."""
        one, other = (
            part if isinstance(part, Dynamic) else Dynamic(self.operand(part)) for part in parts
        )
        both: list[Abstract] = [one, other]
        plain = any(isinstance(p, Static) and type(p.value) not in _HOLDERS for p in parts)

        def of_fields(kind: type, names: list[str] | None) -> Abstract:
            if names is None:
                return Dynamic(self.made("compare", (one.register, other.register), "is"))

            def by_fields(_: type) -> Abstract:
                rows = [Pack(tuple(self.attribute(v, name) for name in names)) for v in both]
                made = [Dynamic(self.operand(row)) for row in rows]
                return self.call_function(ordering.equal, list(made), {})

            is_one = self.operand(
                self.of_run("isinstance", [other, Static(self.closer.state.record(kind))])
            )
            return self.case([kind], lambda _: is_one, by_fields, lambda: Static(False))

        def of_items() -> Abstract:
            return self.case(
                [] if plain else [ordering.equal],
                lambda _: self.operand(self.of_run("isinstance", [one, _ROWS])),
                lambda function: self.call_function(function, both, {}),
                lambda: Dynamic(self.made("compare", (one.register, other.register), "==")),
            )

        methods: list[tuple[Abstract, str, list[Abstract]]] = [
            (v, "__eq__", [w])
            for v, w in ((one, other), (other, one))
            if self.special_methods(v, "__eq__")
        ]
        made = [(kind, names) for kind, names in self.closer.state.equalities() if names != []]
        return self.first_of(
            methods, lambda: self.of_record(one, made, of_fields, of_items) if made else of_items()
        )

    def found_in(self, parts: list[Abstract]) -> Abstract:
        """Whether a list or tuple has a value, by `==` of objects that say what it is."""
        value, holder = parts[0], Dynamic(self.operand(parts[1]))

        def plain() -> Abstract:
            return Dynamic(self.made("compare", (self.operand(value), holder.register), "in"))

        if not self.asks_equality(parts):
            return plain()
        return self.case(
            [value],
            lambda _: self.operand(self.of_run("isinstance", [holder, _LISTS])),
            lambda one: self.call_function(ordering.is_in, [one, holder], {}),
            plain,
        )

    def method(self, holder: Abstract, name: str, args: list[Abstract], words: Words) -> Abstract:
        """`index`, `count` and `remove` of lists and tuples ask objects, as `in` does."""
        if name == "encode" and not self.have([holder], "encode"):
            args, words = self.in_utf8(args, words), {}
        function = ordering.BY_EQUALITY.get(name)
        rows = not isinstance(holder, Static) or isinstance(holder.value, (list, tuple))
        if not function or not args or words or not rows or kind_of(holder) == "Tensor":
            return super().method(holder, name, args, words)
        if not self.can_hold(holder) or not self.asks_equality([holder, args[0]]):
            return super().method(holder, name, args, words)
        held = Dynamic(self.operand(holder))
        return self.case(
            [function],
            lambda _: self.operand(self.of_run("isinstance", [held, _LISTS])),
            lambda f: self.call_function(f, [held, *args], {}),
            lambda: super(Records, self).method(held, name, args, words),
        )

    def for_any(self, value: Abstract) -> Abstract:
        """An operand of what may be a record or not: its method is closed for any value."""
        if not isinstance(value, Static) or not self.is_value(value) or kind_of(value):
            return value
        return Dynamic(self.made("move", (self.operand(value),)))

    def special_conversion(self, args: list[Abstract], words: Words, name: str) -> Abstract | None:
        """`abs`, `float` and others of one value."""
        names = _CONVERSIONS[name]
        if not args or words or not self.have(args[:1], *names):
            return None
        options = [(args[0], method, args[1:]) for method in names]
        return self.first_of(options, lambda: self.of_run(name, args))

    def items_where(self, one: Abstract, kind: str, value: Abstract) -> Abstract:
        """The items of a value that is a record, where another value is of a kind; else itself."""
        if isinstance(one, Static):
            return self.gone_through(value) if type(one.value).__name__ == kind else value
        if not self.have([value], "__iter__") or kind_of(one):
            return value
        return self.case(
            [value],
            lambda _: self.operand(self.of_run("isinstance", [one, Static(Ref("type", kind))])),
            self.gone_through,
            lambda: value,
        )

    def index_in(self, holder: Abstract, key: Abstract) -> Abstract:
        """What stands for a place in a list or tuple: a record's own number."""
        if not self.have([key], "__index__"):
            return key
        rows = Static(tuple(Ref("type", name) for name in ("list", "tuple", "str", "range")))
        return self.case(
            [key],
            lambda _: self.operand(self.of_run("isinstance", [holder, rows])),
            lambda one: self.by_class(one, "__index__", [], lambda: one),
            lambda: key,
        )

    def call_record(self, kind: type, args: list[Abstract], words: Words) -> Abstract:
        for name in _NOT_ASKED:
            if method_of_class(kind, name):
                raise NotExportable(f"an object of {kind.__name__} with {name}")
        if method_of_class(kind, "__eq__") and kind.__hash__ is not None:
            reason = f"an object of {kind.__name__}, which has __eq__ and a hash of other values"
            raise NotExportable(reason, "leave out one of them")
        return super().call_record(kind, args, words)

    # ---- attributes

    def attribute(self, holder: Abstract, name: str) -> Abstract:
        if not isinstance(holder, Dynamic) or holder.kind or name.startswith("__"):
            return super().attribute(holder, name)
        state = self.closer.state

        def plain() -> Abstract:
            return super(Records, self).attribute(holder, name)

        if name == "grad_fn":
            raise NotExportable("the attribute grad_fn", "ask requires_grad")
        if name == "_fields":
            kinds = [(kind, None) for kind in state.records.values() if issubclass(kind, tuple)]
            if kinds:
                return self.of_record(
                    holder, kinds, lambda kind, _: Static(tuple(fields_of(kind))), plain
                )
        lazy = [(k, None) for k, f in state.with_method(name) if is_cached(f)]
        dynamic = state.with_method("__getattr__")
        if not lazy and not dynamic:
            return plain()

        def there() -> Abstract:
            return Dynamic(self.made("attr", (self.operand(holder),), name))

        def unless_there(kind: type, found: Any) -> Abstract:
            def compute(_: str) -> Abstract:
                if found is not None:
                    return self.call(Static(found), [holder, Static(name)], {})
                of = inspect.getattr_static(kind, name)
                made = self.call(Static(of.func), [holder], {})
                self.emit("set_attr", (), (self.operand(holder), self.operand(made)), name)
                return made

            def is_missing(_: str) -> int:
                has = self.of_run("hasattr", [holder, Static(name)])
                return self.made("unary", (self.operand(has),), "not")

            return self.case([name], is_missing, compute, there)

        own = [kind for kind, f in state.with_method(name) if not is_cached(f)]
        asked = [(kind, f) for kind, f in dynamic if kind not in own]
        return self.of_record(holder, [*lazy, *asked], unless_there, plain)

    def verb_set_attr(self, instr: Instr) -> None:
        holder, name = self.read(instr.operands[0]), instr.attr
        found: list[tuple[type, Any]] = []
        if isinstance(holder, Dynamic) and kind_of(holder) != "Tensor":
            found = list(self.closer.state.that_refuse(name))
        if not found:
            return super().verb_set_attr(instr)

        def plain() -> Abstract:
            super(Records, self).verb_set_attr(instr)
            return Static(None)

        def refused(kind: type, why: str) -> Abstract:
            error = dataclasses.FrozenInstanceError if is_frozen(kind) else AttributeError
            return self.raised(error, why)

        self.of_record(holder, found, refused, plain)

    # ---- texts

    def special_text(
        self, args: list[Abstract], words: Words, names: tuple[str, ...]
    ) -> Abstract | None:
        """What a record says it is shown as, also in a list, tuple, dict or set."""
        if not args:
            return None
        value, otherwise = self.unread(args[0]), "str" if len(names) > 1 else "repr"
        if not self.have([value], *names):
            return None if value is args[0] else self.of_run(otherwise, [value])
        if isinstance(value, (Pack, Items)):
            return self.call_function(library.repr_of_items, [Dynamic(self.operand(value))], {})

        def others() -> Abstract:
            if not self.have([value], "__repr__"):
                return self.of_run(otherwise, args)
            kinds = Static(tuple(map(known.as_constant, _HOLDERS)))
            return self.case(
                [value],
                lambda one: self.made(
                    "compare",
                    (self.operand(self.of_run("type", [one])), self.operand(kinds)),
                    "in",
                ),
                lambda one: self.call_function(library.repr_of_items, [one], {}),
                lambda: self.of_run(otherwise, args),
            )

        made = [(kind, None) for kind in self.closer.state.that_show()]

        def of_fields() -> Abstract:
            return self.of_record(value, made, lambda k, _: self.fields_shown(k, value), others)

        by_fields = of_fields if made and self.have([value], "__repr__") else others
        return self.first_of([(value, name, []) for name in names], by_fields)

    def fields_shown(self, kind: type, value: Abstract) -> Abstract:
        """The text that dataclasses and named tuples make, of fields that say themselves what they
        are."""
        parts: list[Abstract] = []
        for name in shown_fields(kind) or ():
            parts.append(Static(f"{', ' if parts else ''}{name}="))
            parts.append(self.call_function(library.text_of, [self.attribute(value, name)], {}))
        name = kind.__name__ if issubclass(kind, tuple) else kind.__qualname__
        parts = [Static(f"{name}("), *parts, Static(")")]
        return Dynamic(self.made("join", tuple(map(self.operand, parts))))

    def shown(self, value: Abstract, convert: str) -> Abstract | None:
        """The text of a value, where a record may say it itself; None of other values."""
        return self.special_text([value], {}, _TEXT[1:] if convert in ("r", "a") else _TEXT)

    def formatted(self, value: Abstract, spec: Abstract, convert: str) -> Abstract:
        """What an f-string puts in its place."""
        if convert in ("", None) and self.have([value], "__format__"):
            kinds = self.special_methods(value, "__format__")
            return self.of_record(
                value,
                kinds,
                lambda kind, f: self.of_class(kind, f, value, [spec], {}),
                lambda: self.formatted_plainly(value, spec, convert),
            )
        return self.formatted_plainly(value, spec, convert)

    def formatted_plainly(self, value: Abstract, spec: Abstract, convert: str) -> Abstract:
        shown = None
        if convert or isinstance(spec, Static) and spec.value == "":
            shown = self.shown(value, convert or "")
        elif self.have([value], *_TEXT):  # numbers have a specification of their own
            shown = self.first_of([(value, name, []) for name in _TEXT], lambda: value)
        if shown is not None:
            value, convert = shown, ""
        operands = self.operand(value), self.operand(spec)
        return Dynamic(self.made("format", operands, convert or ""))

    def special_format(self, args: list[Abstract], words: Words) -> Abstract | None:
        """The builtin, as f-strings have it."""
        value, spec = args if len(args) == 2 else (args[0], Static(""))
        return self.formatted(value, spec, "")

    def verb_format(self, instr: Instr) -> None:
        given, spec = (self.read(o) for o in instr.operands)
        value = self.unread(given)
        if value is not given or self.have([value], "__format__", *_TEXT):
            return self.settle(instr, self.formatted(value, spec, instr.attr))
        super().verb_format(instr)

    def special_print(self, args: list[Abstract], words: Words) -> Abstract | None:
        given = [self.special_text([a], {}, _TEXT) for a in args]
        if not any(given):
            return None
        shown = [text or value for text, value in zip(given, args)]
        return self.call_at_run(self.writer.constant(Ref("builtin", "print")), shown, words)

    def filled_in(self, parts: list[Abstract]) -> list[Abstract]:
        """The operands of `text % values`, with texts for records that say what they are."""
        text, values = parts
        rows: list[Abstract] = list(values.items) if isinstance(values, Pack) else [values]
        if kind_of(text) == "Tensor" or not self.have(rows, *_TEXT):
            return parts
        form = text.value if isinstance(text, Static) else ""
        if not isinstance(form, str):
            return parts
        if "%r" in form:
            if "%s" in form:
                raise NotExportable("%r and %s in one text of objects", "use an f-string")
            if self.have(rows, "__repr__"):
                raise NotExportable("%r of what may be an object with __repr__", "use an f-string")
            return parts

        def shown(value: Abstract) -> Abstract:
            return self.first_of([(value, name, []) for name in _TEXT], lambda: value)

        rows = list(map(shown, rows))
        return [text, Pack(tuple(rows)) if isinstance(values, Pack) else rows[0]]

    def format_method(self, text: Any, args: list[Abstract], words: Words) -> Abstract | None:
        """`text.format(…)` where a record may say what it is: each field as in an f-string."""
        if not self.have([*args, *words.values()], "__format__", *_TEXT):
            return None
        parts: list[Abstract] = []
        count = 0
        for literal, field, spec, convert in string.Formatter().parse(text):
            parts.append(Static(literal))
            if field is None:
                continue
            name, count = (field, count) if field else (str(count), count + 1)
            places = {**{str(k): a for k, a in enumerate(args)}, **words}
            if name not in places or "{" in (spec or ""):
                raise NotExportable(f"format() with the field {{{field}}}", "use an f-string")
            parts.append(self.formatted(places[name], Static(spec or ""), convert or ""))
        return Dynamic(self.made("join", tuple(map(self.operand, parts))))

    def method_of(self, holder: Static, name: str, args: list[Abstract], words: Words) -> Abstract:
        if name == "format" and isinstance(holder.value, str):
            if (made := self.format_method(holder.value, args, words)) is not None:
                return made
        return super().method_of(holder, name, args, words)

    def in_utf8(self, args: list[Abstract], words: Words) -> list[Abstract]:
        """The arguments of `text.encode(…)`, of which programs know one encoding; no text is an
        error in it."""
        name = args[0] if args else words.get("encoding", Static("utf-8"))
        if not isinstance(name, Static):
            return args
        try:
            is_known = codecs.lookup(name.value).name == "utf-8"
        except LookupError:
            is_known = False
        if not is_known:
            raise NotExportable(f"encode() in {name.value!r}", "encode in UTF-8")
        return []

    # ---- builtins

    def items_of(self, name: str, args: list[Abstract]) -> list[Abstract]:
        """The arguments of a builtin, with what gives their items in the place of records."""
        raise NotImplementedError

    def in_records(self, name: str, args: list[Abstract], words: Words) -> Abstract | None:
        """Builtins that compare, add or ask for the truth of what may be records: as Python's own
        would."""
        state = self.closer.state
        if name in ordering.BY_TRUTH and any(map(state.with_method, ("__bool__", "__len__"))):
            return self.call_function(ordering.BY_TRUTH[name], args, {})
        adds, compares = ((f"__{n}__", f"__{o}__") for n, o in (("add", "radd"), ("lt", "gt")))
        if name == "sum" and any(map(state.with_method, adds)):
            start = args[1] if len(args) > 1 else words.get("start", Static(0))
            return self.call_function(ordering.total, [args[0], start], {})
        if name in ordering.IN_ORDER and any(map(state.with_method, compares)):
            rows = args[0] if len(args) == 1 else Items(list, list(args))
            of = ordering.EXTREMES if "default" in words else ordering.IN_ORDER
            return self.call_function(of[name], [rows], words)
        return None


def is_cached(found: Any) -> bool:
    """Whether it is a property that is computed once."""
    return type(found).__name__ == "cached_property"
