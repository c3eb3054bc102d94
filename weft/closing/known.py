"""Which functions of Python's and of weft's a program has, and which are called now."""

from __future__ import annotations

import builtins
import functools
import math
import operator
import warnings
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from types import FunctionType
from typing import Any

import weft
from weft import _C, Tensor
from weft._library_ops import op_named
from weft.base.device import new_on_meta
from weft.base.warn import warn, warn_once
from weft.closing.values import Ref

BUILTINS = frozenset(
    {
        "abs", "all", "any", "bool", "chr", "dict", "divmod", "enumerate", "float", "frozenset",
        "hasattr", "int", "isinstance", "len", "list", "max", "min", "ord", "pow", "print", "range",
        "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "type", "zip",
    }
)  # fmt: skip
TYPES: dict[Any, str] = {
    int: "int", float: "float", bool: "bool", complex: "complex", str: "str", tuple: "tuple",
    list: "list", dict: "dict", set: "set", frozenset: "frozenset", slice: "slice", range: "range",
    type(None): "NoneType", Tensor: "Tensor", weft.nn.Parameter: "Tensor", weft.Size: "Size",
    weft.dtype: "dtype", weft.device: "device",
}  # fmt: skip
# The exceptions that programs have (WEFT_NATIVE_ERRORS of src/native/errors.h).
ERRORS = frozenset(
    {
        BaseException, Exception, ArithmeticError, FloatingPointError, OverflowError,
        ZeroDivisionError, AssertionError, AttributeError, LookupError, IndexError, KeyError,
        MemoryError, NameError, UnboundLocalError, OSError, RuntimeError, NotImplementedError,
        RecursionError, StopIteration, TypeError, ValueError, KeyboardInterrupt,
        weft.linalg.LinAlgError, FrozenInstanceError,
    }
)  # fmt: skip
# Classes of values that no program makes by calling them.
_GIVEN: dict[Any, str] = {
    BaseException: "BaseException", bytes: "bytes", type(...): "ellipsis",
    type(iter([])): "iterator", type({}.keys()): "dict_keys", type({}.values()): "dict_values",
    type({}.items()): "dict_items",
}  # fmt: skip
_MATH = {
    name: getattr(math, name)
    for name in (
        "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "floor", "ceil", "pow",
        "isnan", "isinf", "isfinite", "fabs", "gcd", "comb", "prod", "atan", "atan2", "asin",
        "acos", "erf", "sinh", "cosh", "asinh", "acosh", "atanh", "exp2", "expm1", "log1p", "cbrt",
        "degrees", "radians", "copysign", "fmod", "hypot", "isclose", "modf", "erfc", "lcm", "perm",
        "factorial", "isqrt",
    )
}  # fmt: skip
_FUNCTIONS: dict[int, str] = {
    **{id(getattr(builtins, name)): name for name in BUILTINS},
    **{id(function): f"math.{name}" for name, function in _MATH.items()},
    id(weft.tensor): "tensor",
    id(weft.promote_types): "promote_types",
    id(weft.is_tensor): "is_tensor",
    id(operator.index): "index",
    id(warn): "warn",
    id(warn_once): "warn",
    id(getattr(warn, "__wrapped__", warn)): "warn",
    id(warnings.warn): "warn",
    id(weft.is_grad_enabled): "is_grad_enabled",
    id(weft.get_default_dtype): "get_default_dtype",
    id(_C.is_autocast_cpu_enabled): "is_autocast_cpu_enabled",
}
#: The names of the methods that values of programs have beside ops.
METHODS = frozenset(_C._Package.methods())
#: The methods of tensors that are no ops, and what each comes to (native/callables.h): what
#: "values" say, what the "layout" says, a tensor of the "same" memory, or it "self".
OF_TENSORS: dict[str, str] = _C._Package.tensor_methods()
# What does something, or says what holds when the program runs.
_OF_THE_RUN = {
    "get_default_dtype", "is_autocast_cpu_enabled", "is_grad_enabled", "print", "tensor", "warn",
}  # fmt: skip
MODES = {"no_grad", "enable_grad", "inference_mode"}
# Worked out while a program is closed: what they say belongs to the process, not to the run.
_ASKED_NOW = {
    id(f)
    for f in (
        weft.get_default_device, new_on_meta, weft.promote_types,
        weft.is_anomaly_enabled,
    )
}  # fmt: skip
_PURE = {
    id(f)
    for f in (
        callable, getattr, hasattr, issubclass, isinstance, id, type, frozenset, set,
        operator.index, functools.reduce, hash, hex, bin, oct, weft.finfo, weft.iinfo,
    )
}  # fmt: skip
# Who has a function's results kept says that they follow from its arguments.
_KEEPS_RESULTS = type(functools.cache(lambda: None))
CHANGES = frozenset(
    {
        "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update",
        "setdefault", "popitem", "add", "discard", "intersection_update", "difference_update",
        "symmetric_difference_update",
    }
)  # fmt: skip

# Methods of containers and texts that go through what they are given.
GOES_THROUGH = frozenset(
    {
        "extend", "extendleft", "update", "join", "union", "intersection", "difference",
        "symmetric_difference", "issubset", "issuperset", "isdisjoint", "intersection_update",
        "difference_update", "symmetric_difference_update", "fromkeys",
    }
)  # fmt: skip

# Methods of containers after which they hold what they were given.
KEEPS = frozenset({"append", "appendleft", "insert", "setdefault"})


def op_name(value: Any) -> str:
    """The name of an op as a function; empty of anything else."""
    if type(value).__name__ == "Function" and type(value).__module__ == "weft":
        return str(value.__qualname__)
    return ""


