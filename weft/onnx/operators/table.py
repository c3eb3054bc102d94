"""The table of what `weft.onnx.load` has of ONNX's operators.

An entry is a function over weft's public ops whose parameters bear ONNX's names: inputs by
position, attributes by keyword. An attribute that became an input in a later version of the
operator is given by that name, so one function serves both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import weft

_F = TypeVar("_F", bound=Callable[..., Any])

# The last opset whose node tests the table was checked with: later versions are refused.
NEWEST = 28


class Operator(NamedTuple):
    """What stands for an operator.

    Attributes:
        call: the function's name in a model's text, or a formula of its operands, as "{0} + {1}".
        inputs: names of the inputs, in order; more than these go to `rest`.
        rest: it takes any number of inputs.
        attributes: the names that it takes.
        numbers: inputs that it takes as numbers and lists of them, and not as tensors.
        scalars: operands may be numbers where others are tensors.
        counts: it takes `outputs`, how many results are wanted, and gives a tuple if more than one.
        versioned: it takes `version`, that of the operator.
        refuses: what it does not do, of the attributes given; None where it does.
    """

    call: str
    inputs: tuple[str, ...] = ()
    rest: bool = False
    attributes: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    scalars: bool = False
    counts: bool = False
    versioned: bool = False
    refuses: Callable[[dict[str, Any]], str | None] | None = None


OPERATORS: dict[str, Operator] = {}
# What a model's text calls, by name.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def helper(function: _F) -> _F:
    """Gives the text of models a function that stands for no operator."""
    FUNCTIONS[function.__name__] = function
    return function


def largest(dtype: weft.dtype) -> int:
    """The largest number of a dtype of integers."""
    if dtype == weft.uint8:
        return 2**8 - 1
    if dtype == weft.int8:
        return 2**7 - 1
    if dtype == weft.uint16:
        return 2**16 - 1
    if dtype == weft.int16:
        return 2**15 - 1
    if dtype == weft.uint32:
        return 2**32 - 1
    if dtype == weft.int32:
        return 2**31 - 1
    return 2**63 - 1


def smallest(dtype: weft.dtype) -> int:
    """The smallest number of a dtype of integers."""
    if dtype == weft.uint8 or dtype == weft.uint16 or dtype == weft.uint32:
        return 0
    return -largest(dtype) - 1


def listed(v: Any) -> Any:
    """A list of numbers, where a file may have one without dimensions."""
    return v if v is None or isinstance(v, (list, tuple)) else [v]


def single(v: Any) -> Any:
    """A number, where a file may have a list of one."""
    return v[0] if isinstance(v, (list, tuple)) else v


def operator(
    name: str,
    numbers: Iterable[str] = (),
    scalars: bool = False,
    refuses: Callable[[dict[str, Any]], str | None] | None = None,
) -> Callable[[_F], _F]:
    """Puts a function into the table."""

    def add(function: _F) -> _F:
        inputs, words, rest = [], set(), False
        for param in inspect.signature(function).parameters.values():
            if param.kind is param.VAR_POSITIONAL:
                rest = True
            elif param.kind is param.KEYWORD_ONLY:
                words.add(param.name)
            else:
                inputs.append(param.name)
        OPERATORS[name] = Operator(
            f"ops.{function.__name__}", tuple(inputs), rest,
            frozenset(words | set(inputs)) - {"outputs", "version"}, frozenset(numbers), scalars,
            "outputs" in words, "version" in words, refuses,
        )  # fmt: skip
        return helper(function)

    return add


def formula(name: str, call: str, scalars: bool = False) -> None:
    """Puts a formula of the operands into the table."""
    OPERATORS[name] = Operator(call, rest=True, scalars=scalars)
