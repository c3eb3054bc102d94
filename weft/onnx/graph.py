"""The values of a graph of ONNX while it is made, and what all graphs of a model share.

A `Value` is what a node gives, with its dtype and the sizes that are known; `builder.py` makes the
nodes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft.onnx.errors import NeedsKnown, NotOnnx

if TYPE_CHECKING:
    from weft.onnx.builder import Builder

Size = Any  # int, or a Value that holds one


def onnx_package() -> Any:
    """The package `onnx`, which writes and checks the files.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise ImportError(
            "[onnx] expected the package onnx, which is not installed. Hint: pip install weft[onnx]"
        ) from None


class _ByDtype(dict[Any, Any]):
    """What ONNX has for a dtype; asking for another raises NotOnnx."""

    def __missing__(self, dtype: Any) -> Any:
        raise NotOnnx(f"a tensor of {dtype}")


# TensorProto's numbers.
ELEM = _ByDtype({
    weft.float32: 1, weft.uint8: 2, weft.int8: 3, weft.uint16: 4, weft.int16: 5, weft.int32: 6,
    weft.int64: 7, weft.bool: 9, weft.float16: 10, weft.float64: 11, weft.uint32: 12,
    weft.uint64: 13, weft.complex64: 14, weft.complex128: 15, weft.bfloat16: 16,
})  # fmt: skip
DTYPE = {number: dtype for dtype, number in ELEM.items()}
NUMPY = _ByDtype({
    weft.float32: np.float32, weft.uint8: np.uint8, weft.int8: np.int8, weft.uint16: np.uint16,
    weft.int16: np.int16, weft.int32: np.int32, weft.int64: np.int64, weft.bool: np.bool_,
    weft.float16: np.float16, weft.float64: np.float64, weft.uint32: np.uint32,
    weft.uint64: np.uint64, weft.complex64: np.complex64, weft.complex128: np.complex128,
})  # fmt: skip


class Value:
    """What a node, an input or a constant of a graph gives.

    Attributes:
        name: in the graph; unique in the model.
        dtype: weft's.
        sizes: with None for what is free; None altogether where not even the rank is known.
        known: the elements, of a constant; else None.
    """

    __slots__ = ("dtype", "known", "model", "name", "sizes")

    def __init__(
        self,
        model: Model,
        name: str,
        dtype: Any,
        sizes: tuple[int | None, ...] | None = None,
        known: Any = None,
    ) -> None:
        self.model, self.name, self.dtype = model, name, dtype
        self.sizes, self.known = sizes, known

    def __repr__(self) -> str:
        return f"Value({self.name}, {self.dtype}, {self.sizes})"

    @property
    def rank(self) -> int:
        """The number of dimensions.

        Raises:
            NeedsKnown: nothing tells it.
        """
        if self.sizes is None:
            raise NeedsKnown("a number of dimensions")
        return len(self.sizes)

    def _two(self, op: str, other: Any, swapped: bool = False) -> Value:
        g = self.model.active
        return g.op(op, other, self) if swapped else g.op(op, self, other)

    def __add__(self, other: Any) -> Value:
        return self._two("Or" if self.dtype == weft.bool else "Add", other)

    def __radd__(self, other: Any) -> Value:
        return self._two("Add", other, True)

    def __sub__(self, other: Any) -> Value:
        return self._two("Sub", other)

    def __rsub__(self, other: Any) -> Value:
        return self._two("Sub", other, True)

    def __mul__(self, other: Any) -> Value:
        return self._two("And" if self.dtype == weft.bool else "Mul", other)

    def __rmul__(self, other: Any) -> Value:
        return self._two("Mul", other, True)

    def __truediv__(self, other: Any) -> Value:
        return self._two("Div", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._two("Div", other, True)

    def __floordiv__(self, other: Any) -> Value:
        """Of sizes: operands that are not negative."""
        return self._two("Div", other)

    def __neg__(self) -> Value:
        return self.model.active.op("Neg", self)

    def _ordered(self, op: str, other: Any) -> Value:
        if self.dtype != weft.bool:
            return self._two(op, other)
        g = self.model.active
        left = g.cast(self, weft.int32)
        return g.op(op, left, g.cast(other, weft.int32) if isinstance(other, Value) else other)

    def __lt__(self, other: Any) -> Value:
        return self._ordered("Less", other)

    def __le__(self, other: Any) -> Value:
        return self._ordered("LessOrEqual", other)

    def __gt__(self, other: Any) -> Value:
        return self._ordered("Greater", other)

    def __ge__(self, other: Any) -> Value:
        return self._ordered("GreaterOrEqual", other)


# What PyTorch's exporter names the metadata of a value with which it says what an initializer was.
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"


class Number(Value):
    """A number of Python's that only a run knows: a value of the graph without dimensions."""

    __slots__ = ()


class Model:
    """What all graphs of a model share: names, constants, weights.

    Note [Weights and constants]
    Initializers are the program's tensors alone, and the graph says of each what it was, in the
    words of PyTorch's own exporter (`KIND`): a parameter, a buffer, or a tensor that is neither.
    What the writer itself needs (shapes, axes, numbers) are Constant nodes at the start of the
    graph. So who reads the model, `weft.onnx.load` for one, takes nothing for a weight that never
    was one.

    Attributes:
        active: the builder of the graph that nodes go to now; operators on values add theirs to it.
        initializers: tensors of the program.
        kinds: by name, what they were: "PARAMETER", "BUFFER", "CONSTANT_TENSOR".
        constant_nodes: all that is known besides, for the start of the outermost graph.
        apart: the second example of a number that a tensor's value gives, of the first (Note
            [Examples]).
        asked: whether there was such a number.
        checks: values whose nodes stay though nobody reads them: they raise in a run where a size
            is not what the graph takes it for.
    """

    active: Builder

    def __init__(self, opset: int, apart: Callable[[Any], Any] = lambda n: n) -> None:
        self.opset, self.apart, self.asked = opset, apart, False
        self.names: dict[str, int] = {}
        self.initializers: list[Any] = []
        self.kinds: dict[str, str] = {}
        self.constants: dict[Any, Value] = {}
        self.constant_nodes: list[Any] = []
        self.weights: dict[int, Value] = {}
        self.checks: set[str] = set()
        self.held: list[Any] = []

    def name(self, stem: str) -> str:
        """A name that no other value or node of the model has."""
        count = self.names.get(stem, 0)
        self.names[stem] = count + 1
        name = f"{stem}_{count}" if count else stem
        return self.name(name) if count and name in self.names else name


def value_info(v: Value) -> Any:
    """A value's dtype and sizes, as inputs and outputs of graphs state them."""
    helper = onnx_package().helper
    sizes = (
        None
        if v.sizes is None
        else [f"{v.name}_{d}" if n is None else n for d, n in enumerate(v.sizes)]
    )
    return helper.make_tensor_value_info(v.name, ELEM[v.dtype], sizes)
