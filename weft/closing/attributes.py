"""Attributes and items; one of several Modules, which a run chooses."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import weft
from weft import Tensor
from weft.closing import known, library
from weft.closing.classes import is_descriptor, is_own, method_above, own_method
from weft.closing.displays import Displays
from weft.closing.errors import NeedsUnrolling, NotExportable
from weft.closing.frame import Words, as_number, kind_of
from weft.closing.package import what_it_is
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
    Super,
)
from weft.frontend.ir import Instr

T = TypeVar("T")
_NOT_OF_CLASS = "super(type, obj): obj must be an instance or subtype of type"


class Attributes(Displays):
    """The part of `Walk` that asks values for what they have."""

    def verb_attr(self, instr: Instr) -> None:
        if self.is_called(instr.outs[0]):
            holder = self.read(instr.operands[0])
            if not isinstance(holder, Static) or isinstance(holder.value, Tensor):
                self.env[instr.outs[0]] = Bound(self.copied(holder), instr.attr)
                return
        self.settle(instr, self.attribute(self.read(instr.operands[0]), instr.attr))

    verb_lookup = verb_attr

    def is_called(self, register: int) -> bool:
        """Whether what comes calls what a temporary holds."""
        instructions, start = self.following
        for instr in instructions[start:]:
            if instr.verb in ("call", "call_ex") and instr.operands[0] == register:
                return True
            if register in instr.outs or register in instr.operands:
                return False
        return False

    def is_asked_once(self) -> bool:
        """Whether the instruction behind this one calls `next` with what it gives."""
        instructions, start = self.following
        if not self.at or start >= len(instructions):
            return False
        verb, operands = instructions[start].verb, instructions[start].operands
        if verb != "call" or operands[1:2] != self.at.outs:
            return False
        callee = self.read(operands[0])
        return isinstance(callee, Static) and callee.value is next

    def attribute(self, holder: Abstract, name: str) -> Abstract:
        """What `holder.name` is."""
        holder = self.unread(holder)
        if isinstance(holder, Static) and not isinstance(holder.value, Tensor):
            return self.attribute_of(holder.value, name)
        if isinstance(holder, Static) and name in self.folded(holder.value):
            return Static(getattr(holder.value, name))
        if isinstance(holder, Choice):
            return self.choose(holder, lambda option: self.attribute(option, name))
        if isinstance(holder, Super):
            return self.above(holder, name, self.computed_above, None)
        if name == "__class__":
            return self.call(Static(type), [holder], {})
        if name in library.HINTS_OF_ATTRIBUTES and not self.has_attribute(name):
            reason = f"the attribute {name}, which no value of programs has"
            raise NotExportable(reason, library.HINTS_OF_ATTRIBUTES[name])
        if isinstance(holder, Closure):
            raise NotExportable(f"the attribute {name} of an inner function")
        if name == "device":
            return Static(weft.device("cpu"))
        if name in known.NEVER_OF_TENSORS:
            return Static(False)

        def plain() -> Abstract:
            kind = "Tensor" if name in ("T", "mT", "H", "mH", "data", "real", "imag") else ""
            return Dynamic(self.made("attr", (self.operand(holder),), name), kind)

        found = self.computed_by(name)
        if not found or kind_of(holder) == "Tensor":
            return plain()
        return self.of_record(holder, found, lambda k, f: self.computed(f, holder, k), plain)

    def has_attribute(self, name: str) -> bool:
        """Whether a class of records has what values of programs lack."""
        state = self.closer.state
        return bool(state.kinds_of(tuple) if name == "_fields" else state.with_method(name))

    def computed_by(self, name: str) -> list[tuple[type, Any]]:
        """The classes of records that compute an attribute, and what they do it by."""
        found = self.closer.state.with_method(name)
        return [(kind, f) for kind, f in found if type(f) is property or is_descriptor(f)]

    def above(
        self,
        of: Super,
        name: str,
        work: Callable[[type, Any, Abstract], Abstract],
        otherwise: Callable[[type, type, Abstract], Abstract] | None,
    ) -> Abstract:
        """Does it with the method that `super()` finds under a name for an object's class;
        `otherwise` where the class above has none whose source somebody wrote."""
        kinds = [kind for kind, _ in self.closer.state.with_method(name)]
        kinds = [kind for kind in kinds if issubclass(kind, of.kind)] or [of.kind]
        found = {kind: method_above(kind, of.kind, name) for kind in kinds}

        def one(kind: type, told: tuple[type, Any]) -> Abstract:
            base, method = told
            if method is not None:
                return work(kind, method, of.holder)
            if otherwise is not None:
                return otherwise(kind, base, of.holder)
            raise NotExportable(f"super().{name} of {kind.__qualname__}, which needs Python")

        if len(set(found.values())) == 1:
            return one(kinds[0], found[kinds[0]])
        return self.of_record(
            of.holder, list(found.items()), one, lambda: self.raised(TypeError, _NOT_OF_CLASS)
        )

    def computed_above(self, kind: type, found: Any, holder: Abstract) -> Abstract:
        """The attribute that `super()` finds, if it is a property."""
        if type(found) is property or is_descriptor(found):
            return self.computed(found, holder, kind)
        raise NotExportable(f"a method of super() as a value ({what_it_is(found)})", "call it")

    def computed(self, found: Any, holder: Abstract, kind: type) -> Abstract:
        """What a property or descriptor gives."""
        if isinstance(found, property):
            return self.call(Static(found.fget), [holder], {})
        return self.call(Static(type(found).__get__), [Static(found), holder, Static(kind)], {})

    def set_by(self, found: Any, name: str, holder: Abstract, value: Abstract) -> Abstract:
        """Has a property or descriptor set what it stands for."""
        if isinstance(found, property) and found.fset is not None:
            return self.call(Static(found.fset), [holder, value], {})
        if not isinstance(found, property) and hasattr(type(found), "__set__"):
            return self.call(Static(type(found).__set__), [Static(found), holder, value], {})
        raise NotExportable(f"the attribute {name} that is set, for which {what_it_is(found)} "
                            "stands, which has no setter")  # fmt: skip

    def folded(self, tensor: Tensor) -> frozenset[str]:
        """What of a tensor that is there before the program runs is worked out now: its sizes, but
        for parameters and buffers, in whose place others may be put; a dtype may be converted."""
        return known.FIXED_OF_TENSORS | (
            frozenset() if self.closer.package.has_name(tensor) else known.SIZES_OF_TENSORS
        )

    def attribute_of(self, holder: Any, name: str) -> Abstract:
        """The attribute of a known object; properties of Modules are functions of the program."""
        state = self.closer.state
        state.looks_up(holder, name)
        if name == "training" and state.keeps_training and isinstance(holder, weft.nn.Module):
            state.changes(holder, name)
        if (place := state.find(holder, name)) is not None:
            return Dynamic(self.made("attr", (self.writer.constant(Ref("object", place)),), name))
        if isinstance(holder, weft.nn.Module):
            if name in holder.__dict__.get("_written", ()):
                raise NotExportable(f"the attribute {name}, which a program that was loaded writes")
            found = inspect.getattr_static(type(holder), name, None)
            if isinstance(found, property) and isinstance(found.fget, types.FunctionType):
                return self.computed(found, Static(holder), type(holder))
            held = name in vars(holder) and not hasattr(type(found), "__set__")
            if is_descriptor(found) and not held:
                return self.computed(found, Static(holder), type(holder))
            if isinstance(found, functools.cached_property) and not held:
                return Static(state.cached(holder, name, found.func))  # type: ignore[arg-type]
        try:
            return Static(getattr(holder, name))
        except AttributeError as error:
            raise NotExportable(str(error)) from None

    def by_class(
        self,
        holder: Abstract,
        name: str,
        args: list[Abstract],
        plain: Callable[[], Abstract],
        words: Words | None = None,
    ) -> Abstract:
        """What a special method of a record gives; `plain` does it for all other values."""
        found = self.special_methods(holder, name)
        if not found:
            return plain()
        return self.of_record(
            holder, found, lambda kind, f: self.of_class(kind, f, holder, args, words or {}), plain
        )

    def special_methods(self, holder: Abstract, name: str) -> list[tuple[type, Any]]:
        """The classes of records that have a special method, where a value may be a record."""
        may_be = isinstance(holder, Dynamic) and not holder.kind
        return self.closer.state.with_method(name) if may_be else []

    def of_class(
        self, kind: type, found: Any, holder: Abstract, args: list[Abstract], words: Words
    ) -> Abstract:
        """A method of a record."""
        raise NotImplementedError

    def raised(self, kind: type[BaseException], message: str) -> Abstract:
        """Raises when the program runs."""
        raise NotImplementedError

    def of_record(
        self,
        holder: Abstract,
        found: list[tuple[type, Any]],
        work: Callable[[type, Any], Abstract],
        otherwise: Callable[[], Abstract],
    ) -> Abstract:
        """Does it with what the class of a record has; `otherwise` with values of other kinds."""
        holder_at = self.operand(holder)
        test = self.writer.constant(Ref("builtin", "isinstance"))

        def is_one(kind: type) -> int:
            of = self.writer.constant(self.closer.state.record(kind))
            return self.made("call", (test, holder_at, of), ())

        return self.case(found, lambda one: is_one(one[0]), lambda one: work(*one), otherwise)

    def case(
        self,
        options: list[T],
        test: Callable[[T], int],
        work: Callable[[T], Abstract],
        otherwise: Callable[[], Abstract | None],
    ) -> Dynamic:
        """What `work` gives for the first option whose test holds when the program runs;
        `otherwise` gives a value or raises."""
        out, kinds = self.writer.register(), set()

        def give(value: Abstract | None) -> None:
            if value is not None:
                kinds.add(value.kind if isinstance(value, Dynamic) else "")
                self.emit("move", (out,), (self.operand(value),))

        def one(k: int) -> None:
            if k == len(options):
                return give(otherwise())
            holds = test(options[k])
            with self.writer.region() as first:
                give(work(options[k]))
            with self.writer.region() as second:
                one(k + 1)
            self.emit("if", (), (holds,), None, (first, second))

        one(0)
        return Dynamic(out, kinds.pop() if len(kinds) == 1 else "")

    def verb_set_attr(self, instr: Instr) -> None:
        holder, value = (self.read(o) for o in instr.operands)
        value = self.lasting(value)
        if isinstance(holder, Closure) and instr.attr == "__annotations__":
            return
        if isinstance(holder, Static) and not isinstance(holder.value, Tensor):
            return self.set_of(holder, instr.attr, value)

        def plain() -> Abstract:
            operands = self.operand(holder), self.operand(value)
            self.emit("set_attr", (), operands, instr.attr)
            return Static(None)

        # one without a setter refuses what is set, when it is (why_refused)
        found = [(k, f) for k, f in self.computed_by(instr.attr) if getattr(f, "fset", f)]
        if not found or kind_of(holder) == "Tensor":
            plain()
            return
        self.of_record(holder, found, lambda _, f: self.set_by(f, instr.attr, holder, value), plain)

    def set_of(self, holder: Static, name: str, value: Abstract) -> None:
        """Sets an attribute of a known object, as its class says."""
        kind = type(holder.value)
        if own_method(kind, "__setattr__"):
            reason = f"an attribute that is set where {kind.__qualname__} has a __setattr__"
            raise NotExportable(reason, "write a method that does what it does, and call it")
        found = inspect.getattr_static(kind, name, None)
        by_property = isinstance(found, property) and is_own(found.fget)
        if by_property or is_descriptor(found) and hasattr(type(found), "__set__"):
            self.set_by(found, name, holder, value)
            return
        target = self.writer.constant(Ref("object", self.closer.state.changes(holder.value, name)))
        self.emit("set_attr", (), (target, self.operand(value)), name)

    def verb_del_attr(self, instr: Instr) -> None:
        raise NotExportable("an attribute that is deleted", "set it to None")

    def verb_item(self, instr: Instr) -> None:
        holder, key = (self.read(o) for o in instr.operands)
        self.settle(instr, self.item(holder, key))

    def item(self, holder: Abstract, key: Abstract) -> Abstract:
        """What `holder[key]` is."""
        holder = self.unread(holder)
        if isinstance(key, Choice):
            return self.choose(key, lambda option: self.item(holder, option))
        if isinstance(holder, (Pack, Items)) and isinstance(key, Static):
            found = self.known_item(holder, key.value)
            if found is not None:
                return found
        if isinstance(holder, Static) and not isinstance(holder.value, Tensor):
            if isinstance(key, Static) and not isinstance(key.value, Tensor):
                try:
                    return Static(holder.value[key.value])
                except (IndexError, KeyError, TypeError):
                    pass  # when the program runs
            if isinstance(holder.value, (weft.nn.ParameterDict, weft.nn.ParameterList)):
                parameters = self.parameters_of(holder.value)
                at = self.operand(self.index_in(parameters, key))
                return Dynamic(self.made("item", (self.operand(parameters), at)))
            if not self.can_hold(holder):
                return self.chosen(self.options_of(holder.value), key)
        if isinstance(holder, (Pack, Items)) and not self.can_hold(holder):
            words = isinstance(holder, Items) and holder.kind is dict
            parts = dict(zip(holder.keys, holder.items)) if words else holder.items  # type: ignore[union-attr]
            return self.chosen(parts, key)

        def plain() -> Abstract:
            at = self.operand(self.index_in(holder, as_number(key)))
            return Dynamic(self.made("item", (self.operand(holder), at)))

        return self.by_class(holder, "__getitem__", [key], plain)

    def parameters_of(self, holder: Any) -> Items:
        """The dict or list of what a ParameterDict or ParameterList holds."""
        if isinstance(holder, weft.nn.ParameterList):
            return Items(list, [Static(p) for p in holder])
        return Items(dict, [Static(p) for p in holder.values()], list(holder.keys()))

    def items_where(self, one: Abstract, kind: str, value: Abstract) -> Abstract:
        """The items of a value that is a record, where another value is of a kind; else itself."""
        raise NotImplementedError

    def index_in(self, holder: Abstract, key: Abstract) -> Abstract:
        """What stands for a place in a list or tuple."""
        raise NotImplementedError

    def known_item(self, holder: Pack | Items, key: Any) -> Abstract | None:
        if isinstance(holder, Items) and holder.kind is dict:
            return holder.items[holder.keys.index(key)] if key in holder.keys else None
        if isinstance(key, slice):
            return self.packed(list(holder.items[key])) if isinstance(holder, Pack) else None
        if type(key) is int and -len(holder.items) <= key < len(holder.items):
            return holder.items[key]
        return None

    def options_of(self, holder: Any) -> dict[Any, Abstract] | list[Abstract]:
        """The items of a container of Modules or functions."""
        if isinstance(holder, (dict, weft.nn.ModuleDict)):
            return {name: Static(item) for name, item in holder.items()}
        if isinstance(holder, (list, tuple, weft.nn.ModuleList, weft.nn.Sequential)):
            return [Static(item) for item in holder]
        raise NotExportable(f"an item of {what_it_is(holder)}")

    def chosen(self, items: Mapping[Any, Abstract] | Sequence[Abstract], key: Abstract) -> Abstract:
        """One of several Modules or functions: which, the run knows."""
        if any(loop.may_unroll for loop in self.loops):
            raise NeedsUnrolling("a Module chosen by the loop's variable")
        if isinstance(items, Mapping):
            options: list[tuple[tuple[Any, ...], Abstract]]
            options = [((name,), item) for name, item in items.items()]
        else:
            n = len(items)
            options = [((k, k - n), item) for k, item in enumerate(items)]
        return Choice(self.made("move", (self.operand(key),)), options)

    def choose(self, choice: Choice, work: Callable[[Abstract], Abstract]) -> Abstract:
        """Does it with the option that a key names."""

        def is_key(option: tuple[tuple[Any, ...], Abstract]) -> int:
            return self.made("compare", (choice.key, self.writer.constant(option[0])), "in")

        return self.case(
            choice.options, is_key, lambda option: work(option[1]), lambda: self.no_option(choice)
        )

    def no_option(self, choice: Choice) -> None:
        """Raises what Python raises for a key that is not there."""
        word = "KeyError" if isinstance(choice.options[0][0][0], str) else "IndexError"
        kind = self.writer.constant(Ref("type", word))
        message = choice.key
        if word == "IndexError":
            parts = [self.made("format", (choice.key, self.writer.constant("")), "")]
            parts.insert(0, self.writer.constant("index "))
            parts.append(self.writer.constant(" is out of range"))
            message = self.made("join", tuple(parts))
        error = self.made("call", (kind, message), ())
        self.emit("raise", (), (error,))

    def verb_set_item(self, instr: Instr) -> None:
        holder, key, value = (self.read(o) for o in instr.operands)
        value = self.lasting(value)
        if isinstance(holder, Static) and not isinstance(holder.value, Tensor):
            raise NotExportable(
                f"an item set in {what_it_is(holder.value)}, which was there before the run",
                "keep it in a buffer, or pass it in and return it",
            )

        def plain() -> Abstract:
            given = self.items_where(key, "slice", value)
            self.emit("set_item", (), tuple(map(self.operand, (holder, key, given))))
            return Static(None)

        self.by_class(holder, "__setitem__", [key, value], plain)

    def verb_del_item(self, instr: Instr) -> None:
        holder, key = (self.read(o) for o in instr.operands)
        if isinstance(holder, Static):
            raise NotExportable(f"an item of {what_it_is(holder.value)} that is deleted")

        def plain() -> Abstract:
            self.emit("del_item", (), tuple(map(self.operand, (holder, key))))
            return Static(None)

        self.by_class(holder, "__delitem__", [key], plain)

    def verb_super(self, instr: Instr) -> None:
        kind, holder = (self.read(o) for o in instr.operands)
        if not isinstance(kind, Static):
            raise NotExportable("super() of what only a run knows")
        self.env[instr.outs[0]] = (
            Static(super(kind.value, holder.value))
            if isinstance(holder, Static)
            else Super(kind.value, self.copied(holder))
        )

    def verb_import(self, instr: Instr) -> None:
        name, names, level = instr.attr
        self.env[instr.outs[0]] = Static(__import__(name, self.target.module, None, names, level))

    def verb_import_from(self, instr: Instr) -> None:
        holder = self.read(instr.operands[0])
        assert isinstance(holder, Static)
        self.env[instr.outs[0]] = self.attribute_of(holder.value, instr.attr)
