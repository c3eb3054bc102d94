"""The nodes of a graph of ONNX, and graphs inside of nodes: what forms (`forms_*.py`, and the
expressions of records) write with."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import weft
from weft.onnx import opsets
from weft.onnx.errors import NeedsKnown, NotOnnx, TooDeep
from weft.onnx.graph import ELEM, NUMPY, Model, Number, Size, Value, onnx_package, value_info
from weft.onnx.results import result_dtype, result_sizes

_DEEPEST = 30  # graphs within each other: protobuf reads 100 levels, of which each is three


class Builder:
    """Makes the nodes of one graph, in order.

    Attributes:
        nodes: those made so far.
        results: of the op whose form is being written: dtype and sizes of each result.
        depth: how many nodes it is inside of.
    """

    def __init__(self, model: Model, parent: Builder | None = None) -> None:
        self.model, self.parent = model, parent
        self.depth: int = parent.depth + 1 if parent is not None else 0
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
            try:
                array: Any = np.asarray(value, dtype=NUMPY[dtype])
            except OverflowError:
                raise NotOnnx(f"the number {value} as {dtype}") from None
        key = (array.tobytes(), array.shape, dtype)
        if key not in self.model.constants:
            onnx, name = onnx_package(), self.model.name("constant")
            value = onnx.numpy_helper.from_array(array)
            label = self.model.name("Constant_node")
            self.model.constant_nodes.append(
                onnx.helper.make_node("Constant", [], [name], name=label, value=value)
            )
            self.model.constants[key] = Value(self.model, name, dtype, array.shape, array)
        return self.model.constants[key]

    def literal(self, tensor: weft.Tensor) -> Value:
        """A tensor that is known while the model is written, as a constant."""
        plain = tensor.float() if tensor.dtype == weft.bfloat16 else tensor
        _ = NUMPY[plain.dtype]  # raises before the memory is asked for
        return self.const(plain.detach().numpy(), tensor.dtype)

    def weight(self, tensor: weft.Tensor, name: str, kind: str) -> Value:
        """A tensor of the program, written once; `kind` says what it was (Note [Weights and
        constants])."""
        found = self.model.weights.get(id(tensor))
        if found is None:
            self.model.held.append(tensor)
            plain = tensor.detach()
            made = initializer(plain, self.model.name(name))
            self.model.initializers.append(made)
            self.model.kinds[made.name] = kind
            small = plain.numpy() if plain.numel() <= 64 and plain.dtype in NUMPY else None
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
        values: opsets.Values = self._operands(inputs)
        if (older := opsets.instead(self, name, values, attributes)) is not None:
            return (older,)
        values, attributes = opsets.arguments(name, self.opset, values, attributes)
        thin = opsets.narrow(self.opset, name, values, attributes)
        if thin is not None:
            wide = [self.cast(v, weft.float32) if v and v.dtype == thin else v for v in values]
            into = weft.float32 if dtype == thin else dtype
            made = self.several(name, *wide, outputs=outputs, dtype=into, sizes=sizes, **attributes)
            return tuple(self.cast(v, thin) if v.dtype == weft.float32 else v for v in made)
        names = [v.name if v is not None else "" for v in values]
        while names and not names[-1]:
            names.pop()
        outs = [self.model.name(f"{name.lower()}") for _ in range(outputs)]
        keep = {k: _attribute(v) for k, v in attributes.items() if v is not None}
        if "elem" in keep:
            keep["dtype"] = keep.pop("elem")
        label = self.model.name(f"{name}_node")
        self.nodes.append(onnx_package().helper.make_node(name, names, outs, name=label, **keep))
        kind = dtype or result_dtype(name, values, attributes)
        sizes = sizes if sizes is not None else result_sizes(name, values)
        return tuple(Value(self.model, out, kind, sizes) for out in outs)

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
                out.append(self.literal(v))
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
        """A builder of a graph inside of a node, which sees the values of this one.

        Raises:
            TooDeep: a file with it could not be read.
        """
        if self.depth >= _DEEPEST:
            raise TooDeep(
                f"branches and loops more than {_DEEPEST} deep, which no runtime reads; an early "
                "return makes what is behind it one deeper",
                "set a variable in the branches, and return it once",
            )
        made = self.model.active = Builder(self.model, self)
        try:
            yield made
        finally:
            self.model.active = self

    def unless_empty(
        self,
        size: Size,
        write: Callable[[Builder], Sequence[Value]],
        shapes: Sequence[Sequence[Size]],
    ) -> Sequence[Value]:
        """What `write` makes, by an If where `size` is free; where that is 0 in a run, tensors
        without elements: of operators whose kernels want some."""
        if isinstance(size, int):
            return write(self)
        model, graphs = self.model, []
        with self.inner() as some:
            made = list(write(some))
            outs = [some.op("Identity", v) for v in made]
            graphs.append(some.graph(model.name("some"), [], outs))
        with self.inner() as none:
            outs = [none.full(sizes, 0, v.dtype) for v, sizes in zip(made, shapes, strict=True)]
            graphs.append(none.graph(model.name("none"), [], outs))
        truth = self.op("Greater", size, 0)
        names = [model.name("unless_empty") for _ in made]
        self.nodes.append(
            onnx_package().helper.make_node(
                "If", [truth.name], names, model.name("If_node"),
                then_branch=graphs[0], else_branch=graphs[1],
            )
        )  # fmt: skip
        return [Value(model, name, v.dtype, v.sizes) for name, v in zip(names, made)]

    # ---- what forms often write

    def cast(self, x: Any, dtype: Any) -> Value:
        """`x` in a dtype; itself if it has it."""
        if not isinstance(x, Value):
            return self.const(x, dtype)
        if x.dtype == dtype:
            return Value(x.model, x.name, dtype, x.sizes, x.known) if isinstance(x, Number) else x
        if x.known is not None and dtype in NUMPY:
            return self.const(x.known.astype(NUMPY[dtype]), dtype)
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

    def product(self, sizes: Iterable[Size]) -> Size:
        """The product of sizes."""
        known, rest = 1, list[Value]()
        for n in sizes:
            known, rest = (known * n, rest) if isinstance(n, int) else (known, [*rest, n])
        if not rest or not known:
            return known
        out = rest[0]
        for n in rest[1:]:
            out = out * n
        return out if known == 1 else out * known

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
        if dtype == weft.bfloat16:
            return self.cast(self.full(sizes, value, weft.float32), dtype)
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
        if name == "ReduceMean" and (count := self._count_of_mean(x, dims)) is not None:
            return self.reduce("ReduceSum", x, dims, keepdim) / count
        return self.op(name, x, self.ints(dims), keepdims=int(keepdim), sizes=tuple(kept))

    def _count_of_mean(self, x: Value, dims: Sequence[int]) -> Value | None:
        """How many elements a mean is of, where that may be none: ONNX's ReduceMean leaves open
        what it then gives."""
        count: Any = 1
        for d in dims:
            count = self.size(x, d) * count
        if isinstance(count, int) and count:
            return None
        return self.cast(count, x.dtype)


def initializer(tensor: weft.Tensor, name: str) -> Any:
    """A tensor with its numbers, as a file has it."""
    plain = tensor.detach()
    elem = ELEM[plain.dtype]  # raises for what ONNX has no dtype of
    if plain.dtype == weft.bfloat16:
        content = plain.contiguous().view(weft.int16).numpy().tobytes()
        return onnx_package().helper.make_tensor(name, elem, list(plain.shape), content, raw=True)
    array: Any = np.ascontiguousarray(plain.numpy()).reshape(tuple(plain.shape))
    return onnx_package().numpy_helper.from_array(array, name)


def known_or_rest(sizes: Sequence[Size]) -> list[int]:
    """The sizes that are ints."""
    return [n for n in sizes if isinstance(n, int)]


def _attribute(value: Any) -> Any:
    if isinstance(value, Value):
        raise NeedsKnown("an attribute")
    if isinstance(value, (tuple, list)):
        return [_attribute(v) for v in value]
    return int(value) if isinstance(value, bool) else value
