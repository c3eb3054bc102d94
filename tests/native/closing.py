"""A package of plain functions, for the tests of src/native: globals are looked up once, all else
stays as the front end lowers it."""

import json
import math
import types

import weft
from weft.frontend import lower

TYPES = (int, float, bool, complex, str, tuple, list, dict, range, slice, weft.Tensor, type(None))
MODES = (weft.no_grad, weft.enable_grad, weft.inference_mode)
BY_NAME = {id(getattr(math, n)): f"math.{n}" for n in dir(math) if callable(getattr(math, n))}
BY_NAME[id(weft.tensor)] = "tensor"
WITH_NAME = ("attr", "lookup", "set_attr", "del_attr")
WITH_OPERATOR = ("binary", "inplace", "unary", "compare", "format")


class Closing:
    """A package under way."""

    def __init__(self):
        self.functions, self.numbers = [], {}
        self.ops, self.tensors, self.objects = {}, {}, []
        self.places = {}  # of objects, by identity

    def function(self, f):
        """The number of a function, which is added first if need be."""
        if f not in self.numbers:
            self.numbers[f] = len(self.functions)
            self.functions.append(None)
            self.functions[self.numbers[f]] = OneFunction(self, f).json()
        return self.numbers[f]

    def constant(self, v):
        kind = type(v)
        if v is None or kind in (bool, int, str):
            return v
        if kind is float:
            return {"float": v if math.isfinite(v) else str(v)}
        if kind is complex:
            return {"complex": [v.real, v.imag]}
        if kind in (tuple, list):
            return {kind.__name__: [self.constant(x) for x in v]}
        if kind is dict:
            return {"dict": [[self.constant(k), self.constant(x)] for k, x in v.items()]}
        if kind is slice:
            return {"slice": [self.constant(x) for x in (v.start, v.stop, v.step)]}
        if kind is range:
            return {"range": [v.start, v.stop, v.step]}
        if v is ...:
            return {"ellipsis": True}
        if isinstance(v, weft.dtype):
            return {"dtype": str(v).removeprefix("torch.")}
        if isinstance(v, weft.Tensor):
            name = f"tensor.{len(self.tensors)}"
            known = [n for n, t in self.tensors.items() if t is v]
            self.tensors[known[0] if known else name] = v
            return {"tensor": known[0] if known else name}
        if kind.__name__ == "Function" and kind.__module__ == "weft":
            self.ops[v.__qualname__] = 1
            return {"op": v.__qualname__}
        return self.named(v)

    def named(self, v):
        if isinstance(v, MODES):
            return {"mode": type(v).__name__}
        if isinstance(v, State):
            if id(v) not in self.places:
                self.places[id(v)] = len(self.objects)
                fields = {k: self.constant(x) for k, x in vars(v).items()}
                self.objects.append({"class": "State", "fields": fields})
            return {"object": self.places[id(v)]}
        if v in TYPES or isinstance(v, type) and issubclass(v, BaseException):
            return {"type": v.__name__}
        if isinstance(v, type) and hasattr(v, "_fields"):
            return {"record": {"class": v.__name__, "fields": list(v._fields), "tuple": True}}
        if isinstance(v, types.FunctionType) and v is not weft.tensor:
            return {"function": self.function(v)}
        return {"builtin": BY_NAME.get(id(v)) or v.__name__}

    def json(self, entries):
        return json.dumps(
            {
                "weft": 1,
                "ops": self.ops,
                "functions": self.functions,
                "entries": entries,
                "objects": self.objects,
                "tensors": list(self.tensors),
            }
        )


class State:
    """An object with attributes, which becomes one of the package."""

    def __init__(self, **fields):
        vars(self).update(fields)


