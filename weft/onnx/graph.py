"""A graph of ONNX nodes while it is made: values, constants, nodes, and graphs inside of nodes.

`Builder` is what forms (`forms_*.py`, and the expressions of records) make nodes with; `Value` is
what a
node gives, with its dtype and the sizes that are known.
"""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import weft
from weft.onnx.errors import NeedsKnown, NotOnnx

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


# TensorProto's numbers.
ELEM = {
    weft.float32: 1, weft.uint8: 2, weft.int8: 3, weft.uint16: 4, weft.int16: 5, weft.int32: 6,
    weft.int64: 7, weft.bool: 9, weft.float16: 10, weft.float64: 11, weft.uint32: 12,
    weft.uint64: 13, weft.complex64: 14, weft.complex128: 15, weft.bfloat16: 16,
}  # fmt: skip
DTYPE = {number: dtype for dtype, number in ELEM.items()}
_NUMPY = {
    weft.float32: np.float32, weft.uint8: np.uint8, weft.int8: np.int8, weft.uint16: np.uint16,
    weft.int16: np.int16, weft.int32: np.int32, weft.int64: np.int64, weft.bool: np.bool_,
    weft.float16: np.float16, weft.float64: np.float64, weft.uint32: np.uint32,
    weft.uint64: np.uint64, weft.complex64: np.complex64, weft.complex128: np.complex128,
}  # fmt: skip

# What operators give that is not of their first operand's dtype.
_BOOL = {
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not", "And", "Or", "Xor", "IsNaN",
    "IsInf",
}  # fmt: skip
_INT64 = {"Shape", "Size", "ArgMax", "ArgMin", "NonZero"}
_SECOND = {"Where"}
_SAME_SIZES = {
    "Abs",
    "Neg",
    "Sign",
    "Sqrt",
    "Exp",
    "Log",
    "Reciprocal",
    "Erf",
    "Sigmoid",
    "Tanh",
    "Relu",
    "Floor",
    "Ceil",
    "Round",
    "Not",
    "IsNaN",
    "IsInf",
    "Identity",
    "Cast",
    "Softplus",
    "CumSum",
    "Softmax",
    "LogSoftmax",
    "Sin",
    "Cos",
    "Clip",
    "BitwiseNot",
    "Dropout",
    "ScatterND",
    "ScatterElements",
    "Trilu",
}
_BROADCAST = {
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Where", "And", "Or", "Xor", "Equal",
    "Less",
    "LessOrEqual", "Greater", "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
}  # fmt: skip


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


class Number(Value):
    """A number of Python's that only a run knows: a value of the graph without dimensions."""

    __slots__ = ()


class Model:
    """What all graphs of a model share: names, constants, weights.

    Attributes:
        active: the builder of the graph that nodes go to now; operators on values add theirs to it.
    """

    active: Builder

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.names: dict[str, int] = {}
        self.initializers: list[Any] = []
        self.constants: dict[Any, Value] = {}
        self.weights: dict[int, Value] = {}
        self.held: list[Any] = []

    def name(self, stem: str) -> str:
        """A name that no other value or node of the model has."""
        count = self.names.get(stem, 0)
        self.names[stem] = count + 1
        name = f"{stem}_{count}" if count else stem
        return self.name(name) if count and name in self.names else name


