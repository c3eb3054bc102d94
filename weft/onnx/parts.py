"""What a graph's text is made of: operands, constants, calls of nodes, and what is not offered."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.onnx.errors import Unsupported
from weft.onnx.graph import DTYPE, onnx_package
from weft.onnx.reading import array_of

if TYPE_CHECKING:
    from weft.onnx.source import Frame


_LONGEST = 40  # letters of an expression that is written where it is used
_MOST_DENSE = 2**28  # elements of a sparse tensor, which is made dense


@dataclass(eq=False, slots=True)
class Constant:
    """A tensor of the file.

    Attributes:
        proto: as it is there.
        array: its elements; those of bfloat16 as int16, which `is_bits` says.
        name: in the file.
        elem: its dtype, as TensorProto's number.
        is_weight: an initializer; others are constants of nodes.
        is_statistic: what BatchNormalization reads as mean or variance.
    """

    proto: Any
    array: np.ndarray[Any, Any]
    name: str
    elem: int
    is_weight: bool
    is_bits: bool
    is_statistic: bool = False


@dataclass(eq=False, slots=True)
class Operand:
    """What an ONNX name stands for in the text.

    Attributes:
        text: a variable, or an expression of numbers.
        form: "tensor" (also sequences and None), or of Python's: "int", "ints" (a list), "bool".
        dtype: of numbers, as TensorProto's number.
        constant: the tensor of the file that it is.
        known: the number that it is.
        reads: the variables of an expression of numbers, which is written where it is used.
        items: of a list of numbers, the expressions of its elements, where they are known.
    """

    text: str = ""
    form: str = "tensor"
    dtype: int = 7
    constant: Constant | None = None
    known: Any = None
    reads: frozenset[str] = frozenset()
    items: tuple[str, ...] | None = None


ABSENT = Operand("None")


class Problems:
    """What a model has that is not offered: all of it is told at once."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    def add(self, text: str) -> None:
        """Notes one."""
        self.found[text] = None

    def tell(self) -> None:
        """Raises Unsupported if there are any."""
        if self.found:
            raise Unsupported(list(self.found))

    def type_name(self, elem: int) -> str:
        """A dtype's name in ONNX."""
        kinds = onnx_package().TensorProto.DataType
        return str(kinds.Name(elem)) if elem in kinds.values() else str(elem)

    def of_elem(self, what: str, elem: int) -> bool:
        """Whether weft has a dtype."""
        if elem in DTYPE:
            return True
        self.add(f"{what}: the type {self.type_name(elem)}")
        return False

    def of_type(self, what: str, kind: Any) -> None:
        """Looks at the type of an input."""
        which = kind.WhichOneof("value")
        if which == "tensor_type":
            self.of_elem(what, kind.tensor_type.elem_type)
        elif which in ("sequence_type", "optional_type"):
            self.of_type(what, getattr(kind, which).elem_type)
        else:
            self.add(f"{what}: a {which or 'value without a type'}")


class Constants:
    """The tensors of a model.

    Attributes:
        used: those that its text reads, with their paths from the Module.
    """

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.used: dict[Constant, str] = {}
        self._paths: set[str] = set()
        self._holders: set[str] = set()
        self._statistics: set[str] = set()

    def add(self, t: Any, name: str, is_weight: bool) -> Constant:
        """One of the file."""
        if not self.problems.of_elem(f"tensor {name!r}", t.data_type):
            return Constant(t, np.zeros(()), name, 1, is_weight, False)
        bits = t.data_type == onnx_package().TensorProto.BFLOAT16
        return Constant(t, array_of(t), name, t.data_type, is_weight, bits)

    def add_sparse(self, t: Any, name: str, is_weight: bool) -> Constant:
        """A sparse one, made dense."""
        values = self.add(t.values, name, is_weight)
        if math.prod(t.dims) > _MOST_DENSE:
            self.problems.add(f"tensor {name!r}: sparse, with {math.prod(t.dims)} places")
            return values
        places = array_of(t.indices)
        out = np.zeros(tuple(t.dims), values.array.dtype)
        if places.ndim == 1:
            out.reshape(-1)[places] = values.array
        else:
            out[tuple(places.T)] = values.array
        proto = onnx_package().numpy_helper.from_array(out, name)
        return Constant(proto, out, name, values.elem, is_weight, values.is_bits)

    def mark_statistics(self, graph: Any) -> None:
        """Notes what BatchNormalization reads as mean and variance: no parameters."""
        for node in graph.node:
            if node.op_type == "BatchNormalization" and node.domain in ("", "ai.onnx"):
                self._statistics.update(node.input[3:5])

    def path(self, constant: Constant) -> str:
        """The expression that reads it."""
        found = self.used.get(constant)
        if found is None:
            constant.is_statistic = constant.is_weight and constant.name in self._statistics
            found = self.used[constant] = self._placed(constant)
        text = "self"
        for part in found.split("."):
            text = f"{text}.{part}" if _is_plain(part) else f"getattr({text}, {part!r})"
        return text

    def back_to(self, count: int) -> None:
        """Forgets those that were used after the first `count`."""
        for constant in list(self.used)[count:]:
            self._paths.discard(self.used.pop(constant))

    def _placed(self, constant: Constant) -> str:
        """A path for it: the name in the file, or what of it Modules can have."""
        from weft.onnx.module import OnnxModule

        path = constant.name if constant.is_weight else f"constant_{len(self.used)}"
        parts = path.split(".")
        if not all(parts) or any(hasattr(OnnxModule, p) or "\0" in p for p in parts):
            path = path.replace(".", "_") + "_"
        k, base = 1, path
        while path in self._paths or path in self._holders or self._is_inside(path):
            k += 1
            path = f"{base.replace('.', '_')}_{k}"
        self._paths.add(path)
        parts = path.split(".")
        self._holders.update(".".join(parts[:k]) for k in range(1, len(parts)))
        return path

    def _is_inside(self, path: str) -> bool:
        parts = path.split(".")
        return any(".".join(parts[:k]) in self._paths for k in range(1, len(parts)))


