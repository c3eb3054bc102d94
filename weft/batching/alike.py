"""Which functions count as the same one, so that what runs of one have shown holds for the next.

A lambda in a training loop is made anew in every step, over other numbers and tensors, a growing
list, a state or cache of the step's own. Such values count by their class, modules by identity.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict, deque
from itertools import islice
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any
from weakref import ref

from weft import _C

_CONTAINERS = frozenset([list, tuple, dict, set, frozenset, deque, OrderedDict, defaultdict])
_NAMED = frozenset([BuiltinFunctionType, type(_C.stack), type(_C.Tensor.tanh), type(str.upper)])
_DEPTH, _LOOK = 3, 16  # how deep functions and containers are looked into, and at how many parts


Refs = list[ref[Any]]


def alike(value: Any, named: Refs, objects: Refs, depth: int = _DEPTH) -> Any:
    """A key that values share which make no difference.

    `named` gets what it names by address, modules and code; `objects` the others that it names by
    their class only. Raises whatever the attributes of an object raise.
    """
    kind = type(value)
    if kind is FunctionType:
        if depth == 0:
            return kind
        code = value.__code__
        named.append(ref(code))
        key: list[Any] = [id(code)]
        for cell in value.__closure__ or ():
            key.append(alike(_content(cell), named, objects, depth - 1))
        for default in value.__defaults__ or ():
            key.append(alike(default, named, objects, depth - 1))
        for default in (value.__kwdefaults__ or {}).values():
            key.append(alike(default, named, objects, depth - 1))
        return tuple(key)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int or kind is float or kind is complex or issubclass(kind, _C.Tensor):
        return kind
    if kind is MethodType:
        function = alike(value.__func__, named, objects, depth)
        return function, alike(value.__self__, named, objects, max(depth - 1, 0))
    if kind is functools.partial:
        inside = (value.func, *value.args, *value.keywords, *value.keywords.values())
        return (kind, *(alike(v, named, objects, depth - 1) for v in inside)) if depth else kind
    if kind in _CONTAINERS:
        some = islice(value.values() if issubclass(kind, dict) else value, _LOOK if depth else 0)
        return kind, frozenset([_part(v, named, depth - 1) for v in some])
    if kind in _NAMED:
        return kind, value.__qualname__
    if issubclass(kind, type):
        return value.__module__, value.__qualname__  # it may be made anew too
    return _alike_object(value, named, objects, depth)


def _alike_object(value: Any, named: Refs, objects: Refs, depth: int) -> Any:
    kind, module = type(value), _module_class()
    if issubclass(kind, module):
        named.append(ref(value))
        return id(value)
    name = kind.__module__, kind.__qualname__  # the class may be made anew too
    try:
        objects.append(ref(value))
    except TypeError:  # its class allows none
        return name
    inside = getattr(value, "__dict__", None)
    if not inside:
        return name
    if depth and "__wrapped__" in inside:  # a decorator's: as what it wraps
        return name, alike(inside["__wrapped__"], named, objects, depth)
    held = [v for v in islice(inside.values(), _LOOK) if issubclass(type(v), module)]
    named.extend(map(ref, held))
    return (name, *map(id, held)) if held else name


def _part(value: Any, named: Refs, depth: int) -> Any:
    """Of a container: words count by their class too, objects are a few of many."""
    kind = type(value)
    return kind if kind is str or kind is bool else alike(value, named, [], depth)


@functools.cache
def _module_class() -> type:
    from weft.nn.module import Module

    return Module


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