class Builder:
    """Makes the nodes of one graph, in order.

    Attributes:
        nodes: those made so far.
        results: of the op whose form is being written: dtype and sizes of each result.
    """

    def __init__(self, model: Model, parent: Builder | None = None) -> None:
        self.model, self.parent = model, parent
        if parent is None:
            model.active = self
        self.nodes: list[Any] = []
        self.results: tuple[Value, ...] = ()

    @property
    def opset(self) -> int:
        """The version of ONNX's operators that is written."""
        return self.model.opset

    @property
    def result(self) -> Value:
        """The first result of the op that is being written: dtype and sizes, no value."""
        return self.results[0]

    # ---- constants

    def const(self, value: Any, dtype: Any) -> Value:
        """A constant: number, nested lists, NumPy array."""
        if dtype == weft.bfloat16:
            return self.cast(self.const(value, weft.float32), dtype)
        with np.errstate(over="ignore"):
            array: Any = np.asarray(value, dtype=_NUMPY[dtype])
        key = (array.tobytes(), array.shape, dtype)
        if key not in self.model.constants:
            proto = onnx_package().numpy_helper.from_array(array, self.model.name("constant"))
            self.model.initializers.append(proto)
            self.model.constants[key] = Value(self.model, proto.name, dtype, array.shape, array)
        return self.model.constants[key]

    def weight(self, tensor: weft.Tensor, name: str = "weight") -> Value:
        """A tensor of the program, written once."""
        found = self.model.weights.get(id(tensor))
        if found is None:
            self.model.held.append(tensor)
            plain = tensor.detach()
            if plain.dtype == weft.bfloat16:
                made = onnx_package().helper.make_tensor(
                    self.model.name(name), ELEM[plain.dtype], list(plain.shape),
                    plain.contiguous().view(weft.int16).numpy().tobytes(), raw=True,
                )  # fmt: skip
            else:
                array: Any = np.ascontiguousarray(plain.numpy()).reshape(tuple(plain.shape))
                made = onnx_package().numpy_helper.from_array(array, self.model.name(name))
            self.model.initializers.append(made)
            small = plain.numpy() if plain.numel() <= 64 and plain.dtype in _NUMPY else None
            found = Value(self.model, made.name, plain.dtype, tuple(plain.shape), small)
            self.model.weights[id(tensor)] = found
        return found

    def ints(self, values: Any) -> Value:
        """A row of int64: an int, or a list of them, of which some may be values of the graph."""
        if isinstance(values, Value):
            return self.reshape(values, [1]) if values.sizes == () else values
        values = [values] if isinstance(values, int) else list(values)
        if all(isinstance(v, int) for v in values):
            return self.const(np.array(values, np.int64), weft.int64)
        rows: list[Value] = []
        for v in values:
            row = (
                self.unsqueeze(self.cast(v, weft.int64), [0])
                if isinstance(v, Value)
                else self.ints(v)
            )
            rows.append(row)
        return rows[0] if len(rows) == 1 else self.op("Concat", *rows, axis=0, sizes=(len(rows),))

    def scalar(self, value: Any, dtype: Any) -> Value:
        """A number as a value without dimensions."""
        if isinstance(value, Value):
            return self.cast(value, dtype)
        return self.const(value, dtype)

    # ---- nodes

    def op(
        self, name: str, *inputs: Any, dtype: Any = None, sizes: Any = None, **attributes: Any
    ) -> Value:
        """Adds a node with one output. Numbers among the inputs become constants of the first
        value's dtype.

        Args:
            name: the operator's.
            inputs: values, numbers, None for what is left out.
            dtype: of the output where the operator does not tell it.
            sizes: of the output, where they are known.
            attributes: the operator's; None is left out, `elem` is the one that ONNX calls dtype.
        """
        return self.several(name, *inputs, outputs=1, dtype=dtype, sizes=sizes, **attributes)[0]

    def several(
        self,
        name: str,
        *inputs: Any,
        outputs: int,
        dtype: Any = None,
        sizes: tuple[int | None, ...] | None = None,
        **attributes: Any,
    ) -> tuple[Value, ...]:
        """The same with several outputs."""
        values = self._operands(inputs)
        names = [v.name if v is not None else "" for v in values]
        while names and not names[-1]:
            names.pop()
        outs = [self.model.name(f"{name.lower()}") for _ in range(outputs)]
        keep = {k: _attribute(v) for k, v in attributes.items() if v is not None}
        if "elem" in keep:
            keep["dtype"] = keep.pop("elem")
        label = self.model.name(f"{name}_node")
        self.nodes.append(onnx_package().helper.make_node(name, names, outs, name=label, **keep))
        made = dtype or _result_dtype(name, values, attributes)
        sizes = sizes if sizes is not None else _result_sizes(name, values)
        return tuple(Value(self.model, out, made, sizes) for out in outs)

    def _operands(self, inputs: Sequence[Any]) -> list[Value | None]:
        plain = [v for v in inputs if isinstance(v, Value) and v.dtype != weft.bool]
        like = next((v.dtype for v in plain if not isinstance(v, Number)), None)
        like = like or next((v.dtype for v in plain), None)
        if like is None:
            like = next((v.dtype for v in inputs if isinstance(v, Value)), weft.float32)
        out: list[Value | None] = []
        for v in inputs:
            if isinstance(v, Number) and v.dtype != weft.bool:
                out.append(self.cast(v, like))
            elif v is None or isinstance(v, Value):
                out.append(v)
            elif isinstance(v, weft.Tensor):
                out.append(self.weight(v))
            else:
                out.append(self.const(v, like))
        return out

    def graph(self, name: str, inputs: Sequence[Value], outputs: Sequence[Value]) -> Any:
        """The nodes so far as a GraphProto, for a model or for an attribute of If and Loop."""
        helper = onnx_package().helper
        return helper.make_graph(
            self.nodes, name, [value_info(v) for v in inputs], [value_info(v) for v in outputs]
        )

    @contextlib.contextmanager
    def inner(self) -> Iterator[Builder]:
        """A builder of a graph inside of a node, which sees the values of this one."""
        made = self.model.active = Builder(self.model, self)
        try:
            yield made
        finally:
            self.model.active = self

    # ---- what forms often write

    def cast(self, x: Any, dtype: Any) -> Value:
        """`x` in a dtype; itself if it has it."""
        if not isinstance(x, Value):
            return self.const(x, dtype)
        if x.dtype == dtype:
            return Value(x.model, x.name, dtype, x.sizes, x.known) if isinstance(x, Number) else x
        if x.known is not None and dtype in _NUMPY:
            return self.const(x.known.astype(_NUMPY[dtype]), dtype)
        return self.op("Cast", x, to=ELEM[dtype], dtype=dtype, sizes=x.sizes)

    def truth(self, x: Any) -> Value:
        """Whether elements are not zero."""
        return self.cast(x, weft.bool)

    def shape(self, x: Value) -> Value:
        """The sizes as a row of int64."""
        if x.sizes is not None and None not in x.sizes:
            return self.ints(x.sizes)
        return self.op("Shape", x, sizes=None if x.sizes is None else (x.rank,))

    def size(self, x: Value, dim: int) -> Size:
        """One size: an int where it is fixed, else a value."""
        dim = dim % x.rank if x.rank else 0
        known = x.sizes[dim] if x.sizes is not None else None
        if known is not None:
            return known
        row = self.op("Shape", x, start=dim, end=dim + 1, sizes=(1,))
        return self.reshape(row, [])

    def size_list(self, x: Value) -> list[Size]:
        """All sizes."""
        return [self.size(x, d) for d in range(x.rank)]

    def fixed(self, x: Value, dim: int, what: str = "a size") -> int:
        """A size that the form has to know.

        Raises:
            NeedsKnown: it is free.
        """
        known = x.sizes[dim % x.rank] if x.sizes is not None else None
        if known is None:
            raise NeedsKnown(f"{what} (dimension {dim})")
        return known

    def numel(self, x: Value) -> Size:
        """How many elements."""
        if x.sizes is not None and None not in x.sizes:
            return math.prod(int(n) for n in x.sizes if n is not None)
        return self.op("Size", x, sizes=())

    def reshape(self, x: Value, sizes: Iterable[Size]) -> Value:
        """`x` with other sizes; -1 for one of them, as in ONNX. A size 0 is 0."""
        sizes = list(sizes)
        known = tuple(n if isinstance(n, int) and n >= 0 else None for n in sizes)
        open_size = any(isinstance(n, Value) for n in sizes) and -1 not in known_or_rest(sizes)
        zero = 1 if open_size or any(isinstance(n, int) and n == 0 for n in sizes) else None
        return self.op("Reshape", x, self.ints(sizes), allowzero=zero, sizes=known)

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        """Sizes 1 at the places `axes` of the result."""
        if not axes:
            return x
        sizes: list[int | None] | None = None
        if x.sizes is not None:
            total = len(x.sizes) + len(axes)
            rest = iter(x.sizes)
            new = {a % total for a in axes}
            sizes = [1 if d in new else next(rest) for d in range(total)]
        return self.op(
            "Unsqueeze", x, self.ints(axes), sizes=None if sizes is None else tuple(sizes)
        )

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """Without the sizes 1 at `axes`."""
        if not axes:
            return x
        sizes = None
        if x.sizes is not None:
            gone = {a % len(x.sizes) for a in axes}
            sizes = tuple(n for d, n in enumerate(x.sizes) if d not in gone)
        return self.op("Squeeze", x, self.ints(axes), sizes=sizes)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Dimensions in another order."""
        perm = [p % x.rank for p in perm] if x.rank else []
        if perm == list(range(len(perm))):
            return x
        sizes = tuple(x.sizes[p] for p in perm) if x.sizes is not None else None
        return self.op("Transpose", x, perm=perm, sizes=sizes)

    def swap(self, x: Value, a: int, b: int) -> Value:
        """Two dimensions exchanged."""
        perm = list(range(x.rank))
        if not perm:
            return x
        perm[a % x.rank], perm[b % x.rank] = perm[b % x.rank], perm[a % x.rank]
        return self.transpose(x, perm)

    def slice(self, x: Value, dim: int, start: Size, end: Size, step: int = 1) -> Value:
        """Part of a dimension; `end` past the end is the end."""
        sizes = None
        if x.sizes is not None:
            n, known = x.sizes[dim], None
            if isinstance(start, int) and isinstance(end, int) and n is not None:
                known = len(range(n)[start:end:step])
            sizes = (*x.sizes[:dim], known, *x.sizes[dim % len(x.sizes) + 1 :])
        return self.op(
            "Slice",
            x,
            self.ints(start),
            self.ints(end),
            self.ints(dim),
            self.ints(step),
            sizes=sizes,
        )

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """One after the other along a dimension."""
        if len(parts) == 1:
            return parts[0]
        sizes = None
        if all(p.sizes is not None for p in parts):
            axis %= parts[0].rank
            along = [p.sizes[axis] for p in parts if p.sizes is not None]
            total = None if None in along else sum(n for n in along if n is not None)
            sizes = tuple(total if d == axis else n for d, n in enumerate(parts[0].sizes or ()))
        return self.op("Concat", *parts, axis=axis, sizes=sizes)

    def full(self, sizes: Iterable[Size] | Size, value: Any, dtype: Any) -> Value:
        """A tensor of one number."""
        sizes = [sizes] if isinstance(sizes, (int, Value)) else list(sizes)
        known = tuple(n if isinstance(n, int) else None for n in sizes)
        if isinstance(value, Value):
            return self.op("Expand", self.cast(value, dtype), self.ints(sizes), sizes=known)
        fill = onnx_package().helper.make_tensor("value", ELEM[dtype], [1], [value])
        return self.op("ConstantOfShape", self.ints(sizes), value=fill, dtype=dtype, sizes=known)

    def arange(self, n: Size) -> Value:
        """0 to n - 1 in int64."""
        if isinstance(n, int):
            return self.const(np.arange(n), weft.int64)
        i = weft.int64
        return self.op("Range", self.const(0, i), self.cast(n, i), self.const(1, i), sizes=(None,))

    def expand(self, x: Value, sizes: Iterable[Size]) -> Value:
        """Broadcast to sizes."""
        sizes = list(sizes)
        known = tuple(n if isinstance(n, int) else None for n in sizes)
        return (
            x
            if known == x.sizes and None not in known
            else self.op("Expand", x, self.ints(sizes), sizes=known)
        )

    def reduce(self, name: str, x: Value, dims: Sequence[int] | int | None, keepdim: bool) -> Value:
        """ReduceSum and its like over some dimensions; None or none: all."""
        rank = x.rank
        if isinstance(dims, int):
            dims = [dims]
        dims = sorted({d % rank for d in dims}) if dims and rank else list(range(rank))
        kept = (
            1 if d in dims else n for d, n in enumerate(x.sizes or ()) if keepdim or d not in dims
        )
        if not rank:
            return self.op("Identity", x)
        return self.op(name, x, self.ints(dims), keepdims=int(keepdim), sizes=tuple(kept))


def known_or_rest(sizes: Sequence[Size]) -> list[int]:
    """The sizes that are ints."""
    return [n for n in sizes if isinstance(n, int)]


def value_info(v: Value) -> Any:
    """A value's dtype and sizes, as inputs and outputs of graphs state them."""
    helper = onnx_package().helper
    sizes = (
        None
        if v.sizes is None
        else [f"{v.name}_{d}" if n is None else n for d, n in enumerate(v.sizes)]
    )
    return helper.make_tensor_value_info(v.name, ELEM[v.dtype], sizes)


