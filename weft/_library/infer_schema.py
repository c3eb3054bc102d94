"""A schema of the annotations of a Python function: `torch.library.infer_schema`."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import weft
from weft import Tensor
from weft.base.names import layout, memory_format

__all__ = ["infer_schema"]

_BASES: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    weft.dtype: "ScalarType", weft.device: "Device",
}  # fmt: skip
_LISTED = (Tensor, int, float, bool)
_RETURNED = (Tensor, int, float, bool)
_UNIONS = (typing.Union, types.UnionType)
_LISTS = (list, collections.abc.Sequence)
_NUMBER = {int, float, bool}
_VALID = (
    "Tensor, int, float, bool, str, int | float | bool, torch.dtype, torch.device, their Optional, "
    "and lists or Sequences of Tensor, Optional[Tensor], int, float, bool or numbers"
)


def _base(kind: Any, allowed: Iterable[Any]) -> str | None:
    if typing.get_origin(kind) in _UNIONS and set(typing.get_args(kind)) == _NUMBER:
        return "Scalar"
    return _BASES.get(kind) if kind in allowed else None


def _optional(kind: Any) -> Any:
    """What may be None, or None if it may not."""
    if typing.get_origin(kind) not in _UNIONS or type(None) not in typing.get_args(kind):
        return None
    rest = [a for a in typing.get_args(kind) if a is not type(None)]
    return rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007


def _word(kind: Any) -> str | None:
    """The type of an argument in the words of schemas; None if there is none."""
    inner = _optional(kind)
    if inner is not None:
        word = _word(inner)
        return None if word is None or word.endswith("?") else f"{word}?"
    if typing.get_origin(kind) in _LISTS:
        (item,) = typing.get_args(kind) or (None,)
        if _optional(item) is Tensor:
            return "Tensor?[]"
        word = _base(item, _LISTED)
        return None if word is None else f"{word}[]"
    return _base(kind, _BASES)


def _returned(kind: Any) -> str | None:
    """The results in the words of schemas; None if there are none for them."""
    if kind is None or kind is type(None):
        return "()"
    if typing.get_origin(kind) is tuple:
        each = [_returned_one(k) for k in typing.get_args(kind)]
        return None if None in each else f"({', '.join(map(str, each))})"
    return _returned_one(kind)


def _returned_one(kind: Any) -> str | None:
    if typing.get_origin(kind) is list:
        return "Tensor[]" if typing.get_args(kind) == (Tensor,) else None
    return _base(kind, _RETURNED)


class _Reader:
    """A function whose signature is read; `fail` raises about it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.signature = function, inspect.signature(function)

    def fail(self, what: str) -> Any:
        raise ValueError(
            f"[infer_schema] expected a function with annotations that have a schema "
            f"(infer_schema(func): {what} Got func with signature {self.signature})"
        )

    def resolved(self, annotation: Any) -> Any:
        """An annotation, of its text if that is all there is."""
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, getattr(self.function, "__globals__", {}))  # noqa: S307
        except Exception:
            return self.fail(
                f"Unsupported type annotation {annotation}. It is not a type that can be found."
            )

    def argument(self, name: str, p: inspect.Parameter, written: int | None, every: bool) -> str:
        if p.annotation is inspect.Parameter.empty:
            self.fail(f"Parameter {name} must have a type annotation.")
        kind = self.resolved(p.annotation)
        word = _word(kind)
        if word is None:
            tuples = typing.get_origin(kind) is tuple
            advice = " We do not support Tuple inputs in schema; a list is one." if tuples else ""
            self.fail(
                f"Parameter {name} has unsupported type {kind}.{advice} The valid types are: "
                f"{_VALID}."
            )
        if written is not None and not (every and not str(word).startswith("Tensor")):
            if not str(word).startswith("Tensor"):
                self.fail(f"Parameter {name} is in mutable_args but only Tensors can be mutated")
            word = f"Tensor(a{written}!){str(word)[6:]}"
        default = "" if p.default is inspect.Parameter.empty else f"={self.default(p.default)}"
        return f"{word} {name}{default}"

    def default(self, value: Any) -> str:
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, (weft.dtype, weft.device, layout, memory_format)):
            return str(value).removeprefix("torch.")
        if value is None or isinstance(value, (int, float, bool)):
            return repr(value)
        if isinstance(value, (list, tuple)):
            return repr(list(value))
        return str(self.fail(f"A parameter has an unsupported default value, {value!r}."))


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
) -> str:
    """The schema of a function, from its annotations.

    Args:
        prototype_function: the function; each argument and the result is annotated.
        mutates_args: the names of the arguments that it writes, or "unknown": all tensors.
        op_name: what the schema begins with.

    Raises:
        ValueError: an annotation is missing, or there is no word for it in schemas.

    >>> from weft import Tensor
    >>> def scale(x: Tensor, by: float = 2.0, *, clip: bool = False) -> Tensor: ...
    >>> weft.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float by=2.0, *, bool clip=False) -> Tensor'
    """
    reader = _Reader(prototype_function)
    parameters = reader.signature.parameters
    all_written = mutates_args == "unknown"
    if isinstance(mutates_args, str) and not all_written:
        raise ValueError(
            f"[infer_schema] expected names, or 'unknown', for mutates_args, got {mutates_args!r} "
            "(mutates_args must either be a sequence of the names of the arguments that are "
            "mutated or the string 'unknown'.)"
        )
    names = set() if all_written else set(mutates_args)
    if unknown := names - set(parameters):
        reader.fail(f"{unknown} in mutates_args were not found in the custom op's signature.")
    listed: list[str] = []
    keyword = False
    for k, (name, p) in enumerate(parameters.items()):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            reader.fail("We do not support positional-only args, varargs, or varkwargs.")
        if p.kind is p.KEYWORD_ONLY and not keyword:
            keyword = True
            listed.append("*")
        at = k if all_written or name in names else None
        listed.append(reader.argument(name, p, at, all_written))
    made = reader.signature.return_annotation
    if made is inspect.Signature.empty:
        reader.fail("No return type annotation was provided. Please add one.")
    results = _returned(reader.resolved(made))
    if results is None:
        reader.fail(
            f"Return has unsupported type {made}. The valid types are: Tensor, List[Tensor], int, "
            "float, bool, int | float | bool, tuples of them, None."
        )
    return f"{op_name or ''}({', '.join(listed)}) -> {results}"
