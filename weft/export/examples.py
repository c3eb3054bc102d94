"""The example that a program was exported with, in its file."""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.closing.package import NotAValue, Package
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
        found = _value(told, tensors)
        args, kwargs = found["args"], found["kwargs"]
    except (KeyError, TypeError, ValueError):
        return None
    good = isinstance(args, tuple) and isinstance(kwargs, dict)
    return (args, kwargs) if good else None


def _value(told: Any, tensors: dict[str, Tensor]) -> Any:
    """A constant as `Package.constant` tells it."""
    if not isinstance(told, dict):
        return told
    ((kind, value),) = told.items()
    match kind:
        case "float":
            return float(value)
        case "complex":
            return complex(*map(float, value))
        case "tuple":
            return tuple(_value(v, tensors) for v in value)
        case "list":
            return [_value(v, tensors) for v in value]
        case "dict":
            return {_value(k, tensors): _value(v, tensors) for k, v in value}
        case "tensor":
            return tensors[value]
    raise ValueError(f"[load] expected a value of an example, got {kind!r}")
