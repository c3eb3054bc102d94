"""What is called: ops, Modules, classes, functions of Python's, and how arguments are bound."""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import types
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import weft
from weft import Tensor
from weft.closing import known, library, ordering
from weft.closing.classes import fields_of, is_made, is_record, own_method, unwrapped
from weft.closing.close import Target, dynamic_parts, expect_no_hooks
from weft.closing.errors import NotBound, NotExportable
from weft.closing.frame import UNKNOWN, Words, kind_of, plain
from weft.closing.loaded import LoadedEntry, numbers_of
from weft.closing.making import Making
from weft.closing.package import what_it_is
from weft.closing.program import target_of
from weft.closing.values import (
    Abstract,
    Bound,
    Choice,
    Closure,
    Dynamic,
    Items,
    KnownIterator,
    Lost,
    Pack,
    Ref,
    Static,
    Super,
)
from weft.compiler.function import CompiledFunction, innermost
from weft.frontend import Outside
from weft.frontend.ir import Instr, Lowered

_PLAIN = (str, list, dict, tuple, int, float, set, frozenset)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_OPENED = (types.FunctionType, types.MethodType)
# Methods of Modules that say what there is: they are called while the program is closed.
_GENERATORS = frozenset(
    {
        "parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules",
        "children", "named_children",
    }
)  # fmt: skip
_VIEWS = frozenset({"items", "keys", "values"})
_OF_MODULES = frozenset({"get_parameter", "get_buffer", "get_submodule", "extra_repr"})


def is_named_tuple(kind: Any) -> bool:
    """Whether it is a class of named tuples that makes them of their items alone."""
    if not (isinstance(kind, type) and issubclass(kind, tuple) and is_record(kind)):
        return False
    new = inspect.getattr_static(kind, "__new__", None)
    return isinstance(new, staticmethod) and is_made(new.__func__.__code__)


