"""What packages mean: their functions, run by the interpreter of the front end's instructions.

`Packaged(json, tensors).call("forward", x)` runs an entry.
"""

import builtins
import collections
import collections.abc
import dataclasses
import inspect
import json
import math
import operator
import types
import warnings

import evaluate

import weft
from weft import _library_ops
from weft.frontend.ir import Instr

_GIVEN = {
    "NoneType": type(None), "ellipsis": type(...), "iterator": collections.abc.Iterator,
    "dict_keys": type({}.keys()), "dict_values": type({}.values()), "dict_items": type({}.items()),
}  # fmt: skip
BY_KEY = {
    "index": operator.index,
    "warn": lambda text, *_, **__: warnings.warn(text, stacklevel=2),
    "sorted_by": lambda values, keys, reverse: [
        v for _, v in sorted(zip(keys, values), key=operator.itemgetter(0), reverse=reverse)
    ],
    "max_by": lambda values, keys, _: max(zip(keys, values), key=operator.itemgetter(0))[1],
    "min_by": lambda values, keys, _: min(zip(keys, values), key=operator.itemgetter(0))[1],
}
WITH_OPERATOR = {"binary", "inplace", "unary", "compare", "format"}


def instruction(line, names):
    """A line of a package's text; where a region begins it has none yet."""
    words = line.rstrip("{").split()
    at = words.index("=") + 1 if "=" in words else 0
    outs = tuple(map(register, words[: max(at - 1, 0)]))
    verb, *rest = words[at:]
    operator_of = ""
    if verb in WITH_OPERATOR:
        _, operator_of, behind = line.rstrip("{").split('"')
        rest = behind.split()
    said = {"attr": [], "names": [], "number": []}
    operands = []
    for word in rest:
        kind, _, number = word.partition("=")
        if kind in said:
            said[kind].append(int(number))
        elif word.startswith("#"):
            operands.append(~int(word[1:]))
        elif "%" in word:
            operands.append(register(word))
    (name,) = [names[k] for k in said["attr"]] or (None,)
    (given,) = [tuple(names[k]) for k in said["names"]] or ((),)
    if verb in WITH_OPERATOR:
        attr = operator_of
    elif verb == "call":
        attr = given
    elif verb == "method":
        attr = name, given, said["number"][0]
    elif verb == "try":
        attr = said["number"]
    else:
        attr = name if verb != "unpack" else said["number"] or None
    return Instr(verb, outs, tuple(operands), attr, (), 0)


def register(word):
    return int(word.rpartition("%")[2])


def parse(text, names):
    """The registers and instructions of a function's text."""
    lines = [line for line in text.splitlines() if line.strip()]
    at = 4

    def block():
        nonlocal at
        out = []
        while not lines[at].strip().startswith("}"):
            line, regions = lines[at], []
            at += 1
            if line.endswith("{"):
                regions.append(block())
                while lines[at].strip() == "} {":
                    at += 1
                    regions.append(block())
                at += 1
            out.append(instruction(line, names)._replace(regions=tuple(regions)))
        return out

    return lines[1].split()[1:], block()


def signature_of(data, defaults):
    """How a function binds its arguments."""
    plain = [p for p in data["params"] if not p.startswith("*")]
    first_word = len(plain) - data["keyword_only"]
    kinds = inspect.Parameter
    params = []
    for k, name in enumerate(data["params"]):
        kind = kinds.POSITIONAL_OR_KEYWORD if k < first_word else kinds.KEYWORD_ONLY
        if name.startswith("*"):
            kind = kinds.VAR_KEYWORD if name.startswith("**") else kinds.VAR_POSITIONAL
        name = name.lstrip("*")
        params.append(inspect.Parameter(name, kind, default=defaults.get(name, kinds.empty)))
    return inspect.Signature(sorted(params, key=lambda p: p.kind)), [p.name for p in params]


def record_class(name, fields, data=False, **told):
    """A class of records; objects of a class of that name are its instances."""
    uncompared, unshown = told.get("uncompared", ()), told.get("unshown", ())

    class Meta(type):
        def __instancecheck__(cls, value):
            return any(k.__name__ == name for k in type(value).__mro__)

    def start(self, *values):
        self.__dict__.update(zip(fields, values, strict=bool(values)))

    def values(self):
        return [getattr(self, field, None) for field in fields if field not in uncompared]

    def hashed(self):
        return hash(tuple(values(self)))

    def show(self):
        names = [k for k in fields if hasattr(self, k) and k not in unshown]
        shown = ", ".join([f"{k}={getattr(self, k)!r}" for k in names])
        return f"{type(self).__qualname__}({shown})"

    def same(self, other):
        return type(other).__name__ == name and values(self) == values(other)

    methods = {"__qualname__": told.get("qualname", name)}
    if data and not told.get("opaque"):
        methods["__repr__"] = show
    if data and not told.get("itself"):
        methods.update(__eq__=same, __hash__=hashed)
    if told.get("unhashable"):
        methods["__hash__"] = None
    return Meta(name, (), {"__init__": start, **methods})


