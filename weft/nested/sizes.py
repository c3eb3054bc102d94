"""`NestedInt`: the size of a dimension whose parts are of unlike lengths, which prints as `j1`.

Sizes are equal where they came of the same offsets. Beside a plain number nothing is known of one
but that it may be 2 or more, as in PyTorch, so programs that ask for more are told.
"""

from __future__ import annotations

import itertools
from typing import Any
from weakref import ref

from weft import Tensor
from weft.base.symbols import SymInt

__all__ = ["NestedInt", "size_of"]

_numbers = itertools.count(1)


class NestedInt(SymInt):
    """The size of a ragged dimension, or a multiple of it.

    >>> import weft
    >>> x = weft.nested.nested_tensor([weft.ones(2), weft.ones(3)], layout=weft.jagged)
    >>> size = x.shape[1]
    >>> size == size, size == 2, size * 4 == size
    (True, False, False)
    """

    number: int
    by: int

    def __new__(cls, number: int, by: int = 1) -> NestedInt:
        self = object.__new__(cls)
        self.number, self.by = number, by
        return self

    def __repr__(self) -> str:
        return f"j{self.number}" if self.by == 1 else f"{self.by}*j{self.number}"

    def __hash__(self) -> int:
        return hash((self.number, self.by))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and (self.number, self.by) == (other.number, other.by)

    def __ge__(self, other: Any) -> bool:
        if isinstance(other, NestedInt) and other.number == self.number:
            return self.by >= other.by
        if not isinstance(other, NestedInt) and other <= 2:
            return True
        raise ValueError(
            f"[NestedInt] expected sizes that can be compared, got {self} and {other} (ge: "
            "relation is indeterminate)"
        )

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __le__(self, other: Any) -> bool:
        if isinstance(other, NestedInt):
            return other >= self
        if other < 2:
            return False
        raise ValueError(
            f"[NestedInt] expected sizes that can be compared, got {self} and {other} (ge: "
            "relation is indeterminate)"
        )

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __mul__(self, other: Any) -> NestedInt:
        if not isinstance(other, int):
            return NotImplemented
        return NestedInt(self.number, self.by * other)

    __rmul__ = __mul__

    def __int__(self) -> int:
        raise AttributeError(
            f"[NestedInt] expected a number, got {self}, the size of a ragged dimension "
            "('NestedIntNode' object has no attribute 'int_'). Hint: offsets().diff() has the "
            "lengths of the parts"
        )

    def __index__(self) -> int:
        raise TypeError(
            f"[NestedInt] expected a number, got {self}, the size of a ragged dimension. Hint: "
            "offsets().diff() has the lengths of the parts"
        )


#: The size of each tensor of offsets, or of lengths, as long as it is there.
_known: dict[int, tuple[ref[Tensor], NestedInt]] = {}


def size_of(source: Tensor) -> NestedInt:
    """The size of a dimension that this very tensor, offsets or lengths, cuts into parts."""
    key = id(source)
    if key not in _known:
        _known[key] = ref(source, lambda _: _known.pop(key, None)), NestedInt(next(_numbers))
    return _known[key][1]