def _attribute(value: Any) -> Any:
    if isinstance(value, Value):
        raise NeedsKnown("an attribute")
    if isinstance(value, (tuple, list)):
        return [_attribute(v) for v in value]
    return int(value) if isinstance(value, bool) else value


def _result_dtype(name: str, values: Sequence[Value | None], attributes: dict[str, Any]) -> Any:
    if name in _BOOL:
        return weft.bool
    if name in _INT64:
        return weft.int64
    if name == "Cast":
        return DTYPE[attributes["to"]]
    chosen = values[1] if name in _SECOND else next((v for v in values if v is not None), None)
    if chosen is None:
        raise NotOnnx(f"the dtype that {name} gives", "")
    return chosen.dtype


def _result_sizes(name: str, values: Sequence[Value | None]) -> tuple[int | None, ...] | None:
    if name in _SAME_SIZES and values[0] is not None:
        return values[0].sizes
    if name not in _BROADCAST:
        return None
    shapes = [v.sizes for v in values if v is not None]
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s is not None]
    rank = max(map(len, known))
    out: list[int | None] = []
    for d in range(rank):
        here = [s[d - rank] for s in known if d - rank >= -len(s)]
        more = [n for n in here if n != 1]
        fixed = [n for n in more if n is not None]
        out.append(fixed[0] if fixed else None if more else 1)
    return tuple(out)
