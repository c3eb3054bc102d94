"""PyTorch's symbolic numbers by name. Sizes are plain numbers here, but that of a ragged dimension
(weft/nested/sizes.py), which is a `SymInt`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

__all__ = [
    "SymBool", "SymFloat", "SymInt", "sym_float", "sym_fresh_size", "sym_int", "sym_ite", "sym_max",
    "sym_min", "sym_not", "sym_sqrt", "sym_sum",
]  # fmt: skip


class _Symbol:
    """To annotate with and to ask `isinstance` of. TypeError on making one."""

    def __new__(cls, *args: Any) -> Any:
        raise TypeError(
            f"[{cls.__name__}] expected a plain number, got a symbolic one. Hint: sizes are "
            "numbers here, and programs are compiled for all of them"
        )


class SymInt(_Symbol):
    """A size that is no number: that of a nested tensor's ragged dimension.

    >>> nt = weft.nested.nested_tensor([weft.ones(1), weft.ones(2)], layout=weft.jagged)
    >>> isinstance(nt.shape[1], weft.SymInt)
    True
    """


class SymFloat(_Symbol):
    """A number that PyTorch's compiler does not know: there is none.

    >>> isinstance(1.0, weft.SymFloat)
    False
    """


class SymBool(_Symbol):
    """A condition that PyTorch's compiler does not know: there is none.

    >>> isinstance(True, weft.SymBool)
    False
    """


def sym_int(a: Any) -> int:
    """The number towards zero: `int`.

    >>> weft.sym_int(-1.5)
    -1
    """
    return int(a)


def sym_float(a: Any) -> float:
    """`float`.

    >>> weft.sym_float(2)
    2.0
    """
    return float(a)


def sym_not(a: Any) -> bool:
    """`not`.

    >>> weft.sym_not(False)
    True
    """
    return not a


def sym_sqrt(a: Any) -> float:
    """The square root of a number.

    >>> weft.sym_sqrt(4)
    2.0
    """
    return math.sqrt(a)


def sym_sum(args: Iterable[Any]) -> Any:
    """`sum`.

    >>> weft.sym_sum([1, 2, 3])
    6
    """
    return sum(args)


def sym_max(a: Any, b: Any) -> Any:
    """The greater one; a float if one of them is.

    >>> weft.sym_max(1, 2)
    2
    """
    kind = float if isinstance(a, float) or isinstance(b, float) else int
    return kind(max(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """The smaller one; a float if one of them is.

    >>> weft.sym_min(1, 2.0)
    1.0
    """
    kind = float if isinstance(a, float) or isinstance(b, float) else int
    return kind(min(a, b))


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t if b else f`, of values of one type.

    >>> weft.sym_ite(True, 1, 2)
    1
    """
    if type(t) is not type(f):
        raise AssertionError(f"[sym_ite] expected one type, got {type(t)} and {type(f)}")
    return t if b else f


def sym_fresh_size(expr: Any) -> Any:
    """NotImplementedError, as in PyTorch.

    >>> weft.sym_fresh_size(2)
    Traceback (most recent call last):
    NotImplementedError: ...
    """
    raise NotImplementedError("sym_fresh_size")