def _is_plain(part: str) -> bool:
    return part.isascii() and part.isidentifier() and not keyword.iskeyword(part)


class Call:
    """A node, with its inputs and attributes.

    Attributes:
        node: as it is in the file.
        frame: the function that it is written into.
        attributes: as they are in the file, those of the function around it put in.
        inputs: what they stand for.
        words: attributes as Python's values; graphs are left out.
    """

    def __init__(self, node: Any, frame: Frame, attributes: list[Any]) -> None:
        self.node, self.frame, self.attributes = node, frame, attributes
        self.inputs = [frame.value(name) for name in node.input]
        while self.inputs and self.inputs[-1] is ABSENT:
            self.inputs.pop()
        self.words = {a.name: self._word(a) for a in attributes}

    def _word(self, a: Any) -> Any:
        kinds = onnx_package().AttributeProto
        name = f"{self.node.op_type}'s {a.name}"
        if a.type == kinds.INT:
            return int(a.i)
        if a.type == kinds.FLOAT:
            return float(a.f)
        if a.type == kinds.STRING:
            return a.s.decode("utf-8", "replace")
        if a.type == kinds.INTS:
            return list(a.ints)
        if a.type == kinds.FLOATS:
            return list(a.floats)
        if a.type == kinds.STRINGS:
            return [s.decode("utf-8", "replace") for s in a.strings]
        constants = self.frame.source.constants
        if a.type == kinds.TENSOR:
            return constants.add(a.t, name, False)
        if a.type == kinds.SPARSE_TENSOR:
            return constants.add_sparse(a.sparse_tensor, name, False)
        return None

    def graph(self, name: str) -> Any:
        """A graph among the attributes."""
        return next(a.g for a in self.attributes if a.name == name)

    def input(self, k: int) -> Operand:
        """An input; those left out are absent."""
        return self.inputs[k] if k < len(self.inputs) else ABSENT

    def refuse(self, reason: str) -> None:
        """Notes that this is not offered."""
        node = self.node
        what = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        where = f" (node {node.name!r})" if node.name else f" (of {list(node.output)})"
        self.frame.source.problems.add(f"{what}{where}: {reason}")
        self.frame.taken()
        for name in node.output:
            self.frame.scope[name] = Operand("None")

    def results(self, text: str, outs: Sequence[str], forms: Sequence[Operand] = ()) -> None:
        """Adds the line that computes the node's results."""
        frame = self.frame
        names = [frame.names.fresh(o) if o else "_" for o in outs]
        frame.add(f"{', '.join(names)} = {text}", [n for n in names if n != "_"])
        for k, (out, name) in enumerate(zip(outs, names)):
            form = forms[k] if k < len(forms) else Operand()
            if out:
                frame.scope[out] = Operand(name, form.form, form.dtype)

    def number(self, text: str, form: str, dtype: int = 7, known: Any = None) -> bool:
        """Gives the node's result as a number; True.

        A short expression has no line of its own: it reads numbers alone, so where it is used it
        gives what it would have given here.
        """
        frame, out = self.frame, self.node.output[0]
        if known is not None:
            frame.taken()
            items = tuple(map(repr, known)) if form == "ints" else None
            frame.scope[out] = Operand(repr(known), form, dtype, known=known, items=items)
        elif len(text) <= _LONGEST:
            held = text if is_held(text) else f"({text})"
            frame.scope[out] = Operand(held, form, dtype, reads=frozenset(frame.taken()))
        else:
            self.results(text, [out], [Operand("", form, dtype)])
        return True

    def numbers(self, items: Sequence[str], dtype: int = 7) -> bool:
        """Gives the node's result as a list of numbers; True."""
        text, frame = f"[{', '.join(items)}]", self.frame
        if len(text) > 2 * _LONGEST:
            return self.number(text, "ints", dtype)
        made = Operand(text, "ints", dtype, reads=frozenset(frame.taken()), items=tuple(items))
        frame.scope[self.node.output[0]] = made
        return True

    def measured(self, text: str, form: str) -> bool:
        """Gives a number of a tensor, in a line of its own: the tensor may go then. True."""
        self.results(text, [self.node.output[0]], [Operand("", form, 7)])
        return True


def is_held(text: str) -> bool:
    """Whether an expression is an operand of any other as it stands."""
    return re.fullmatch(r"[\w.]+(\[-?\w+\])?|\[[^\[\]]*\]|[\w.]+\([^()]*\)", text) is not None


def attributes_of(node: Any, refs: Mapping[str, Any]) -> list[Any]:
    """A node's attributes, those that refer to the function's own put in; absent ones are left
    out."""
    out = []
    for a in node.attribute:
        if a.ref_attr_name:
            given = refs.get(a.ref_attr_name)
            if given is None:
                continue
            made = onnx_package().AttributeProto()
            made.CopyFrom(given)
            made.name = a.name
            out.append(made)
        else:
            out.append(a)
    return out