class OneFunction:
    """A lowered function as text."""

    def __init__(self, closing, f):
        self.closing, self.f = closing, f
        self.lowered = lower(f)
        self.constants = [closing.constant(c) for c in self.lowered.consts]
        self.names, self.offsets, self.lines = [], set(), []

    def json(self):
        code, f = self.lowered.code, self.f
        self.body(self.lowered.body, 1)
        params = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        words = len(params)
        named = [n for n in self.lowered.registers if n]
        params += ["*" + named[words]] if code.co_flags & 4 else []
        params += ["**" + named[len(params)]] if code.co_flags & 8 else []
        defaults = dict(
            zip(code.co_varnames[: code.co_argcount][::-1], (f.__defaults__ or ())[::-1])
        )
        defaults.update(f.__kwdefaults__ or {})
        registers = " ".join(n or '""' for n in self.lowered.registers)
        head = f"function params={len(params)} own_cells=0 consts={len(self.constants)}"
        head += f" attrs={len(self.names)}"
        text = "\n".join(
            [f"{head} {f.__qualname__}", f"registers {registers}", "cells", "{", *self.lines, "}"]
        )
        return {
            "name": f.__qualname__,
            "file": code.co_filename,
            "text": text,
            "constants": self.constants,
            "names": self.names,
            "params": params,
            "keyword_only": code.co_kwonlyargcount,
            "defaults": {k: self.closing.constant(v) for k, v in defaults.items()},
            "lines": self.places(),
        }

    def places(self):
        """Where the lines are; of a comprehension's own code its own."""
        out = []
        for at in sorted(self.offsets):
            number = at >> 24
            code = self.lowered.inlined[number - 1].code if number else self.lowered.code
            for begin, end, line in code.co_lines():
                if begin <= at & 0xFFFFFF < end:
                    out.append([at, line])
        return out

    def place(self, operand):
        return f"#{~operand}" if operand < 0 else f"{self.lowered.registers[operand]}%{operand}"

    def name(self, value):
        if value not in self.names:
            self.names.append(value)
        return self.names.index(value)

    def body(self, body, depth):
        for i in body:
            self.instruction(i, depth)

    def instruction(self, i, depth):
        words = [*map(self.place, i.outs), "="] if i.outs else []
        words.append(i.verb)
        if i.verb == "global":
            words[-1] = "move"
            known = self.f.__globals__.get(i.attr)
            made = (
                known
                if known is not None
                else getattr(__builtins__, i.attr, None) or __builtins__[i.attr]
            )
            self.constants.append(self.closing.constant(made))
            words.append(f"#{len(self.constants) - 1}")
        if i.verb in WITH_OPERATOR:
            words.append(f'"{i.attr}"')
        words += map(self.place, i.operands)
        if i.verb in WITH_NAME:
            words.append(f"attr={self.name(i.attr)}")
        elif i.verb == "call" and i.attr:
            words.append(f"names={self.name(list(i.attr))}")
        elif i.verb == "method":
            words.append(f"attr={self.name(i.attr[0])}")
            words += [f"names={self.name(list(i.attr[1]))}"] if i.attr[1] else []
            words.append(f"number={i.attr[2]}")
            self.offsets.add(i.attr[2])
        elif i.verb in ("unpack", "try") and i.attr is not None:
            words += [f"number={n}" for n in i.attr]
        if i.offset >= 0:
            words.append(f"@{i.offset}")
            self.offsets.add(i.offset)
        indent = "    " * depth
        self.lines.append(indent + " ".join(words) + " {" * bool(i.regions))
        for k, region in enumerate(i.regions):
            self.lines += [indent + "} {"] if k else []
            self.body(region, depth + 1)
        self.lines += [indent + "}"] if i.regions else []


def package_of(f, by_plan=True):
    """`f` as the entry "f" of a package; `by_plan`: what is met again may run as a plan."""
    closing = Closing()
    number = closing.function(f)
    package = weft._C._Package(closing.json({"f": number}), closing.tensors)
    package.by_plan = by_plan
    return package


def packaged(f, by_plan=True):
    """A Python function that runs `f` as a package."""
    package = package_of(f, by_plan)
    return lambda *args, **kwargs: package.call("f", args, kwargs)
