"""Classes of the user's: which of them are records, and what they say of their objects."""

from __future__ import annotations

import abc
import collections
import dataclasses
import functools
import inspect
import reprlib
import sys
import typing
from types import CodeType, FunctionType
from typing import Any

from weft import return_types
from weft.closing import known, library


def method_of_class(kind: type, name: str) -> Any:
    """The function or property that a class of the user's has under a name, if there is one whose
    source somebody wrote."""
    found = inspect.getattr_static(kind, name, None)
    if is_result(kind):  # which programs show as PyTorch does
        return None
    if is_descriptor(found):
        return found
    if not isinstance(found, METHODS):
        return None
    code = getattr(_shown_once(unwrapped(found)), "__code__", None)
    if not name.startswith("__") or code is None or not is_made(code):
        return found
    return by_fields(kind, name) if name in _ORDERS else None


METHODS = FunctionType, property, staticmethod, classmethod, functools.cached_property
_ORDERS = {f"__{name}__": sign for sign, name in known.SPECIAL_COMPARE.items() if sign[0] in "<>"}


class ByFields(typing.NamedTuple):
    """A comparison that a dataclass with `order=True` has.

    Attributes:
        sign: its operator.
        fields: what it compares, of two objects of one class.
    """

    sign: str
    fields: tuple[str, ...]


def by_fields(kind: type, name: str) -> ByFields:
    """The comparison of a class: by the fields of the one that it is from."""
    fields = dataclasses.fields(maker_of(kind, name))
    return ByFields(_ORDERS[name], tuple(f.name for f in fields if f.compare))


def method_above(kind: type, below: type, name: str) -> tuple[type, Any]:
    """Where `super()` in a class finds a name, for an object of a class, and the method there as
    of `method_of_class`; `object` where no class of the user's has it."""
    bases = kind.__mro__[kind.__mro__.index(below) + 1 :]
    base = next((base for base in bases if name in vars(base)), object)
    return base, method_of_class(base, name)


def is_descriptor(found: Any) -> bool:
    """Whether a class has an object of the user's that says what an attribute is."""
    module = type(found).__module__.partition(".")[0]
    if module == "weft" or module in sys.stdlib_module_names and module != "__main__":
        return False
    verbs = (inspect.getattr_static(type(found), name, None) for name in ("__get__", "__set__"))
    return any(isinstance(verb, FunctionType) for verb in verbs)


def own_method(kind: type, name: str) -> FunctionType | None:
    """The function of the user's that a class has in place of what objects or Modules have."""
    found = inspect.getattr_static(kind, name, None)
    return found if is_own(found) else None


def is_own(function: Any) -> bool:
    """Whether it is a function of the user's."""
    of = getattr(function, "__module__", None) or ""
    return isinstance(function, FunctionType) and of.partition(".")[0] != "weft"


def _shown_once(function: Any) -> Any:
    """What `reprlib.recursive_repr` decorates, as dataclasses have it from Python 3.13 on; others
    as they are."""
    code = getattr(function, "__code__", None)
    is_wrapper = code is not None and code.co_filename == reprlib.__file__
    return function.__wrapped__ if is_wrapper else function


def is_result(kind: type) -> bool:
    """Whether it is a named tuple that functions of weft's return."""
    return return_types.KINDS.get(kind.__name__) is kind


def is_made(code: CodeType) -> bool:
    """Whether dataclasses or named tuples made a function: it has no source, or theirs."""
    return code.co_filename == "<string>" or code.co_filename in _MAKERS


_MAKERS = {collections.__file__, dataclasses.__file__}


def is_record(kind: type) -> bool:
    """Whether objects of a class are records: it is the user's, and Python's in all it does."""
    if kind in library.CLASSES.values():
        return True
    module = kind.__module__.partition(".")[0]
    plain = (object, tuple, typing.Generic, abc.ABC)
    ours = all(base in plain or is_record(base) for base in kind.__bases__)
    return (
        ours
        and (module not in sys.stdlib_module_names or module == "__main__")
        and (module not in ("weft", "torch") or issubclass(kind, tuple))
        and type(kind) in (type, abc.ABCMeta)
    )


def fields_of(kind: type) -> list[str]:
    """The names of what an object of a class has, as far as the class says so."""
    if issubclass(kind, tuple):
        return list(getattr(kind, "_fields", ()))
    if dataclasses.is_dataclass(kind):
        return [f.name for f in dataclasses.fields(kind)]
    return []