class Calls(Making):
    """The part of `Walk` that calls."""

    def special(self, function: Any, args: list[Abstract], words: Words) -> Abstract | None:
        """What a function gives that is known here by itself; None: a run has to call it."""
        raise NotImplementedError

    def verb_call(self, instr: Instr) -> None:
        callee, *args = (self.read(o) for o in instr.operands)
        n = len(args) - len(instr.attr)
        value = self.call(callee, args[:n], dict(zip(instr.attr, args[n:])))
        self.settle(instr, self.reading(value, callee, args))

    def verb_call_ex(self, instr: Instr) -> None:
        callee, args, words = (self.read(o) for o in instr.operands)
        args = self.gone_through(args)
        parts = self.known_items(args)
        named = {} if isinstance(words, Static) and words.value is None else self.known_words(words)
        if parts is not None and named is not None:
            value = self.call(callee, parts, named)
            return self.settle(instr, self.reading(value, callee, [*parts, *named.values()]))
        if isinstance(callee, Bound):
            row = Dynamic(self.made("list", (self.operand(callee.holder),)))
            self.emit("extend", (), (row.register, self.operand(args)))
            args = Dynamic(self.made("to_tuple", (row.register,)))
            composite = self.is_composite(callee.name, callee.holder)
            name = callee.name
            callee = Static(known.of_tensors(name) if composite else Ref("op", f"Tensor.{name}"))
        given = words if named is None else Items(dict, list(named.values()), list(named))
        return self.settle(
            instr, self.call_open(callee, args, given if named != {} else Static(None))
        )

    def call_open(self, callee: Abstract, args: Abstract, words: Abstract) -> Abstract:
        """A call with as many arguments as a run has: of a function that binds them itself."""
        if isinstance(callee, Choice):
            return self.choose(callee, lambda option: self.call_open(option, args, words))
        if isinstance(callee, Static) and isinstance(
            module := innermost(callee.value), weft.nn.Module
        ):
            return self.call_open(self.called(module), args, words)
        is_empty = isinstance(words, Static) and words.value is None
        if isinstance(callee, Static) and is_named_tuple(callee.value) and is_empty:
            return self.named_tuple_of(callee.value, args)
        if isinstance(callee, Dynamic) and callee.kind == "type":
            return self.open_one_of(callee, args, words)
        if self.is_of_programs(callee):
            return self.called_open(self.operand(callee), args, words)
        self.refresh()
        if isinstance(callee, Closure) and not dynamic_parts(callee):
            number = self.closer.open_function(self.target_of_closure(callee), [], [], not is_empty)
        elif isinstance(callee, Static) and isinstance(unwrapped(innermost(callee.value)), _OPENED):
            target, fixed, modes = target_of(callee.value, self.closer.state)
            number = self.closer.open_function(target, fixed, modes, not is_empty)
        else:
            reason = "a call with * or ** of what only a run knows"
            raise NotExportable(reason, "pass the arguments one by one")
        return self.called_open(self.writer.constant(Ref("function", number)), args, words)

    def named_tuple_of(self, kind: Any, args: Abstract) -> Abstract:
        """A named tuple of as many values as a run has: what its class says of that number."""
        kept = Dynamic(self.operand(self.call(Static(tuple), [args], {})))
        count = self.operand(self.call(Static(len), [kept], {}))
        fields = len(fields_of(kind))

        def of(number: int) -> Abstract:
            try:
                kind(*[None] * number)
            except TypeError as error:
                return self.raised(TypeError, str(error))
            items = tuple(self.writer.register() for _ in range(number))
            self.emit("unpack", items, (kept.register,))
            return self.call(Static(kind), list(map(Dynamic, items)), {})

        def is_number(number: int) -> int:
            return self.made("compare", (count, self.writer.constant(number)), "==")

        takes = f"{kind.__name__}.__new__() takes {fields + 1} positional arguments"
        message = f"{takes} but more were given"
        return self.case(
            [*range(fields + 1)], is_number, of, lambda: self.raised(TypeError, message)
        )

    def called_open(self, callee: int, args: Abstract, words: Abstract) -> Dynamic:
        """The same of what a program has."""
        return Dynamic(self.made("call_ex", (callee, self.operand(args), self.operand(words))))

    def open_one_of(self, kind: Dynamic, args: Abstract, words: Abstract) -> Abstract:
        """The same of a class that only a run knows, as that of a result is."""

        def make(one: type) -> Abstract:
            if is_named_tuple(one):
                return self.call_open(Static(one), args, words)
            message = f"a call of {one.__qualname__} with * or ** of what only a run knows"
            return self.raised(NotImplementedError, message)

        return self.case(
            self.closer.state.kinds_of(object),
            lambda one: self.is_kind(kind, one),
            make,
            lambda: self.called_open(kind.register, args, words),
        )

    def of_library(self, value: Any) -> Callable[..., Any] | None:
        """What stands for a function of Python's library in programs, if it is one."""
        if isinstance(value, (type, types.BuiltinFunctionType, types.FunctionType)):
            return library.FUNCTIONS.get(value)
        return None

    def all_of_iterator(self, value: Abstract) -> Abstract:
        """A list, or a tuple that is known, as what an iterator gives."""
        if isinstance(value, Items):
            value.fresh = True
        if isinstance(value, Dynamic):
            return Dynamic(value.register, "iterator")
        return Static(value.value, fresh=True) if isinstance(value, Static) else value

    def arranged(self, value: Any, args: list[Abstract], words: Words) -> Abstract | None:
        """What a function that arranges items gives of Modules, which no run could hold."""
        if value not in library.ARRANGES:
            return None
        if value == itertools.chain.from_iterable:
            value, args = itertools.chain, self.known_items(args[0]) or [Dynamic(-1)]
        lists = [self.known_items(a) for a in args]
        if all(self.can_hold(item) for items in lists for item in items or ()):
            return None
        named: dict[str, Any] = (
            {"fillvalue": Static(None)} if value is itertools.zip_longest else {}
        )
        named.update({k: v if k == "fillvalue" else plain(v) for k, v in words.items()})
        given = [plain(a) if items is None else items for a, items in zip(args, lists)]
        if any(v is UNKNOWN for v in (*given, *named.values())):
            return None
        made = value(*given, **named)
        return Pack(tuple(Pack(one) if isinstance(one, tuple) else one for one in made))

    def is_of_programs(self, callee: Abstract) -> bool:
        """Whether a callee is an op or a builtin, which takes what comes."""
        return isinstance(callee, Static) and isinstance(known.as_constant(callee.value), Ref)

    def verb_method(self, instr: Instr) -> None:
        name, names, _ = instr.attr
        holder, *args = (self.read(o) for o in instr.operands)
        n = len(args) - len(names)
        self.settle(instr, self.method(holder, name, args[:n], dict(zip(names, args[n:]))))

    def call(self, callee: Abstract, args: list[Abstract], words: Words) -> Abstract:
        """What a call gives."""
        if isinstance(callee, Closure):
            return self.call_closure(callee, args, words)
        if isinstance(callee, Choice):
            return self.choose(callee, lambda option: self.call(option, args, words))
        if isinstance(callee, Bound):
            return self.method(callee.holder, callee.name, args, words)
        if isinstance(callee, Dynamic) and callee.kind == "type":
            return self.call_one_of(callee, args, words)
        if not isinstance(callee, Static):
            return self.by_class(
                callee,
                "__call__",
                args,
                lambda: self.call_at_run(self.operand(callee), args, words),
                words,
            )
        value = innermost(callee.value)
        if value is None:
            return self.raised(TypeError, "'NoneType' object is not callable")
        if name := known.op_name(value):
            self.expect_no_out(name, words)
            kind = "Tensor" if known.gives_a_tensor(name) and "out" not in words else ""
            return self.call_at_run(self.writer.constant(Ref("op", name)), args, words, kind)
        if (found := self.special(value, args, words)) is not None:
            return found
        if known.is_worked_out(value) and (made := self.now(value, args, words)) is not None:
            return made
        if (own := self.of_library(value)) is not None:
            if args and isinstance(args[0], Static) and isinstance(args[0].value, deque):
                args = [Static(tuple(args[0].value)), *args[1:]]  # that was there before
            if (made := self.arranged(value, args, words)) is not None:
                return made
            made = self.call_function(own, args, words)
            return self.all_of_iterator(made) if library.gives_iterator(value) else made
        if isinstance(ref := known.as_constant(value), Ref):
            if value is OSError and len(args) > 1:
                reason = "an OSError with a number, by which Python makes another class of it"
                raise NotExportable(reason, "give it a text alone")
            kind = "Tensor" if ref.name == "tensor" else ""
            return self.call_at_run(self.writer.constant(ref), args, words, kind)
        if isinstance(value, LoadedEntry):
            number = numbers_of(self.closer, value.program)[value.name]
            return self.call_at_run(self.writer.constant(Ref("function", number)), args, words)
        if isinstance(value, weft.nn.Module):
            return self.call(self.called(value), args, words)
        if isinstance(value, functools.partial):
            given = [*map(Static, value.args), *args]
            named: Words = {name: Static(word) for name, word in value.keywords.items()}
            return self.call(Static(value.func), given, {**named, **words})
        if isinstance(value, operator.itemgetter):
            items = [self.item(args[0], Static(key)) for key in value.__reduce__()[1]]
            return items[0] if len(items) == 1 else Pack(tuple(items))
        if isinstance(value, types.BuiltinMethodType) and isinstance(value.__self__, ContextVar):
            if (made := self.now(value, args, words)) is not None:
                return made
        if isinstance(value, types.BuiltinMethodType) and isinstance(value.__self__, _PLAIN):
            return self.method(Static(value.__self__), value.__name__, args, words)
        if type(value).__name__ == "Method" and args:
            return self.method(args[0], value.__name__, args[1:], words)
        if isinstance(value, types.MethodDescriptorType) and args:  # str.lower, as key=
            of = value.__objclass__
            if of in known.TYPES and of is not Tensor:
                given = [args[0], Static(of), Static(value.__name__)]
                one = self.call_function(library.of_kind, given, {})
                return self.method(one, value.__name__, args[1:], words)
        if isinstance(value, types.MethodType):
            if value.__func__ is weft.nn.Module.__call__:  # of super()
                return self.call(self.attribute_of(value.__self__, "forward"), args, words)
            return self.call(Static(value.__func__), [Static(value.__self__), *args], words)
        if isinstance(value, type):
            return self.call_class(value, args, words)
        return self.call_function(value, args, words)

    def call_at_run(
        self, callee: int, args: list[Abstract], words: Words, kind: str = ""
    ) -> Abstract:
        """A call of what a program has."""
        if "memory_format" in words and kind == "Tensor":
            form, words = self.format_in(words)
            return self.in_format(self.call_at_run(callee, args, words, kind), form)
        for unsaid in ("device", "layout", "pin_memory"):
            if isinstance(words.get(unsaid), Static):
                words = {k: v for k, v in words.items() if k != unsaid}
        operands = tuple(self.operand(a) for a in [*args, *words.values()])
        return Dynamic(self.made("call", (callee, *operands), tuple(words)), kind)

    def format_in(self, words: Words) -> tuple[Any, Words]:
        """The memory format among arguments by name, and the others."""
        form = words["memory_format"]
        if not isinstance(form, Static):
            raise NotExportable("a memory format that only a run knows")
        return form.value, {k: v for k, v in words.items() if k != "memory_format"}

    def in_format(self, made: Abstract, form: Any) -> Abstract:
        """A tensor in a memory format: programs write an order of memory by permutations."""
        dims = {weft.channels_last: 4, weft.channels_last_3d: 5}.get(form)
        if dims is None:  # what ops give without being told
            return made
        return self.call_function(library.channels_last, [made, Static(dims)], {})

    def called(self, module: Any) -> Abstract:
        """The `forward` of a Module, or what its class does in its place when it is called."""
        expect_no_hooks(module)
        own = own_method(type(module), "__call__")
        return Static(own.__get__(module)) if own else self.attribute_of(module, "forward")

    # ---- functions

    def call_function(self, value: Any, args: list[Abstract], words: Words) -> Abstract:
        """A function of Python's, as a function of the package."""
        hint = library.HINTS.get(value) if isinstance(value, _FUNCTIONS) else None
        if hint is not None:
            raise NotExportable(f"a call of {value.__qualname__}, which needs Python", hint)
        value = unwrapped(value)
        if isinstance(value, (weft.nn.Module, types.MethodType)):
            return self.call(Static(value), args, words)
        if isinstance(value, CompiledFunction):
            return self.call(Static(value.callee), args, words)
        if not isinstance(value, types.FunctionType):
            raise NotExportable(f"a call of {what_it_is(value)}, which needs Python")
        if value.__name__ == "__new__" and is_made(value.__code__):  # of a named tuple
            (kind, *args) = args
            if isinstance(kind, Static) and is_record(kind.value):
                return self.plain_record(kind.value, args, words)
        if (mode := known.mode_around(value)) is not None:
            inside = value.__dict__["__wrapped__"]
            return self.in_mode(mode, lambda: self.call_function(inside, args, words))
        mark = getattr(value, "_torchscript_modifier", "").replace("export", "")
        if mark:
            raise NotExportable(
                f"a call of {value.__qualname__}, which jit.{mark} leaves to Python"
            )
        try:
            target = self.closer.state.target(value)
        except Outside as reason:
            raise NotExportable(f"a call of {value.__qualname__}: {reason}") from None
        return self.call_target(target, args, words)

    def in_mode(self, mode: Ref, work: Callable[[], Abstract]) -> Abstract:
        """What a call in a mode gives."""
        out = self.writer.register()
        with self.writer.region() as body:
            result = work()
            if not isinstance(result, Static):
                self.emit("move", (out,), (self.operand(result),))
        self.emit("with", (self.writer.register(),), (self.writer.constant(mode),), None, (body,))
        return result if isinstance(result, Static) else Dynamic(out, kind_of(result))

    def call_closure(self, closure: Closure, args: list[Abstract], words: Words) -> Abstract:
        """An inner function: what it reads of the functions around it is passed to it."""
        return self.call_target(self.target_of_closure(closure), args, words)

    def target_of_closure(self, closure: Closure) -> Target:
        """An inner function with its default values."""
        assert isinstance(closure.lowered, Lowered)
        self.refresh()
        code = closure.lowered.code
        if code is None:
            raise NotExportable("a function that no way leads to", "remove it")
        last = code.co_varnames[code.co_argcount - len(closure.defaults) : code.co_argcount]
        defaults = {**dict(zip(last, closure.defaults)), **closure.words}
        captured = {name: self.outer(name, value) for name, value in closure.captured.items()}
        return Target(closure.lowered, closure.module, captured, defaults)

    def outer(self, name: str, value: Abstract) -> Abstract:
        """What an inner function reads of a variable here; a NameError if it is unbound then."""
        perhaps = name not in self.env and value == Dynamic(self.own.get(name, -1))
        return Dynamic(self.made("outer", (self.own[name],))) if perhaps else value

    def call_target(self, target: Target, args: list[Abstract], words: Words) -> Abstract:
        """A function of the package; the result, if it is known already."""
        self.refresh()
        arguments = [self.passed(a) for a in self.bound(target, args, words)]
        made, passed = self.closer.function(target, list(arguments))
        self.lazy |= {name for _, shared in self.closures for name in shared & made.lazy}
        if made.changes_arguments:
            given = [a for a in arguments if isinstance(a, Items)]
            for register, held in self.env.items():
                if held in given:
                    self.env[register] = Lost(f"a dict that {target.lowered.name} was given")
        operands = tuple(map(self.operand, passed))
        function = self.writer.constant(Ref("function", made.number))
        out = self.made("call", (function, *operands), ())
        if isinstance(made.result, Static):
            return made.result
        return Dynamic(out, made.result.kind if isinstance(made.result, Dynamic) else "")

    def passed(self, value: Abstract) -> Abstract:
        """An argument: a parameter is what it is when the program runs, so that one function serves
        all layers."""
        if isinstance(value, Static) and isinstance(value.value, Tensor):
            return Dynamic(self.operand(value), "Tensor")
        return value if isinstance(value, Items) else self.lasting(value)

    def bound(self, target: Target, args: list[Abstract], words: Words) -> list[Abstract]:
        """Arguments in the order of the parameters, as Python binds them."""
        code, name = target.code, target.lowered.name
        count = code.co_argcount
        names = code.co_varnames[: count + code.co_kwonlyargcount]
        given: dict[str, Abstract] = dict(zip(names[:count], args))
        rest: dict[str, Abstract] = {}
        for word, value in words.items():
            if word in names[code.co_posonlyargcount :]:
                if word in given:
                    raise NotBound(f"{name}() got multiple values for argument {word!r}")
                given[word] = value
            elif code.co_flags & inspect.CO_VARKEYWORDS:
                rest[word] = value
            else:
                raise NotBound(f"{name}() got an unexpected keyword argument {word!r}")
        out = []
        for word in names:
            value = given.get(word) or target.defaults.get(word)  # type: ignore[assignment]
            if value is None:
                raise NotBound(f"{name}() missing a required argument: {word!r}")
            is_list = isinstance(value, Items) and value.kind is list
            out.append(self.settled(value) if is_list else value)  # type: ignore[arg-type]
        if code.co_flags & inspect.CO_VARARGS:
            out.append(self.packed(args[count:]))
        elif len(args) > count:
            raise NotBound(
                f"{name}() takes {count} positional arguments but {len(args)} were given"
            )
        if code.co_flags & inspect.CO_VARKEYWORDS:
            out.append(Items(dict, [self.copied(v) for v in rest.values()], list(rest)))
        return out

    # ---- methods

    def method(self, holder: Abstract, name: str, args: list[Abstract], words: Words) -> Abstract:
        """What `holder.name(…)` gives."""
        holder = self.unread(holder)
        if isinstance(holder, Choice):
            return self.choose(holder, lambda option: self.method(option, name, args, words))
        if name == "__class__":
            return self.call(self.attribute(holder, name), args, words)
        if isinstance(holder, Super):
            return self.above(
                holder,
                name,
                lambda kind, found, one: self.of_class(kind, found, one, args, words),
                lambda kind, base, one: self.start_above(name, base, one, args, words),
            )
        if isinstance(holder, Static) and not isinstance(holder.value, Tensor):
            return self.method_of(holder, name, args, words)
        if isinstance(holder, Items) and holder.kind is dict:
            if (found := self.of_words(holder, name, args)) is not None:
                return found
        if name == "sort" and kind_of(holder) != "Tensor" and self.sorts_by_calls(words):
            return self.call_function(ordering.sort, [holder, *args], words)
        if isinstance(holder, Static) and name in self.folded(holder.value):
            made = self.now(getattr(holder.value, name), args, words)
            if made is not None:
                return made

        def plain() -> Abstract:
            if not self.is_composite(name, holder):
                return self.method_at_run(holder, name, args, words)
            return self.call_function(known.of_tensors(name), [holder, *args], words)

        of = [] if kind_of(holder) == "Tensor" else self.closer.state.with_method(name)
        if not of:
            return plain()
        return self.of_record(
            holder, of, lambda kind, f: self.of_class(kind, f, holder, args, words), plain
        )

    def sorts_by_calls(self, words: Words) -> bool:
        """Whether `sort` of a list asks a function or objects for what it goes by."""
        state = self.closer.state
        by_objects = any(map(state.with_method, ("__lt__", "__gt__")))
        return ("key" in words or by_objects) and not state.with_method("sort")

    def of_class(
        self, kind: type, found: Any, holder: Abstract, args: list[Abstract], words: Words
    ) -> Abstract:
        """A method of a record."""
        if isinstance(found, functools.cached_property):
            return self.call(self.attribute(holder, found.attrname or ""), args, words)
        if isinstance(found, property):
            return self.call(self.call(Static(found.fget), [holder], {}), args, words)
        if isinstance(found, staticmethod):
            return self.call(Static(found.__func__), args, words)
        if isinstance(found, classmethod):
            return self.call(Static(found.__func__), [Static(kind), *args], words)
        if issubclass(kind, tuple) and found.__name__ == "_replace":
            fields = fields_of(kind)
            kept = {f: words[f] if f in words else self.attribute(holder, f) for f in fields}
            return self.plain_record(kind, [], kept)
        if issubclass(kind, tuple) and found.__name__ == "_asdict":
            fields = fields_of(kind)
            return Items(dict, [self.attribute(holder, f) for f in fields], list(fields))
        try:
            return self.call(Static(found), [holder, *args], words)
        except NotBound as error:  # where a value of another kind is meant
            return self.raised(TypeError, error.reason)

    def raised(self, kind: type[BaseException], message: str) -> Abstract:
        """Raises when the program runs."""
        made = self.made("call", tuple(map(self.writer.constant, (kind, message))), ())
        self.emit("raise", (), (made,))
        return Static(None)

    def is_composite(self, name: str, holder: Abstract) -> bool:
        """Whether a method is a function over ops, and not the core's: one of Tensor that no
        container has, which a value that is no tensor for sure may be."""
        if hasattr(dict, name) and kind_of(holder) != "Tensor":  # values()
            return False
        found = known.of_tensors(name)
        return isinstance(found, types.FunctionType) or type(found).__name__ == "CheckedFunction"

    def method_at_run(
        self, holder: Abstract, name: str, args: list[Abstract], words: Words
    ) -> Abstract:
        found = known.of_tensors(name)
        if "memory_format" in words and known.gives_a_tensor(name):
            form, words = self.format_in(words)
            return self.in_format(self.method_at_run(holder, name, args, words), form)
        if type(found).__name__ == "Method":
            self.expect_no_out(name, words)
        elif not self.has_method(name):
            raise NotExportable(
                f"a call of the method {name}, which no value of programs has",
                library.HINTS_OF_METHODS.get(name, library.ANNOTATE),
            )
        if name in known.GOES_THROUGH:
            args = list(map(self.gone_through, args))
        if name in known.KEEPS and kind_of(holder) != "Tensor":
            args = [self.lasting(a) for a in args]
        operands = tuple(self.operand(a) for a in [holder, *args, *words.values()])
        kind = ""
        if isinstance(holder, Static) or isinstance(holder, Dynamic) and holder.kind == "Tensor":
            is_op = type(found).__name__ == "Method"
            kind = "Tensor" if is_op and known.gives_a_tensor(name.rstrip("_")) else ""
        if type(found).__name__ == "Method":
            self.closer.package.calls(f"Tensor.{name}")
        return Dynamic(self.made("method", operands, (name, tuple(words), 0)), kind)

    def has_method(self, name: str) -> bool:
        """Whether a value of programs may have a method: one of Python's types, or a record."""
        state = self.closer.state
        held = (name in fields_of(kind) for kind in state.records.values())
        return name in known.METHODS or any(held) or bool(state.with_method(name))

    def expect_no_out(self, name: str, words: Words) -> None:
        """Raises for out=, but None; what only a run knows, the run looks at."""
        out = words.get("out", Static(None))
        is_none = isinstance(out, Static) and out.value is None
        if not is_none and (not isinstance(out, Dynamic) or out.kind == "Tensor"):
            raise NotExportable(f"{name}() with out=", "use the result, or copy_ it")

    def of_words(self, holder: Items, name: str, args: list[Abstract]) -> Abstract | None:
        """A method of a dict whose keys are known."""
        if name in ("get", "pop") and args and isinstance(args[0], Static):
            key = args[0].value
            if key in holder.keys:
                at = holder.keys.index(key)
                value = holder.items[at]
                if name == "pop":
                    del holder.keys[at], holder.items[at]
                return value
            if len(args) > 1 or name == "get":
                return args[1] if len(args) > 1 else Static(None)
        pairs = list(zip(map(Static, holder.keys), holder.items))
        if name == "items":
            return Pack(tuple(Pack(pair) for pair in pairs))
        if name == "keys":
            return Static(tuple(holder.keys))
        return Pack(tuple(holder.items)) if name == "values" else None

    def method_of(self, holder: Static, name: str, args: list[Abstract], words: Words) -> Abstract:
        """A method of an object that is known."""
        value = holder.value
        if isinstance(value, (list, dict, set)) and name in known.CHANGES:
            raise NotExportable(
                f"{name}() of a {type(value).__name__} that is there before the program runs",
                "make it in the function, or return it",
            )
        if isinstance(value, _PLAIN):
            if not hasattr(value, name):
                kind = type(value).__name__
                return self.raised(AttributeError, f"{kind!r} object has no attribute {name!r}")
            made = self.now(lambda *a, **k: getattr(value, name)(*a, **k), args, words)
            return made or self.method_at_run(holder, name, args, words)
        if isinstance(value, weft.nn.Module) and name in _GENERATORS:
            found = self.now(lambda *a, **k: tuple(getattr(value, name)(*a, **k)), args, words)
            if isinstance(found, Static):
                return self.generated(found.value)
        if isinstance(value, weft.nn.Module) and name in _VIEWS | _OF_MODULES:
            work = list if name in _VIEWS else lambda one: one
            found = self.now(lambda *a, **k: work(getattr(value, name)(*a, **k)), args, words)
            if found is not None:
                return found
        return self.call(self.attribute_of(value, name), args, words)

    def generated(self, items: tuple[Any, ...]) -> Static:
        """The iterator over these that a generator of a Module's is."""
        parts = list(map(Static, items))
        held = all(map(self.can_hold, parts))
        if not held and self.is_asked_once():
            return Static(KnownIterator(list(parts), len(self.loops)))
        return Static(items, fresh=held)
