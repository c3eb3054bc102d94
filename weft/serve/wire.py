"""Values as requests and answers have them, in JSON.

Note [Values in JSON]
Numbers, strings, lists, dicts, true, false and null are themselves. A tensor is
{"tensor": nested lists, "dtype": "float32"}, of complex numbers with pairs in their place; "shape"
says what the lists do not, where a size is 0. {"tuple": [...]} is a tuple, and {"dict": {...}} a
dict whose keys are those of such a form. Answers have lists for tuples, and dicts for named tuples
and dataclasses; keys that are no strings are their texts, which have to differ. What is not finite
is written as base/strict_json.py does (Note [Numbers in JSON]): so the text NaN is "\\NaN".
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import weft
from weft import Tensor
from weft.base.strict_json import decoded, encoded

__all__ = ["arguments", "bytes_of", "result"]

_FORMS = ({"tensor"}, {"tensor", "dtype"}, {"tensor", "shape"}, {"tensor", "dtype", "shape"},
          {"tuple"}, {"dict"})  # fmt: skip


def arguments(body: bytes) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that a request has: {"args": [...], "kwargs": {...}}, both optional.

    Raises:
        ValueError: it is not that.
    """
    told = json.loads(body, parse_constant=_refuse, parse_float=_float)
    if not isinstance(told, dict) or not told.keys() <= {"args", "kwargs"}:
        raise ValueError('[serve] expected {"args": [...], "kwargs": {...}}, got something else')
    args, kwargs = told.get("args", []), told.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ValueError("[serve] expected args to be a list and kwargs a dict")
    return [_value(arg) for arg in args], {name: _value(arg) for name, arg in kwargs.items()}


def result(value: Any) -> Any:
    """A result as JSON has it.

    Raises:
        TypeError: it holds what JSON has no form for, or a dict with two keys of one text.
    """
    if isinstance(value, Tensor):
        return _from_tensor(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        value = dict(zip(value._fields, value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        made: dict[str, Any] = {}
        for key, item in value.items():
            if str(key) in made:
                raise TypeError(
                    f"[serve] expected keys of different text in a result, got {str(key)!r} twice. "
                    "Hint: a list of pairs"
                )
            made[str(key)] = result(item)
        return {"dict": made} if made.keys() in _FORMS else made
    if isinstance(value, (list, tuple)):
        return [result(item) for item in value]
    return encoded(value, "a result", "serve")


def bytes_of(answer: Any) -> bytes:
    """An answer as it is sent."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()


def _refuse(name: str, written: str | None = None) -> Any:
    raise ValueError(
        f'[serve] expected finite numbers, got {name}. Hint: "{written or name}" with quotes'
    )


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _refuse(text, "Infinity" if value > 0 else "-Infinity")
    return value


def _value(told: Any) -> Any:
    if isinstance(told, list):
        return [_value(item) for item in told]
    if isinstance(told, dict):
        if told.keys() not in _FORMS:
            return {key: _value(item) for key, item in told.items()}
        if "tensor" in told:
            return _tensor(**told)
        inner = told.get("tuple", told.get("dict"))
        if not isinstance(inner, list if "tuple" in told else dict):
            raise ValueError(f"[serve] expected a {next(iter(told))}, got {type(inner).__name__}")
        if isinstance(inner, list):
            return tuple(_value(item) for item in inner)
        return {key: _value(item) for key, item in inner.items()}
    return decoded(told)


def _tensor(tensor: Any, dtype: str | None = None, shape: list[int] | None = None) -> Tensor:
    kind = None if dtype is None else getattr(weft, str(dtype), None)
    if dtype is not None and not isinstance(kind, weft.dtype):
        raise ValueError(f"[serve] expected a dtype as float32, got {dtype!r}")
    real = weft.empty(0, dtype=kind).real.dtype if kind is not None and kind.is_complex else kind
    try:
        made = weft.tensor(tensor, dtype=real)
    except TypeError:  # strings: what is not finite
        made = weft.tensor(decoded(tensor), dtype=real)
    if kind is not real:
        made = weft.view_as_complex(made)
    return made if shape is None else made.reshape(shape)


def _from_tensor(value: Tensor) -> dict[str, Any]:
    flat = weft.view_as_real(value) if value.is_complex() else value
    numbers = flat.tolist()
    if flat.is_floating_point() and not _finite(numbers):
        numbers = encoded(numbers, "a result", "serve")
    told = {"tensor": numbers, "dtype": str(value.dtype).rpartition(".")[2]}
    return told | ({"shape": list(value.shape)} if 0 in value.shape else {})


def _finite(numbers: Any) -> bool:
    return all(map(_finite, numbers)) if isinstance(numbers, list) else math.isfinite(numbers)
