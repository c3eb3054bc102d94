"""Objects of the user's that are gone through: `__iter__`, and the `__next__` of what it gives.

What asks for all items has a list of them; loops, `next`, `in`, `any`, `all`, `zip` and `a, b = …`
ask no further than Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.closing import library, ordering
from weft.closing.errors import NotExportable
from weft.closing.frame import Words, is_fresh
from weft.closing.records import Records
from weft.closing.values import Abstract, Dynamic, KnownIterator, Ref, Static
from weft.frontend.ir import Instr

_GO_THROUGH = {
    "enumerate", "zip", "set", "frozenset", "sum", "sorted", "min", "max", "any", "all", "list",
    "tuple", "dict",
}  # fmt: skip

# Those that ask no further than they have to.
_STOPS: dict[str, Callable[..., Any]] = {**ordering.BY_TRUTH, "zip": library.zipped}


class Iterables(Records):
    """The part of `Walk` that goes through what may be records."""

    def may_ask(self, value: Abstract) -> bool:
        """Whether a value may be a record that gives an iterator of the user's."""
        return bool(self.have([value], "__iter__") and self.closer.state.with_method("__next__"))

    def iterator_of(self, value: Abstract) -> Abstract:
        """`iter(value)`."""
        kinds = self.special_methods(value, "__iter__")
        if not kinds:
            return self.iterator(value)
        return self.of_record(
            value,
            kinds,
            lambda kind, found: self.given_by(kind, found, value),
            lambda: self.iterator(value),
        )

    def given_by(self, kind: type, found: Any, value: Abstract) -> Abstract:
        """What the `__iter__` of a record gives, which has to be an iterator."""
        made = self.of_class(kind, found, value, [], {})
        return self.call_function(library.expect_iterator, [made], {})

    def gone_through(self, value: Abstract) -> Abstract:
        return self.some_of(value, None)

    def some_of(self, value: Abstract, most: int | None) -> Abstract:
        """What gives the items of a value; of an iterator of the user's, the list of what it gives,
        `most` at most."""

        def of_record(kind: type, found: Any) -> Abstract:
            made = self.given_by(kind, found, value)
            return self.of_record(
                made,
                self.special_methods(made, "__next__"),
                lambda *_: self.call_function(library.items_of, [made, Static(most)], {}),
                lambda: made,
            )

        kinds = self.special_methods(value, "__iter__")
        return self.of_record(value, kinds, of_record, lambda: value) if kinds else value

    def contained_plainly(self, one: Abstract, holder: Abstract) -> Abstract:
        """Whether what has no `__contains__` of the user's has a value: an iterator of theirs is
        asked until it gives it."""

        def of_record(kind: type, found: Any) -> Abstract:
            made = self.given_by(kind, found, holder)
            return self.of_record(
                made,
                self.special_methods(made, "__next__"),
                lambda *_: self.call_function(ordering.is_in, [one, made], {}),
                lambda: self.found_in([one, made]),
            )

        def plain() -> Abstract:
            return self.found_in([one, holder])

        kinds = self.special_methods(holder, "__iter__")
        return self.of_record(holder, kinds, of_record, plain) if kinds else plain()

    def verb_unpack(self, instr: Instr) -> None:
        value = self.read(instr.operands[0])
        if self.have([value], "__iter__"):
            most = None if instr.attr else len(instr.outs) + 1
            items = self.operand(self.some_of(value, most))
            homes = tuple(map(self.home, instr.outs))
            self.emit("unpack", homes, (items,), instr.attr)
            for register, home in zip(instr.outs, homes):
                self.env[register] = Dynamic(home)
            return
        super().verb_unpack(instr)

    def items_of(self, name: str, args: list[Abstract]) -> list[Abstract]:
        """The arguments of a builtin, with what gives their items in the place of records."""
        one_by_one = name in ("min", "max") and len(args) != 1
        if name not in _GO_THROUGH or one_by_one or not self.have(args, "__iter__"):
            return args
        stops = name in _STOPS and any(map(self.may_ask, args))
        return args if stops else [self.gone_through(a) for a in args]

    def in_records(self, name: str, args: list[Abstract], words: Words) -> Abstract | None:
        """Likewise `any`, `all` and `zip`, which ask no further than they have to."""
        if name not in _STOPS or not any(map(self.may_ask, args)):
            return super().in_records(name, args, words)
        if words:  # `strict` goes through all of them
            args = list(map(self.gone_through, args))
            return self.call_at_run(self.writer.constant(Ref("builtin", name)), args, words)
        made = self.call_function(_STOPS[name], args, words)
        return self.all_of_iterator(made) if name == "zip" else made

    def special_iter(self, args: list[Abstract], words: Words) -> Abstract | None:
        items = self.known_items(args[0])
        if items is not None and (self.is_asked_once() or not all(map(self.can_hold, items))):
            return Static(KnownIterator(items, len(self.loops)))
        return self.iterator_of(args[0])

    def special_next(self, args: list[Abstract], words: Words) -> Abstract | None:
        of = args[0].value if isinstance(args[0], Static) else None
        first: list[Abstract] | None = None
        if isinstance(of, KnownIterator) and of.loops == len(self.loops) and not of.asked:
            of.asked, first = True, of.items
        elif is_fresh(args[0]) and not isinstance(of, set):
            first = self.known_items(args[0])  # it has no name: nobody asks it again
        if first is not None and (first := first[:1] or args[1:]):
            return first[0]
        if isinstance(args[0], Static) and not args[0].fresh:
            raise NotExportable("next()", "go through the values in a loop")
        of_run = self.iterator(args[0]) if is_fresh(args[0]) else args[0]
        if len(args) > 1 and self.have([of_run], "__next__"):
            return self.call_function(library.next_or, [of_run, args[1]], {})
        return self.by_class(
            of_run, "__next__", [], lambda: self.of_run("next", [of_run, *args[1:]])
        )
