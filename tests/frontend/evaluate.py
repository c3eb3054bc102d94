"""What lowered functions mean: a direct interpreter of `Lowered`, as plain as it can be.

`function(f)` is a Python function that runs f's instructions. An exception it raises has, in its
attribute `places`, the (code object, offset) that its traceback has to have for the functions that
were run so, the outermost first. `Machine` is one activation; a method of it is one verb.
"""

import contextlib
import functools
import inspect
import operator
import sys
import types

from weft.frontend import INLINED_SHIFT, Lowered, lower

UNBOUND = object()
CO_GENERATOR = 0x20
BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "@": operator.matmul,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift,
}  # fmt: skip
INPLACE = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv,
    "//": operator.ifloordiv, "%": operator.imod, "**": operator.ipow, "@": operator.imatmul,
    "&": operator.iand, "|": operator.ior, "^": operator.ixor, "<<": operator.ilshift,
    ">>": operator.irshift,
}  # fmt: skip
UNARY = {"-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_}
COMPARE = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    ">=": operator.ge, "is": operator.is_, "is not": operator.is_not,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}  # fmt: skip
CONVERT = {"": lambda v: v, "r": repr, "s": str, "a": ascii}


def function(f, made_of=None):
    """`f` as a function that runs its instructions; cells and default values are those of `f`."""
    lowered = made_of or lower(f)
    signature = inspect.signature(f, follow_wrapped=False)
    kinds = inspect.Parameter

    @functools.wraps(f)
    def call(*args, **kwargs):
        bound = None
        with contextlib.suppress(TypeError):
            bound = signature.bind(*args, **kwargs)
        if bound is None:
            return f(*args, **kwargs)  # CPython says what is wrong with them
        bound.apply_defaults()
        parts = [signature.parameters[n] for n in bound.arguments]
        star = [p for p in parts if p.kind is kinds.VAR_POSITIONAL]
        words = [p for p in parts if p.kind is kinds.VAR_KEYWORD]
        order = [p for p in parts if p not in star and p not in words] + star + words
        values = [bound.arguments[p.name] for p in order]
        return Machine(lowered, f.__globals__, f.__closure__ or ()).run(values)

    return call


def note(error, place):
    """One more entry at the front of a traceback."""
    places = getattr(error, "places", [])
    error.places = [place, *places]