def library_op_name(value: Any) -> str:
    """The name of an op that a library computes (Note [Library-backed ops]); empty of all else."""
    record = getattr(value, "record", None) if isinstance(value, FunctionType) else None
    name = str(record["name"]) if isinstance(record, dict) else ""
    return name if name and op_named(name) is value else ""


@functools.cache
def _versions() -> dict[str, int]:
    """The ops that programs may call, with the version of their name (Note [Versions])."""
    out: dict[str, int] = {}
    for r in _C._records():
        for name in (r["public_name"], *r["aliases"]):
            in_place = (f"Tensor.{name}_", f"{name}_" if r["function"] else "")
            names = (
                name if r["function"] else "",
                f"Tensor.{name}" if r["method"] else "",
                *(in_place if r["inplace"] else ()),
                f"ops.{name}" if r["in_packages"] else "",
            )
            for known in filter(None, names):
                out[known] = max(out.get(known, 1), r["version"])
    return out


def version_of(name: str) -> int | None:
    """The version of an op's name that files say; None if no program may call it."""
    return _versions().get(name)


@functools.cache
def gives_a_tensor(name: str) -> bool:
    """Whether an op gives one tensor, whatever its arguments."""
    return name.removeprefix("ops.") in _giving_tensors()


@functools.cache
def _giving_tensors() -> frozenset[str]:
    """The ops of which each form gives one tensor."""
    results: dict[str, set[str]] = {}
    for record in _C._records():
        result = str(record["schema"]).rpartition("-> ")[2]
        for name in (record["public_name"], *record["aliases"]):
            results.setdefault(name, set()).add(result)
    return frozenset(name for name, of in results.items() if of == {"Tensor"})


def as_constant(value: Any) -> Any:
    """What stands for a function or a class among a package's constants; others as they are."""
    if name := op_name(value):
        return Ref("op", name)
    if name := library_op_name(value):
        return Ref("library", name)
    if isinstance(value, type):
        if value in TYPES:
            return Ref("type", TYPES[value])
        if value in ERRORS:
            return Ref("type", value.__name__)
    if (name := _FUNCTIONS.get(id(value), "")) and callable(value):
        return Ref("builtin", name)
    return str(value) if isinstance(value, weft.device) else value


def kinds_of_values(kind: type) -> list[Ref]:
    """The classes of programs' values that are a class or below it: of `Sequence` several."""
    if kind in ERRORS:
        return [Ref("type", kind.__name__)]
    if kind in TYPES:  # it says itself what is below it
        return [Ref("type", TYPES[kind])]
    found = [name for one, name in {**TYPES, **_GIVEN}.items() if issubclass(one, kind)]
    return [Ref("type", name) for name in dict.fromkeys(found)]


def mode_of(scope: Any) -> Ref | None:
    """A scope, or what makes one, as programs have it; None: they have it not."""
    scope = getattr(scope, "__self__", scope)  # a method that makes the same scope again
    if isinstance(scope, weft.autocast):
        kind = str(scope.fast_dtype).rpartition(".")[2]
        return Ref("mode", f"autocast_{kind}" if scope._enabled else "no_autocast")
    name = (scope if isinstance(scope, type) else type(scope)).__name__
    return Ref("mode", name) if name in MODES else None


_WRAPPED_IN_MODE = weft.no_grad()(lambda: None).__code__


def mode_around(function: Any) -> Ref | None:
    """The mode that a function runs in as it was decorated with it; None: in none."""
    if getattr(function, "__code__", None) is not _WRAPPED_IN_MODE:
        return None
    held = dict(zip(function.__code__.co_freevars, function.__closure__))
    return mode_of(held["scope"].cell_contents)


def builtin_name(value: Any) -> str:
    """The name of a builtin function that programs have; empty of anything else."""
    return _FUNCTIONS.get(id(value), "")


def is_worked_out(value: Any) -> bool:
    """Whether a call of it with known arguments is made while the program is closed."""
    return (
        id(value) in _ASKED_NOW
        or id(value) in _PURE
        or isinstance(value, _KEEPS_RESULTS)
        or id(value) in _FUNCTIONS
        and builtin_name(value) not in _OF_THE_RUN
        or isinstance(value, type)
        and value in TYPES
        and not issubclass(value, Tensor)
    )


def of_tensors(name: str) -> Any:
    """What `Tensor` has under a name, as it is; None if there is nothing."""
    for kind in Tensor.__mro__:
        if name in vars(kind):
            return vars(kind)[name]
    return None


# What no tensor of a program is, as in src/native/tensors.cpp: asked while it is closed.
NEVER_OF_TENSORS = frozenset(
    """is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse
    is_sparse_csr is_vulkan is_xla is_xpu""".split()
)
FIXED_OF_TENSORS = frozenset({"device", "layout"})
SIZES_OF_TENSORS = frozenset({"shape", "ndim", "size", "dim", "numel", "ndimension", "nelement"})

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "@": operator.matmul,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift,
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_,
}  # fmt: skip
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    ">=": operator.ge, "is": operator.is_, "is not": operator.is_not,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}  # fmt: skip
# The special methods of operators, without their underscores.
SPECIAL = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "@": "matmul", "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
SPECIAL_UNARY = {"-": "neg", "+": "pos", "~": "invert"}
SPECIAL_COMPARE: dict[str, str] = {
    "<": "lt",
    "<=": "le",
    "==": "eq",
    "!=": "ne",
    ">": "gt",
    ">=": "ge",
}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def methods_of(name: str) -> tuple[str, str]:
    """The special methods of an operator: of its first operand, and of its second."""
    return f"__{name}__", f"__{_MIRRORED.get(name, 'r' + name)}__"


CONVERT: dict[str, Callable[[Any], Any]] = {"": lambda v: v, "r": repr, "s": str, "a": ascii}
