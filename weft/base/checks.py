"""Which arguments the Python functions of the package take, by their annotations.

`install` puts a checked function in the place of each public one of a module: see
Note [Checked functions] in src/python/checked.cpp.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable
from numbers import Integral, Real
from types import FunctionType
from typing import Any, TypeVar

from weft import _C

__all__ = ["also_named", "checked", "explain", "index", "install", "install_in_layers", "of_type"]

# As enum Kind in checked.cpp.
(
    _NONE, _TENSOR, _INT, _FLOAT, _NUMBER, _BOOL, _TEXT, _DTYPE, _INTS, _TENSORS, _ANYTHING,
    _CALLABLE, _NUMPY_BOOL,
) = (1 << k for k in range(13))  # fmt: skip
_WORDS = {
    "None": _NONE,
    "Tensor": _TENSOR,
    "weft.Tensor": _TENSOR,
    "int": _INT,
    "float": _FLOAT,
    "Number": _NUMBER,
    "complex": _NUMBER,
    "bool": _BOOL,
    "str": _TEXT,
    "dtype": _DTYPE,
    "_C.dtype": _DTYPE,
    "Size": _INTS,
    "Sequence[int]": _INTS,
    "list[int]": _INTS,
    "tuple[int, ...]": _INTS,
    "Sequence[Tensor]": _TENSORS,
    "list[Tensor]": _TENSORS,
    "tuple[Tensor, ...]": _TENSORS,
}


def _kinds(annotation: object, names: dict[str, Any]) -> int:
    """The kinds that an annotation allows, as bits."""
    if annotation is None:
        return _ANYTHING
    out = 0
    for part in re.split(r" \| (?![^\[]*\])", str(annotation).replace("collections.abc.", "")):
        known = _CALLABLE if part.startswith("Callable[") else _WORDS.get(part)
        if known is None:
            alias = names.get(part)
            if alias is None or isinstance(alias, (type, str)):
                return _ANYTHING
            known = _kinds(alias, names)
        out |= known
    return _ANYTHING if out & _ANYTHING else out


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_NO_NAMES: dict[str, str] = {}


def also_named(**names: str) -> Callable[[F], F]:
    """A decorator: further names of parameters in calls, such as PyTorch's parser takes.

    >>> @checked
    ... @also_named(b="other")
    ... def second(input: int, other: int) -> int:
    ...     return other
    >>> second(1, b=2)
    2
    """

    def declare(function: F) -> F:
        function.__dict__["__also__"] = names
        return function

    return declare


def checked(function: Any, who: str = "", *, lenient: bool = False, asks: bool = True) -> Any:
    """`function` with its arguments checked, and asked for overrides; itself where it has none.

    One with a parameter that is annotated as `object` is about anything at all: it asks nobody.
    Nor does one without `asks`.
    """
    if not isinstance(function, FunctionType):
        return function
    inner: Any = function
    while hasattr(inner, "__wrapped__"):  # what takes any arguments and hands them on
        inner = inner.__wrapped__
    if not isinstance(inner, FunctionType):
        return function
    code = inner.__code__
    positional = code.co_argcount
    count = positional + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    notes, scope = inner.__annotations__, inner.__globals__
    kinds = [_kinds(notes.get(n), scope) for n in names]
    for name, value in (inner.__kwdefaults__ or {}).items():
        kinds[names.index(name)] |= _NONE if value is None else 0
    given = inner.__defaults__ or ()
    for k, value in enumerate(given, positional - len(given)):
        kinds[k] |= _NONE if value is None else 0
    rest = _ANYTHING
    if code.co_flags & 4:  # *args
        rest = _kinds(notes.get(code.co_varnames[count]), scope)
    if lenient:
        kinds = [k | _NUMPY_BOOL if k & _BOOL else k for k in kinds]
    also = inner.__dict__.get("__also__", _NO_NAMES)
    if not count and not code.co_flags & 4:
        return function
    who = who or function.__name__
    asks = asks and all(notes.get(n) != "object" for n in names)
    return _C._checked(function, who, names, tuple(kinds), positional, rest, lenient, asks, also)


def explain(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises TypeError if an argument of a layer's method is none that the annotations allow."""
    known = checked(function, type(args[0]).__name__, lenient=True)
    if known is not function:
        known._explain(args, kwargs)


def install(
    module: str, prefix: str = "", strict: tuple[str, ...] = (), *, asks: bool = True
) -> None:
    """Checks the public functions of a module.

    Args:
        module: its name.
        prefix: what stands before a function's name in errors.
        strict: where functions come from that refuse all misfits at once; others are lenient.
        asks: whether the classes of arguments are asked for overrides.
    """
    names = vars(sys.modules[module])
    for name in names.get("__all__") or [*names]:
        value = names.get(name)
        if not isinstance(value, FunctionType) or not value.__module__.startswith("weft."):
            continue
        lenient = not value.__module__.startswith(strict or ("-",))
        made = checked(value, prefix + value.__name__, lenient=lenient, asks=asks)
        home = vars(sys.modules[value.__module__])
        if home.get(name) in (value, getattr(value, "__wrapped__", None)):  # pickle looks there
            home[name] = made
        names[name] = made


def install_in_layers(module: str) -> None:
    """Checks the constructors of the layers of a module."""
    for cls in [c for c in vars(sys.modules[module]).values() if isinstance(c, type)]:
        for part in cls.__mro__:
            init = vars(part).get("__init__")
            if init is not None and part.__module__.startswith("weft.nn."):
                part.__init__ = checked(init, lenient=True)  # type: ignore[misc]


def of_type(who: str, name: str, value: T, *types: Any) -> T:
    """`value`, which is one of the types: None is one, int and float take NumPy's numbers, and a
    bool is no number.

    Raises:
        TypeError: it is none of them.
    """
    wide: dict[Any, Any] = {None: type(None), int: Integral, float: Real}
    is_wrong_bool = isinstance(value, bool) and bool not in types
    if is_wrong_bool or not isinstance(value, tuple(wide.get(t, t) for t in types)):
        wanted = " or ".join("None" if t is None else t.__name__ for t in types)
        raise TypeError(f"[{who}] expected {name} as {wanted}, got {type(value).__name__}")
    return value


def index(value: Any, who: str, what: str) -> int:
    """An argument as an integer.

    Raises:
        TypeError: it is none.
    """
    try:
        return operator.index(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"[{who}] expected an integer as {what}, got {value!r} of type {kind}"
        ) from None