class Machine:
    """One activation of a function."""

    def __init__(self, lowered, module, closure):
        self.lowered, self.module = lowered, module
        self.registers = [UNBOUND] * len(lowered.registers)
        self.cells = {name: types.CellType() for name in lowered.cells}
        self.cells.update(zip(lowered.free, closure))

    def run(self, values):
        self.registers[: len(values)] = values
        how, value = self.body(self.lowered.body) or ("return", None)
        assert how == "return"
        return value

    # ---- operands and places

    def value(self, operand):
        if operand < 0:
            return self.lowered.consts[~operand]
        found = self.registers[operand]
        if found is UNBOUND:
            name = self.lowered.registers[operand]
            assert name, "a temporary is read before it is written"
            raise UnboundLocalError(unbound(name))
        return found

    def note(self, error, offset):
        """The places of an exception that an instruction raised by itself, and the exception that
        becomes of it."""
        number = offset >> INLINED_SHIFT if offset >= 0 else 0
        while number:
            inlined = self.lowered.inlined[number - 1]
            note(error, (inlined.code, offset & ((1 << INLINED_SHIFT) - 1)))
            if inlined.code.co_flags & CO_GENERATOR and isinstance(error, StopIteration):
                error = RuntimeError("generator raised StopIteration")
            number, offset = inlined.parent, inlined.offset
        note(error, (self.lowered.code, offset))
        return error

    def body(self, instructions):
        """Runs instructions; what ended them: None, or ("break" …) with the value returned."""
        for instr in instructions:
            verb = getattr(self, "verb_" + instr.verb)
            if instr.verb in STRUCTURED:
                end = verb(instr)
                if end is not None:
                    return end
                continue
            handled = sys.exc_info()[1]
            try:
                given = [] if instr.verb == "outer" else map(self.value, instr.operands)
                end = verb(instr, *given)
            except BaseException as error:
                again = instr.verb == "reraise" and error is handled
                if not again and not error.__dict__.pop("noted", False):
                    if (other := self.note(error, instr.offset)) is not error:
                        raise other from error
                raise
            if instr.verb in ("break", "continue", "return"):
                return instr.verb, end
            if instr.verb != "unpack" and instr.verb != "delete" and instr.outs:
                self.registers[instr.outs[0]] = end
        return None

    def noted(self, instr, call, *args):
        """A part of a structured instruction that may raise by itself."""
        try:
            return call(*args)
        except BaseException as error:
            if (other := self.note(error, instr.offset)) is not error:
                raise other from error
            raise

    # ---- names

    def verb_move(self, instr, value):
        return value

    def verb_outer(self, instr):
        """`move` of a variable around a comprehension."""
        if (found := self.registers[instr.operands[0]]) is UNBOUND:
            raise NameError(unbound_free(self.lowered.registers[instr.operands[0]]))
        return found

    def verb_delete(self, instr):
        (register,) = instr.outs
        if self.registers[register] is UNBOUND:
            raise UnboundLocalError(unbound(self.lowered.registers[register]))
        self.registers[register] = UNBOUND

    def verb_global(self, instr):
        builtins = self.module["__builtins__"]
        builtins = builtins if isinstance(builtins, dict) else vars(builtins)
        for names in (self.module, builtins):
            if instr.attr in names:
                return names[instr.attr]
        raise NameError(f"name {instr.attr!r} is not defined")

    def verb_cell(self, instr):
        cell = self.cells[instr.attr]
        with contextlib.suppress(ValueError):
            return cell.cell_contents
        raise UnboundLocalError(unbound(instr.attr))

    def verb_free(self, instr):
        cell = self.cells[instr.attr]
        with contextlib.suppress(ValueError):
            return cell.cell_contents
        raise NameError(unbound_free(instr.attr))

    def verb_set_cell(self, instr, value):
        self.cells[instr.attr].cell_contents = value

    def verb_new_cell(self, instr):
        self.cells[instr.attr] = types.CellType()

    # ---- attributes, items, operators

    def verb_attr(self, instr, value):
        return getattr(value, instr.attr)

    verb_lookup = verb_attr

    def verb_set_attr(self, instr, holder, value):
        setattr(holder, instr.attr, value)

    def verb_del_attr(self, instr, holder):
        delattr(holder, instr.attr)

    def verb_item(self, instr, holder, key):
        return holder[key]

    def verb_set_item(self, instr, holder, key, value):
        holder[key] = value

    def verb_del_item(self, instr, holder, key):
        del holder[key]

    def verb_slice(self, instr, start, stop, step):
        return slice(start, stop, step)

    def verb_binary(self, instr, a, b):
        return BINARY[instr.attr](a, b)

    def verb_inplace(self, instr, a, b):
        return INPLACE[instr.attr](a, b)

    def verb_unary(self, instr, a):
        return UNARY[instr.attr](a)

    def verb_compare(self, instr, a, b):
        return COMPARE[instr.attr](a, b)

    # ---- displays

    def verb_tuple(self, instr, *items):
        return items

    def verb_list(self, instr, *items):
        return list(items)

    def verb_set(self, instr, *items):
        return set(items)

    def verb_dict(self, instr, *items):
        return dict(zip(items[::2], items[1::2]))

    def verb_extend(self, instr, target, items):
        if not isinstance(items, (list, tuple)) and not hasattr(items, "__iter__"):
            kind = type(items).__name__
            raise TypeError(f"Value after * must be an iterable, not {kind}")
        target.extend(items)

    def verb_update(self, instr, target, items):
        target.update(items)

    def verb_merge(self, instr, target, mapping):
        if (keys := keys_of(mapping)) is None:
            raise TypeError(f"{type(mapping).__name__!r} object is not a mapping")
        for key in keys:
            target[key] = mapping[key]

    def verb_insert(self, instr, target, mapping, callee):
        if (keys := keys_of(mapping)) is None:
            kind = type(mapping).__name__
            raise TypeError(f"{called(callee)} argument after ** must be a mapping, not {kind}")
        for key in keys:
            if key in target:
                if sys.version_info < (3, 12) and sys.exc_info()[1] is not None:
                    raise KeyError(key)  # CPython 3.11 forgets to say it better
                what = f"multiple values for keyword argument '{key}'"
                raise TypeError(f"{called(callee)} got {what}")
            target[key] = mapping[key]

    def verb_append(self, instr, target, value):
        target.append(value)

    def verb_add(self, instr, target, value):
        target.add(value)

    def verb_put(self, instr, target, key, value):
        target[key] = value

    def verb_to_tuple(self, instr, items):
        return tuple(items)

    def verb_format(self, instr, value, spec):
        return format(CONVERT[instr.attr](value), spec)

    def verb_join(self, instr, *parts):
        return "".join(parts)

    def verb_unpack(self, instr, iterable):
        outs, registers = instr.outs, self.registers
        if not hasattr(iterable, "__iter__") and not hasattr(iterable, "__getitem__"):
            kind = type(iterable).__name__
            raise TypeError(f"cannot unpack non-iterable {kind} object")
        if instr.attr is None:
            values = []
            source = iter(iterable)
            for value in source:
                if len(values) == len(outs):
                    raise ValueError(f"too many values to unpack (expected {len(outs)})")
                values.append(value)
            if len(values) < len(outs):
                wanted = f"expected {len(outs)}, got {len(values)}"
                raise ValueError(f"not enough values to unpack ({wanted})")
        else:
            before, after = instr.attr
            values = list(iterable)
            if len(values) < before + after:
                wanted = f"expected at least {before + after}, got {len(values)}"
                raise ValueError(f"not enough values to unpack ({wanted})")
            middle = len(values) - after
            values = [*values[:before], values[before:middle], *values[middle:]]
        for register, value in zip(outs, values):
            registers[register] = value

    # ---- calls

    def verb_call(self, instr, callee, *args):
        n = len(args) - len(instr.attr)
        return callee(*args[:n], **dict(zip(instr.attr, args[n:])))

    def verb_call_ex(self, instr, callee, args, kwargs):
        if not hasattr(args, "__iter__"):
            kind = type(args).__name__
            raise TypeError(f"{called(callee)} argument after * must be an iterable, not {kind}")
        return callee(*args, **(kwargs or {}))

    def verb_method(self, instr, holder, *args):
        name, words, lookup = instr.attr
        n = len(args) - len(words)
        try:
            method = getattr(holder, name)
        except BaseException as error:
            self.note(error, lookup)
            error.noted = True
            raise
        return method(*args[:n], **dict(zip(words, args[n:])))

    def verb_super(self, instr, kind, holder):
        return super(kind, holder)

    def verb_iter(self, instr, iterable):
        return iter(iterable)

    def verb_function(self, instr, defaults, words):
        inner = self.lowered.inner[instr.attr]
        closure = tuple([self.cells[name] for name in inner.free])
        assert inner.code.co_freevars == inner.free
        made = types.FunctionType(inner.code, self.module, None, defaults, closure)
        made.__kwdefaults__ = words
        return function(made, inner) if isinstance(inner, Lowered) else made

    def verb_import(self, instr):
        name, names, level = instr.attr
        return __import__(name, self.module, None, names, level)

    def verb_import_from(self, instr, module):
        if (found := getattr(module, instr.attr, UNBOUND)) is UNBOUND:
            place = f"{module.__name__!r} ({getattr(module, '__file__', 'unknown location')})"
            raise ImportError(f"cannot import name {instr.attr!r} from {place}")
        return found

    # ---- exceptions

    def verb_raise(self, instr, error, *cause):
        if cause:
            raise error from cause[0]
        raise error

    def verb_reraise(self, instr):
        if (error := sys.exc_info()[1]) is None:
            raise RuntimeError("No active exception to reraise")
        raise error

    def verb_match(self, instr, kinds):
        error = sys.exc_info()[1]
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise TypeError(
                    "catching classes that do not inherit from BaseException is not allowed"
                )
        return isinstance(error, kinds)

    def verb_break(self, instr):
        return None

    verb_continue = verb_break

    def verb_return(self, instr, value):
        return value

    # ---- structured instructions

    def verb_assert(self, instr):
        if self.noted(instr, lambda: bool(self.value(instr.operands[0]))):
            return
        args = ()
        if instr.regions:
            self.body(instr.regions[0])
            args = (self.value(instr.outs[0]),)

        def fail():
            raise AssertionError(*args)

        self.noted(instr, fail)

    def verb_if(self, instr):
        test = self.noted(instr, lambda: bool(self.value(instr.operands[0])))
        return self.body(instr.regions[0 if test else 1])

    def verb_while(self, instr):
        test, body, other = instr.regions
        while True:
            self.body(test)
            if not self.noted(instr, lambda: bool(self.value(instr.outs[0]))):
                return self.body(other)
            end = self.body(body)
            if end is not None and end[0] != "continue":
                return None if end[0] == "break" else end

    def verb_for(self, instr):
        body, other = instr.regions
        iterator = self.noted(instr, lambda: iter(self.value(instr.operands[0])))
        while True:
            value = self.noted(instr, next, iterator, UNBOUND)
            if value is UNBOUND:
                return self.body(other)
            self.registers[instr.outs[0]] = value
            end = self.body(body)
            if end is not None and end[0] != "continue":
                return None if end[0] == "break" else end

    def verb_with(self, instr):
        manager = self.noted(instr, lambda: self.value(instr.operands[0]))
        kind = type(manager)

        def methods():
            for name in ("__enter__", "__exit__"):
                if not hasattr(kind, name):
                    end = " (missed __exit__ method)" if name == "__exit__" else ""
                    what = "the context manager protocol" + end
                    raise TypeError(f"{kind.__name__!r} object does not support {what}")
            return kind.__enter__, kind.__exit__

        enter, leave = self.noted(instr, methods)
        self.registers[instr.outs[0]] = self.noted(instr, enter, manager)
        try:
            end = self.body(instr.regions[0])
        except BaseException as error:
            told = manager, type(error), error, error.__traceback__
            if not self.noted(instr, lambda: bool(leave(*told))):
                raise
            return None
        self.noted(instr, leave, manager, None, None, None)
        return end

    def verb_try(self, instr):
        try:
            return self.handled(instr)
        finally:
            end = self.body(instr.regions[2])
            if end is not None:
                return end  # noqa: B012  (as in the function: it ends the exception)

    def handled(self, instr):
        body, other, _, *handlers = instr.regions
        try:
            end = self.body(body)
        except BaseException as error:
            for k, register in enumerate(instr.attr):
                self.body(handlers[2 * k])
                if self.value(instr.outs[k]):
                    if register >= 0:
                        self.registers[register] = error
                    return self.body(handlers[2 * k + 1])
            raise
        return self.body(other) if end is None else end


STRUCTURED = {"assert", "if", "while", "for", "with", "try"}


def called(callee):
    """A function as CPython names it in messages."""
    if (name := getattr(callee, "__qualname__", None)) is None:
        return str(callee)
    module = getattr(callee, "__module__", None)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


def keys_of(mapping):
    """Its keys; None of what is no mapping."""
    if type(mapping) is dict:
        return list(mapping)
    with contextlib.suppress(AttributeError):
        return mapping.keys()
    return None


def unbound_free(name):
    what = "where it is not associated with a value in enclosing scope"
    return f"cannot access free variable {name!r} {what}"


def unbound(name):
    return f"cannot access local variable {name!r} where it is not associated with a value"
