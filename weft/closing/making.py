"""Classes that are called: what their objects are, and what `super().__init__` does."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import inspect
import operator
import types
from typing import Any

import weft
from weft import Tensor
from weft.base.modes import _Mode
from weft.closing import known, library
from weft.closing.attributes import Attributes
from weft.closing.classes import fields_of, is_made, is_record, shared_by
from weft.closing.errors import NotBound, NotExportable
from weft.closing.frame import Words
from weft.closing.values import Abstract, Dynamic, Static

_MADE_NOW = (contextlib.nullcontext, weft.autocast, operator.itemgetter, functools.partial)


def nearest_error(kind: type[BaseException]) -> type[BaseException]:
    """The class of exceptions that programs have and that one of the user's is of."""
    return next(base for base in kind.__mro__ if base in known.ERRORS)


class Making(Attributes):
    """The part of `Walk` that makes objects."""

    def call_class(self, kind: type, args: list[Abstract], words: Words) -> Abstract:
        """What an instance of a class is."""
        if kind is weft.set_grad_enabled:
            return self.grad_scope(args, words)
        if issubclass(kind, _Mode) or kind in _MADE_NOW:
            made = self.now(kind, args, words)
            if made is not None:
                return made
        if is_record(kind):
            return self.call_record(kind, args, words)
        if issubclass(kind, BaseException):
            raise NotExportable(
                f"an exception of the class {kind.__qualname__}",
                f"raise one that a program has, as {nearest_error(kind).__name__}",
            )
        if kind is collections.OrderedDict:
            return self.call(Static(dict), args, words)
        raise NotExportable(
            f"an object of the class {kind.__qualname__} that is made",
            library.HINTS.get(kind, "use a class of your own, a NamedTuple or a tuple"),
        )

    def call_one_of(self, kind: Dynamic, args: list[Abstract], words: Words) -> Abstract:
        """A call of a class that only a run knows, as that of `type(self)`."""

        def make(one: type) -> Abstract:
            try:
                return self.call_class(one, args, words)
            except NotBound as error:
                return self.raised(TypeError, error.reason)

        kinds = [k for k in self.closer.state.kinds_of(object) if not issubclass(k, tuple)]
        return self.case(
            kinds,
            lambda one: self.is_kind(kind, one),
            make,
            lambda: self.call_at_run(kind.register, args, words),
        )

    def is_kind(self, kind: Dynamic, one: type) -> int:
        """Whether a class that only a run knows is one of records."""
        of = self.writer.constant(self.closer.state.record(one))
        return self.made("compare", (kind.register, of), "is")

    def grad_scope(self, args: list[Abstract], words: Words) -> Abstract:
        """`set_grad_enabled`, which holds at once, not in a scope alone: here only in a `with`."""
        on = [*args, *words.values()][0]
        instructions, start = self.following
        entered = start < len(instructions) and instructions[start].verb == "with"
        if not isinstance(on, Static) or isinstance(on.value, Tensor) or not entered:
            raise NotExportable(
                "set_grad_enabled() with what only a run knows, or outside of a with statement",
                "with no_grad() or enable_grad()",
            )
        return Static(weft.enable_grad() if on.value else weft.no_grad())

    def call_record(self, kind: type, args: list[Abstract], words: Words) -> Abstract:
        """A new record: as its `__new__` makes it, its fields in order, or none yet and its
        `__init__` sets them."""
        if inspect.isabstract(kind):
            try:
                object.__new__(kind)
            except TypeError as error:
                return self.raised(TypeError, str(error))
        new = inspect.getattr_static(kind, "__new__", None)
        if isinstance(new, staticmethod) and not is_made(new.__func__.__code__):
            return self.call(Static(new.__func__), [Static(kind), *args], words)
        return self.plain_record(kind, args, words)

    def plain_record(self, kind: type, args: list[Abstract], words: Words) -> Abstract:
        """The same where no `__new__` of the user's makes it."""
        ref = self.writer.constant(self.closer.state.record(kind))
        start = inspect.getattr_static(kind, "__init__", None)
        if isinstance(start, types.FunctionType) and not is_made(start.__code__):
            made = self.call_at_run(ref, [], {})
            self.share(kind, made)
            self.call(Static(start), [made, *args], words)
            return made
        made = self.call_at_run(ref, list(self.given_fields(kind, args, words).values()), {})
        self.share(kind, made)
        return self.started(kind, made)

    def given_fields(self, kind: type, args: list[Abstract], words: Words) -> Words:
        """What the fields of a named tuple or dataclass are for a call of its class."""
        signature = inspect.signature(kind)
        try:
            bound = signature.bind(*args, **words)
        except TypeError as error:
            raise NotBound(f"{kind.__name__}: {error}") from None
        for name, param in signature.parameters.items():
            if name not in bound.arguments:
                bound.arguments[name] = self.default_of(kind, name, param.default)
        fields = fields_of(kind)
        if bound.arguments.keys() != set(fields):
            raise NotExportable(f"an object of {kind.__name__}, which computes what it has")
        return {name: bound.arguments[name] for name in fields}

    def start_above(
        self, name: str, base: type, holder: Abstract, args: list[Abstract], words: Words
    ) -> Abstract:
        """`super().__init__(…)` where dataclasses made it, or objects have it; raises for other
        methods."""
        if name == "__init__" and base is object and not args and not words:
            return Static(None)
        if name != "__init__" or not dataclasses.is_dataclass(base):
            raise NotExportable(f"super().{name}() of {base.__qualname__}, which needs Python")
        for field, value in self.given_fields(base, args, words).items():
            self.emit("set_attr", (), (self.operand(holder), self.operand(value)), field)
        self.started(base, holder)
        return Static(None)

    def started(self, kind: type, made: Abstract) -> Abstract:
        """An object whose fields are set: what its class does then."""
        after = inspect.getattr_static(kind, "__post_init__", None)
        if dataclasses.is_dataclass(kind) and isinstance(after, types.FunctionType):
            self.call(Static(after), [made], {})
        elif after is not None:
            raise NotExportable(f"an object of {kind.__name__}, which computes what it has")
        return made

    def share(self, kind: type, made: Abstract) -> None:
        """Sets what a class has for all its objects."""
        for name, value in shared_by(kind).items():
            self.emit("set_attr", (), (self.operand(made), self.writer.constant(value)), name)

    def default_of(self, kind: type, name: str, default: Any) -> Abstract:
        """The default value of a field."""
        if dataclasses.is_dataclass(kind):
            (field,) = [f for f in dataclasses.fields(kind) if f.name == name]
            if field.default_factory is not dataclasses.MISSING:
                return self.call(Static(field.default_factory), [], {})
        return Static(default)
