"""One structure of stacked tensors from the results of examples, for `autobatch(out_stack=True)`.

Structures are dicts, lists, tuples (named ones too) and dataclasses; containers keep their class.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from weft import _C

_LEAVES = (_C.Size, str, bytes)  # a Size holds nothing but ints


def stacked(results: Sequence[Any], tensors: list[Any], place: str = "result") -> Any:
    """The structure with its tensors stacked, which `tensors` gets too, and lists of all else.

    Raises ValueError where results are unlike: tensor and number, other keys, another length.
    """
    first = results[0]
    form = _form(first)
    for index, other in enumerate(results):
        if (found := _form(other)) != form:
            raise ValueError(
                f"[autobatch] expected results of one structure for out_stack, got {place} as "
                f"{_said(form, first)} in example 0 and as {_said(found, other)} in example "
                f"{index}. Hint: return the same structure from every example, or leave out_stack "
                "away for a list of results."
            )
    if form == "tensor":
        out = _C.stack(list(results))
        tensors.append(out)
        return out
    if form == "other":
        return list(results)
    columns: list[tuple[str, Sequence[Any]]]
    if isinstance(first, dict):
        columns = [(f"[{key!r}]", [r[key] for r in results]) for key in first]
    elif isinstance(first, (tuple, list)):
        names = getattr(first, "_fields", None)
        columns = [
            (f".{names[i]}" if names else f"[{i}]", column)
            for i, column in enumerate(zip(*results, strict=True))
        ]
    else:
        columns = [(f".{name}", [getattr(r, name) for r in results]) for name in form[1]]
    return _rebuilt(
        first, form, [stacked(column, tensors, place + where) for where, column in columns]
    )


def _rebuilt(first: Any, form: Any, parts: list[Any]) -> Any:
    """A structure as `first` with other parts."""
    if isinstance(first, tuple):
        make = getattr(first, "_make", type(first))  # a named tuple takes no sequence
        return make(parts)
    out = copy.copy(first)  # with what else it has, as the factory of a defaultdict
    if isinstance(first, dict):
        for key, part in zip(first, parts, strict=True):
            out[key] = part
    elif isinstance(first, list):
        out[:] = parts
    else:
        for name, part in zip(form[1], parts, strict=True):
            object.__setattr__(out, name, part)  # also of a frozen one
    return out


def _form(value: Any) -> Any:
    """What alike results have in common: "tensor", "other", or class and parts of a structure."""
    kind = type(value)
    if issubclass(kind, _C.Tensor):
        return "tensor"
    if issubclass(kind, _LEAVES):
        return "other"
    name = kind.__module__, kind.__qualname__  # the class may be made anew in every example
    if issubclass(kind, dict):
        return name, frozenset(value)
    if issubclass(kind, (tuple, list)):
        return name, getattr(value, "_fields", len(value))
    if hasattr(kind, "__dataclass_fields__"):
        import dataclasses

        return name, tuple(field.name for field in dataclasses.fields(value))
    return "other"


def _said(form: Any, value: Any) -> str:
    kind = type(value).__name__
    if isinstance(form, str):
        return kind
    if isinstance(value, dict):
        return f"{kind} with keys {', '.join(map(repr, value)) or 'none'}"
    if isinstance(form[1], int):
        return f"{kind} of length {form[1]}"
    return f"{kind} with fields {', '.join(form[1]) or 'none'}"