def shared_by(kind: type) -> dict[str, Any]:
    """The plain values that a class has for all its objects, which each has of its own in programs:
    nothing can change them but what sets another one in their place."""
    if issubclass(kind, tuple):
        return {}
    found = {name: v for k in reversed(kind.__mro__) for name, v in vars(k).items()}
    plain = (int, float, str, bool, type(None))
    own = {*fields_of(kind), "__slots__"}
    return {
        name: value
        for name, value in found.items()
        if type(value) in plain and name not in own and not name.startswith("__")
    }


UNSAID: list[str] = ["=="]


def maker_of(kind: type, name: str) -> type:
    """The class that a class has a method from."""
    return next(base for base in kind.__mro__ if name in vars(base))


def compared_fields(kind: type) -> list[str] | None:
    """The fields by which `==` of a dataclass goes; none where it has a method of its own, None
    where each object is equal to itself alone; `UNSAID` of other classes."""
    if method_of_class(kind, "__eq__"):
        return []
    if not dataclasses.is_dataclass(kind):
        return UNSAID
    if (of := maker_of(kind, "__eq__")) is object:
        return None
    return [f.name for f in dataclasses.fields(of) if f.compare]


def shown_fields(kind: type) -> list[str] | None:
    """The fields that a dataclass or named tuple shows; None where objects are shown as others
    are."""
    if not dataclasses.is_dataclass(kind):
        return fields_of(kind) or None
    of = maker_of(kind, "__repr__")
    return None if of is object else [f.name for f in dataclasses.fields(of) if f.repr]


def hashes_otherwise(kind: type) -> str:
    """What is between the hash of a class and its `==`, by which programs find keys; empty:
    nothing."""
    compared = compared_fields(kind)
    if not dataclasses.is_dataclass(kind) or kind.__hash__ is None or not compared:
        return ""
    if (of := maker_of(kind, "__hash__")) is object:
        return "whose hash is that of the object, where == goes by its fields"
    hashed = [f.name for f in dataclasses.fields(of) if (f.compare if f.hash is None else f.hash)]
    return "" if set(hashed) <= set(compared) else "whose hash goes by fields that == leaves out"


def told_of(kind: type) -> dict[str, Any]:
    """What packages say of a class beside its name and fields (`Class` of src/native/package.h);
    what does not hold is left out."""
    if issubclass(kind, tuple):
        return {"tuple": True}
    told: dict[str, Any] = {}
    if dataclasses.is_dataclass(kind):
        names = fields_of(kind)
        compared, shown = compared_fields(kind), shown_fields(kind)
        told["data"] = True
        told["itself"] = compared is None
        told["opaque"] = shown is None
        told["uncompared"] = [name for name in names if compared and name not in compared]
        told["unshown"] = [name for name in names if shown is not None and name not in shown]
    told["unhashable"] = kind.__hash__ is None
    told["qualname"] = kind.__qualname__ if kind.__qualname__ != kind.__name__ else ""
    return {key: value for key, value in told.items() if value}


def is_frozen(kind: type) -> bool:
    """Whether it is a dataclass whose objects cannot be changed."""
    params = getattr(kind, "__dataclass_params__", None)
    return params is not None and params.frozen


def why_refused(kind: type, name: str) -> str | None:
    """What an object of a class says where an attribute of it is set that may not be."""
    if is_frozen(kind):
        return f"cannot assign to field {name!r}"
    found = inspect.getattr_static(kind, name, None)
    if isinstance(found, property) and found.fset is None:
        return f"property {name!r} of {kind.__name__!r} object has no setter"
    slots = [vars(k).get("__slots__") for k in kind.__mro__ if k is not object]
    if issubclass(kind, tuple) or any(s is None for s in slots):
        return None
    names = {n for s in slots for n in ((s,) if isinstance(s, str) else s or ())}
    if name in names or dataclasses.is_dataclass(kind) and name in fields_of(kind):
        return None
    return f"{kind.__name__!r} object has no attribute {name!r}"


def unwrapped(value: Any) -> Any:
    """The function that an object which wraps one stands for; others as they are."""
    while not isinstance(value, FunctionType) and hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return value
