"""How far two runs may differ: tensors by block and dtype, and printed lines by their numbers."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from weft.running.wire import Leaf

__all__ = ["Measure", "Tolerance", "same_line", "same_order"]

_SHOWN = 8  # tensors of so many elements are shown whole
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class Tolerance(NamedTuple):
    """What rounding may do: `relative` to an element, a tenth of it to the largest of its tensor,
    and `absolute`."""

    relative: float
    absolute: float

    @staticmethod
    def of(dtype: str) -> Tolerance:
        """That of a dtype: what a few hundred operations in another order come to."""
        return _BY_DTYPE.get(dtype, Tolerance(0.0, 0.0))


_BY_DTYPE = {
    "float64": Tolerance(1e-8, 1e-10), "complex128": Tolerance(1e-8, 1e-10),
    "float32": Tolerance(1e-4, 1e-6), "complex64": Tolerance(1e-4, 1e-6),
    "float16": Tolerance(5e-3, 1e-4), "bfloat16": Tolerance(4e-2, 1e-3),
    "float8_e4m3fn": Tolerance(0.25, 2**-9), "float8_e4m3fnuz": Tolerance(0.25, 2**-10),
    "float8_e5m2": Tolerance(0.5, 2**-16), "float8_e5m2fnuz": Tolerance(0.5, 2**-17),
}  # fmt: skip


class Measure:
    """The difference of two tensors, block by block."""

    def __init__(
        self, leaf: Leaf, tolerance: Tolerance, scale: float, keeps: bool = False
    ) -> None:
        self._leaf, self._tolerance = leaf, tolerance
        self._kept: tuple[bytearray, bytearray] | None = None
        if keeps:
            self._kept = bytearray(), bytearray()
        self._floor = tolerance.absolute * max(1.0, scale) + tolerance.relative / 10 * leaf.scale
        self._relative = tolerance.relative
        self._seen = 0
        self.same_bits = True
        self.beyond, self.largest, self.at = 0, -1.0, 0
        self.values: tuple[Any, Any] = (None, None)
        self.whole: tuple[str, str] | None = None

    def add(self, theirs: bytes, ours: bytes) -> None:
        """The next block of both."""
        if self._kept is not None:
            self._kept[0].extend(theirs)
            self._kept[1].extend(ours)
        if theirs != ours:
            self.same_bits = False
            a = np.frombuffer(theirs, self._leaf.letter)
            b = np.frombuffer(ours, self._leaf.letter)
            self._differ(a, b)
        self._seen += len(theirs) // np.dtype(self._leaf.letter).itemsize

    def _differ(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
        with np.errstate(all="ignore"):
            if a.dtype.kind in "fc":
                wide = np.complex128 if a.dtype.kind == "c" else np.float64
                apart = np.abs(a.astype(wide) - b.astype(wide))
                apart[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
                apart[np.isnan(apart)] = np.inf
                allowed = self._floor + self._relative * np.abs(a).astype(np.float64)
                allowed[~np.isfinite(allowed)] = 0.0
            else:
                apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
                apart = np.where(a == b, 0.0, np.maximum(apart, 1.0))
                allowed = np.zeros(())
        beyond = apart > allowed
        self.beyond += int(beyond.sum())
        if beyond.any():
            apart[~beyond] = -1.0
            k = int(apart.argmax())
            if apart[k] > self.largest:
                self.largest, self.at = float(apart[k]), self._seen + k
                self.values = a[k].item(), b[k].item()
            if a.size == self.total <= _SHOWN:
                self.whole = _shown(a, self._leaf), _shown(b, self._leaf)

    def both(self) -> tuple[np.ndarray[Any, Any], ...]:
        """The two tensors, where it keeps them."""
        assert self._kept is not None
        return tuple(
            np.frombuffer(kept, self._leaf.letter).reshape(self._leaf.shape) for kept in self._kept
        )

    def again(self) -> Measure:
        """A measure of other values of the same dtype, by the same tolerance."""
        return Measure(self._leaf, self._tolerance, 0.0)

    @property
    def total(self) -> int:
        """How many elements there are."""
        return int(np.prod(self._leaf.shape))

    def index(self) -> str:
        """Where the largest difference is, as `[1, 2]`."""
        place = np.unravel_index(self.at, self._leaf.shape) if self._leaf.shape else ()
        return str([int(k) for k in place])


def _shown(values: np.ndarray[Any, Any], leaf: Leaf) -> str:
    text = np.array2string(values.reshape(leaf.shape), separator=", ", precision=7)
    return " ".join(text.split())


def same_order(operand: Measure, indices: Measure) -> bool:
    """Whether both runs' indices name the same values of an operand but for rounding, each index
    once, along one of its dims: then either may be what `sort`, `topk` or their like gives."""
    values, order = operand.both()[0], indices.both()[0]
    if order.dtype.kind != "i":
        return False
    for dim in range(values.ndim):
        orders = [k if k.ndim == values.ndim else np.expand_dims(k, dim) for k in indices.both()
                  if k.ndim in (values.ndim, values.ndim - 1)]  # fmt: skip
        if len(orders) == 2 and all(_is_order(values, order, dim) for order in orders):
            measure = operand.again()
            measure.add(*(np.take_along_axis(values, k, dim).tobytes() for k in orders))
            if not measure.beyond:
                return True
    return False


def _is_order(values: np.ndarray[Any, Any], order: np.ndarray[Any, Any], dim: int) -> bool:
    """Whether these are indices along a dim, none of them twice."""
    sizes = [n for k, n in enumerate(order.shape) if k != dim]
    if sizes != [n for k, n in enumerate(values.shape) if k != dim]:
        return False
    if order.size and not 0 <= order.min() <= order.max() < values.shape[dim]:
        return False
    return bool((np.diff(np.sort(order, dim), axis=dim) != 0).all())


def same_line(theirs: str, ours: str) -> bool:
    """Whether two printed lines say the same: numbers but for rounding, addresses in any case."""
    if theirs == ours:
        return True
    a, b = (_ADDRESS.sub("0x", line) for line in (theirs, ours))
    if _words(a) != _words(b):
        return False
    return all(_same_number(x, y) for x, y in zip(_NUMBER.findall(a), _NUMBER.findall(b)))


def _words(line: str) -> list[str]:
    return _NUMBER.sub(" 0 ", line).split()


def _same_number(a: str, b: str) -> bool:
    """Of numbers with a point, the last digit may be another."""
    if "." not in a + b and "e" not in (a + b).lower():
        return int(a) == int(b)
    unit = max(_unit(a), _unit(b))
    return abs(float(a) - float(b)) <= 1.01 * unit + 1e-4 * abs(float(a))


def _unit(number: str) -> float:
    digits, _, power = number.lower().partition("e")
    return float(10.0 ** (int(power or 0) - len(digits.partition(".")[2])))