class Packaged:
    def __init__(self, text, tensors):
        self.data, self.tensors = json.loads(text), tensors
        self.records = {}
        self.objects = []
        for made in self.data["objects"]:
            self.objects.append(type(made["class"], (), {})())
        for made, one in zip(self.data["objects"], self.objects):
            for name, value in made["fields"].items():
                setattr(one, name, self.constant(value))
        self.functions = [self.function(f) for f in self.data["functions"]]

    def call(self, entry, *args, **kwargs):
        return self.functions[self.data["entries"][entry]](*args, **kwargs)

    def constant(self, c):
        if not isinstance(c, dict):
            assert not isinstance(c, list)
            return c
        ((kind, v),) = c.items()
        return getattr(self, "constant_" + kind)(v)

    def constant_float(self, v):
        return float(v)

    def constant_complex(self, v):
        return complex(*map(float, v))

    def constant_tuple(self, v):
        return tuple(map(self.constant, v))

    def constant_set(self, v):
        return set(map(self.constant, v))

    def constant_frozenset(self, v):
        return frozenset(map(self.constant, v))

    def constant_size(self, v):
        return weft.Size(map(self.constant, v))

    def constant_list(self, v):
        return list(map(self.constant, v))

    def constant_dict(self, v):
        return {self.constant(k): self.constant(x) for k, x in v}

    def constant_slice(self, v):
        return slice(*map(self.constant, v))

    def constant_range(self, v):
        return range(*v)

    def constant_ellipsis(self, v):
        return ...

    def constant_dtype(self, v):
        return getattr(weft, v)

    def constant_tensor(self, v):
        return self.tensors[v]

    def constant_op(self, v):
        assert v in self.data["ops"]
        if v.startswith("ops."):
            return getattr(weft._C.ops, v[4:])
        if v.startswith("Tensor."):
            return getattr(weft.Tensor, v[7:])
        return getattr(weft._C, v)

    def constant_library(self, v):
        return _library_ops.op_named(v)

    def constant_builtin(self, v):
        if v.startswith("math."):
            return getattr(math, v[5:])
        return BY_KEY.get(v) or getattr(builtins, v, None) or getattr(weft, v)

    def constant_type(self, v):
        if v in _GIVEN:
            return _GIVEN[v]
        home = weft if v in ("Tensor", "dtype", "device", "Size") else builtins
        home = {"LinAlgError": weft.linalg, "FrozenInstanceError": dataclasses}.get(v, home)
        return getattr(home, v)

    def constant_function(self, v):
        return lambda *args, **kwargs: self.functions[v](*args, **kwargs)

    def constant_object(self, v):
        return self.objects[v]

    def constant_mode(self, v):
        if "autocast" in v:
            kind = v.removeprefix("autocast_") if v != "no_autocast" else "bfloat16"
            return weft.autocast("cpu", getattr(weft, kind), enabled=v != "no_autocast")
        return getattr(weft, v)()

    def constant_record(self, v):
        key = v["class"]
        if key not in self.records:
            if key.startswith("torch.return_types."):
                self.records[key] = weft.return_types.KINDS[key.rpartition(".")[2]]
            elif v.get("tuple"):
                self.records[key] = collections.namedtuple(key, v["fields"])
            else:
                told = {k: of for k, of in v.items() if k not in ("class", "fields")}
                self.records[key] = record_class(key, v["fields"], **told)
        return self.records[key]

    def function(self, data):
        registers, body = parse(data["text"], data["names"])
        defaults = {k: self.constant(v) for k, v in data["defaults"].items()}
        signature, order = signature_of(data, defaults)
        lowered = types.SimpleNamespace(
            registers=registers, body=body, consts=None, cells=(), free=(), inlined=(), code=None
        )

        def run(*args, **kwargs):
            if lowered.consts is None:  # functions refer to each other
                lowered.consts = [self.constant(c) for c in data["constants"]]
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = [bound.arguments[name] for name in order]
            return evaluate.Machine(lowered, {}, ()).run(given)

        return run
