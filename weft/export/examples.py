"""The example that a program was exported with, in its file."""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.closing.package import NotAValue, Package, value_of
from weft.export.dims import nodes

#: How the names of its tensors begin.
EXAMPLE = "example."


def example_told(example: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Arguments as JSON, and their tensors by name; nothing of what no file has."""
    if example is None:
        return {}, {}
    args, kwargs = example
    package = Package()
    found = [v for _, v in (*nodes(args, ""), *nodes(kwargs, "")) if isinstance(v, Tensor)]
    for number, tensor in enumerate(found):
        package.name_tensor(tensor, f"{EXAMPLE}{number}")
    try:
        return package.constant({"args": tuple(args), "kwargs": dict(kwargs)}), package.tensors
    except NotAValue:
        return {}, {}


def example_read(told: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    """The arguments again; None: the file has none, or what this version has not."""
    try:
        found = value_of(told, tensors)
        args, kwargs = found["args"], found["kwargs"]
    except (KeyError, TypeError, ValueError):
        return None
    good = isinstance(args, tuple) and isinstance(kwargs, dict)
    return (args, kwargs) if good else None
