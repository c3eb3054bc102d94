"""What weft offers under PyTorch's names, asked by dotted path; `weft check` asks."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import inspect
from types import ModuleType
from typing import Any, NamedTuple

from weft import Tensor
from weft.base import lazy
from weft.base.alias import home_of, torch_name

__all__ = ["Gap", "attribute_of", "gap_in", "gives_tensor", "module_gap", "thing"]

#: Below these, names are made while a program runs.
_MADE = ("torch.ops", "torch.classes")


class Gap(NamedTuple):
    """A name that is not offered: the path up to it, and the nearest that is."""

    path: str
    hint: str


def _module(path: str) -> ModuleType | None:
    """The module of weft by PyTorch's path."""
    home = home_of(path)
    if home is None or torch_name(home) != path:
        return None
    try:
        return importlib.import_module(home)
    except ImportError:
        return None


def _next(owner: Any, path: str, name: str) -> Any:
    """What `owner`, at `path`, has by a name, or the module below it. AttributeError: nothing."""
    try:
        return getattr(owner, name)
    except AttributeError:
        if isinstance(owner, ModuleType) and (found := _module(f"{path}.{name}")) is not None:
            return found
        raise


@functools.cache
def _walk(path: str) -> tuple[Any, Gap | None]:
    """What a path leads to, or where it ends."""
    before, _, name = path.rpartition(".")
    if not before:
        return _module(path), None
    owner, gap = _walk(before)
    if gap is not None or before in _MADE or owner is None:
        return None, gap
    try:
        return _next(owner, before, name), None
    except AttributeError:
        return None, Gap(path, _nearest(owner, name))


def gap_in(path: str) -> Gap | None:
    """The first name on a path, `torch.nn.functional.relu`, that is not offered."""
    return _walk(path)[1]


def thing(path: str) -> Any:
    """What a path leads to; None if nothing does."""
    return _walk(path)[0]


def module_gap(path: str) -> Gap | None:
    """The same of a module that is imported: `import torch.nn.functional`."""
    parts = path.split(".")
    for k in range(1, len(parts) + 1):
        part = ".".join(parts[:k])
        if _module(part) is None:
            text = str(lazy.missing_module(part))
            return Gap(part, text.partition("Hint: ")[2])
    return None


def _nearest(owner: Any, name: str) -> str:
    if isinstance(owner, ModuleType):
        return str(lazy.missing(owner, name)).partition("Hint: ")[2]
    near = difflib.get_close_matches(name, dir(owner), 1)
    return f"did you mean {near[0]!r}?" if near else ""


def attribute_of(owner: type, name: str) -> Gap | None:
    """A method or attribute that objects of a class of weft's have not."""
    return None if name in _names_of(owner) else Gap(name, _nearest(owner, name))


@functools.cache
def _names_of(owner: type) -> frozenset[str]:
    """The attributes of a class, and all that its methods assign to anything."""
    names = set(dir(owner))
    for kind in owner.__mro__:
        names.update(vars(kind).get("__annotations__", ()))
        for value in vars(kind).values():
            code = getattr(value, "__code__", None) or getattr(
                inspect.unwrap(value), "__code__", None
            )
            if code is not None:
                names.update(code.co_names)
                names.update(c for c in code.co_consts if isinstance(c, str))
    return frozenset(names)


@functools.cache
def _records() -> tuple[frozenset[str], frozenset[str]]:
    """Public names of functions, and names of methods, that give one tensor."""
    from weft import _library_ops

    functions, methods, others = set(), set(), set()
    for record in _library_ops.records():
        name = str(record["public_name"])
        if not str(record["schema"]).endswith("-> Tensor"):
            others.add(name)  # torch.max gives a pair, or one tensor
        functions.add(name)
        if record["method"]:
            methods.add(name)
    return frozenset(f"torch.{name}" for name in functions - others), frozenset(methods - others)


def gives_tensor(path: str) -> bool:
    """Whether a call of what a path leads to surely gives a tensor."""
    functions, methods = _records()
    if path in functions or path == "torch.tensor":
        return True
    owner, _, name = path.rpartition(".")
    if owner == "torch.Tensor":
        return name in methods
    found = thing(path)
    if isinstance(found, type):
        return found is Tensor
    made = getattr(found, "__annotations__", {}).get("return")
    return made is Tensor or made in ("Tensor", "weft.Tensor")
