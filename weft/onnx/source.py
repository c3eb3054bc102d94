"""An ONNX graph as the text of a Python function over weft's ops.

Each node becomes a line, `If` an `if`, `Loop` and `Scan` a `for` or a `while`, and a model-local
function a function. What decides about sizes is written as Python's own numbers (`numbers.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import weft
from weft.onnx import control_text, numbers
from weft.onnx.graph import DTYPE, onnx_package
from weft.onnx.operators.table import NEWEST, OPERATORS, Operator
from weft.onnx.parts import (
    ABSENT,
    Call,
    Constant,
    Constants,
    Operand,
    Problems,
    attributes_of,
    is_held,
)
from weft.onnx.text import Names, Statement, lines, shown

_MOST = 64  # elements of a constant that is written out
_MOST_NODES = 500_000
_DTYPES = ("output_datatype", "to", "dtype", "output_dtype", "stash_type", "softmax_precision")


class Source:
    """The text of a model.

    Attributes:
        model: the model.
        constants: what it has of tensors.
        functions: the text of each function, in order; `forward` is the last.
        problems: what it has that is not offered.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.problems = Problems()
        self.constants = Constants(self.problems)
        self.functions: list[str] = []
        self.names = Names()
        self.made: dict[Any, tuple[str, list[Operand]]] = {}
        self.local = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.stack: list[Any] = []
        self.nodes = 0
        self._types: dict[str, Any] | None = None

    def write(self) -> tuple[list[str], list[str]]:
        """Writes `forward`; the names of the inputs as parameters, and of the outputs."""
        graph = self.model.graph
        opsets = {_domain(o.domain): o.version for o in self.model.opset_import}
        frame = Frame(self, opsets, {})
        given = {t.name for t in graph.initializer}
        given |= {t.values.name for t in graph.sparse_initializer}
        inputs = [i for i in graph.input if i.name not in given]
        params = []
        for i in inputs:
            self.problems.of_type(f"input {i.name!r}", i.type)
            name = frame.names.fresh(i.name, "input")
            params.append(f"{name}=None" if i.type.HasField("optional_type") else name)
            frame.scope[i.name] = Operand(name)
        frame.enter(graph)
        texts = [frame.tensor(frame.value(o.name)) for o in graph.output]
        self.function("forward", params, frame, texts)
        return [i.name for i in inputs], [o.name for o in graph.output]

    def function(self, name: str, params: list[str], frame: Frame, results: list[str]) -> None:
        """Writes a function."""
        frame.add(f"return {', '.join(results)}", keeps=True)
        body = "\n".join(lines(frame.block, ()))
        self.functions.append(f"def {name}({', '.join(['self', *params])}):\n{body}\n")

    def types(self) -> Mapping[str, Any]:
        """The types of values, by name, as shape inference finds them."""
        if self._types is None:
            onnx = onnx_package()
            with contextlib.suppress(Exception):  # it is a help: a node without types is refused
                inferred = onnx.shape_inference.infer_shapes(self.model, data_prop=True)
                graph = inferred.graph
                infos = [*graph.input, *graph.value_info, *graph.output]
                self._types = {i.name: i.type for i in infos}
                for t in graph.initializer:
                    self._types[t.name] = onnx.helper.make_tensor_type_proto(t.data_type, t.dims)
            self._types = self._types or {}
        return self._types


class Frame:
    """A function while it is written.

    Attributes:
        source: the model's text.
        opsets: the version of each domain.
        refs: the attributes that the function was called with.
        names: of its variables.
        scope: the values of the graph by ONNX's names.
        block: the statements so far.
        depth: how many loops are around.
    """

    def __init__(self, source: Source, opsets: Mapping[str, int], refs: Mapping[str, Any]) -> None:
        self.source, self.opsets, self.refs = source, opsets, refs
        self.names = Names()
        self.scope: dict[str, Operand] = {}
        self.block: list[Statement] = []
        self.depth = 0
        self._reads: set[str] = set()

    # ---- values

    def value(self, name: str) -> Operand:
        """What an ONNX name stands for; empty ones stand for nothing."""
        return self.scope[name] if name else ABSENT

    def read(self, value: Operand) -> str:
        """A variable, in the statement that is added next."""
        if value.text.isidentifier():
            self._reads.add(value.text)
        self._reads |= value.reads
        return value.text

    def tensor(self, value: Operand) -> str:
        """A value as an expression for a tensor, a sequence or None."""
        if value.constant is not None:
            return self.source.constants.path(value.constant)
        if value.form == "tensor":
            return self.read(value)
        dtype = DTYPE[value.dtype]
        said = f", dtype={dtype}" if dtype == weft.int32 or value.form == "ints" else ""
        return f"torch.tensor({self.read(value)}{said})"

    def number(self, value: Operand) -> str:
        """A value as an expression for a number, or for a list of them."""
        if value.constant is not None:
            return _literal(value.constant) or f"{self.tensor(value)}.tolist()"
        if value.form == "tensor" and value.text != "None":
            return f"{self.read(value)}.tolist()"
        return self.read(value)

    def condition(self, value: Operand) -> str:
        """A value as an expression that Python branches on."""
        if value.constant is not None:
            return repr(bool(np.all(value.constant.array)))
        return self.read(value)

    def as_number(self, value: Operand) -> Operand:
        """A small constant of integers or a boolean as a number; others as they are."""
        constant = value.constant
        if constant is None:
            return value
        array = constant.array
        if array.dtype.kind == "i" and array.ndim < 2 and array.size <= _MOST:
            known = array.tolist()
            items = tuple(map(repr, known)) if array.ndim else None
            form = "ints" if array.ndim else "int"
            return Operand(_literal(constant), form, constant.elem, known=known, items=items)
        if array.dtype.kind == "b" and array.ndim == 0:
            return Operand(repr(bool(array)), "bool", constant.elem, known=bool(array))
        return value

    # ---- statements

    def add(self, text: str, sets: Sequence[str] = (), keeps: bool = False) -> None:
        """Adds a line that reads what was asked for since the last one."""
        self.block.append(Statement(text, tuple(sets), frozenset(self._reads), keeps=keeps))
        self._reads = set()

    def compound(self, parts: list[tuple[str, list[Statement]]], sets: Sequence[str],
                 reads: set[str]) -> None:  # fmt: skip
        """Adds a statement with bodies."""
        self.block.append(Statement("", tuple(sets), frozenset(reads), parts))

    def taken(self) -> set[str]:
        """The variables that were asked for since the last statement."""
        reads, self._reads = self._reads, set()
        return reads

    @contextlib.contextmanager
    def inner(self) -> Iterator[list[Statement]]:
        """A block of its own, with names of its own for what it computes."""
        outer, scope, block = self.block, self.scope, list[Statement]()
        self.block, self.scope = block, dict(scope)
        try:
            yield block
        finally:
            self.block, self.scope = outer, scope

    def enter(self, graph: Any) -> None:
        """Writes the nodes of a graph whose inputs are in the scope."""
        for t in graph.initializer:
            self.scope[t.name] = self.constant(t, t.name, is_weight=True)
        for sparse in graph.sparse_initializer:
            self.scope[sparse.values.name] = self.sparse(sparse, sparse.values.name, True)
        self.source.constants.mark_statistics(graph)
        self.run(graph.node)

    def run(self, nodes: Any) -> None:
        """Writes nodes."""
        for node in nodes:
            self.source.nodes += 1
            if self.source.nodes > _MOST_NODES:
                raise ValueError(
                    f"[onnx.load] expected a model of at most {_MOST_NODES} nodes written out, "
                    "got more"
                )
            self.node(node)

    # ---- nodes

    def node(self, node: Any) -> None:
        """Writes a node."""
        domain = _domain(node.domain)
        call = Call(node, self, attributes_of(node, self.refs))
        local = self.source.local.get((node.domain, node.op_type, node.overload))
        if local is not None:
            return self.call(call, local, domain, {a.name: a for a in local.attribute_proto})
        if domain == "":
            if (control := control_text.CONTROL.get(node.op_type)) is not None:
                return control(call)
            if (number := numbers.NUMBERS.get(node.op_type)) is not None and number(call):
                return None
        since = self.since(domain, node.op_type)
        entry = OPERATORS.get(node.op_type) if domain == "" else None
        if since is None:
            return call.refuse(f"no operator of ONNX in {node.domain or 'ai.onnx'}")
        reason = self.unfit(call, entry, since)
        if not reason:
            assert entry is not None
            return self.operator(call, entry, since)
        if (body := self.body(call, domain)) is not None:
            return self.call(call, *body)
        return call.refuse(reason)

    def unfit(self, call: Call, entry: Operator | None, since: int) -> str:
        """Why an operator of the table does not do what a node says; empty if it does."""
        if entry is None:
            return "no operator for it"
        if since > NEWEST:
            return f"its version {since}, which is newer than {NEWEST}"
        if unknown := sorted(set(call.words) - entry.attributes - {"consumed_inputs"}):
            return f"its attribute {unknown[0]!r}"
        return (entry.refuses(call.words) if entry.refuses is not None else None) or ""

    def since(self, domain: str, name: str) -> int | None:
        """The version of an operator that the model's opset means; None if it is not known."""
        onnx = onnx_package()
        try:
            schema = onnx.defs.get_schema(name, self.opsets.get(domain, 1), domain)
        except onnx.defs.SchemaError:
            return None
        return int(schema.since_version)

    def operator(self, call: Call, entry: Operator, since: int) -> None:
        """Writes a node as a call of an operator of the table."""
        words = {k: v for k, v in call.words.items() if k in entry.attributes}
        values = call.inputs
        plain = [v for v in values if v.constant is None]
        args = []
        for k, value in enumerate(values):
            name = entry.inputs[k] if k < len(entry.inputs) else ""
            if value is ABSENT:
                args.append("None")
            elif name in entry.numbers:
                args.append(self.number(value))
            elif entry.scalars and plain and (text := self.scalar(value)):
                args.append(text)
            else:
                args.append(self.tensor(value))
        outs = list(call.node.output)
        while outs and not outs[-1]:
            outs.pop()
        said = [f"{k}={self.word(call, k, v)}" for k, v in words.items()]
        if entry.versioned:
            said.append(f"version={since}")
        if entry.counts:
            said.append(f"outputs={len(outs)}")
        if "{" in entry.call:
            text = entry.call.format(*map(_held, args))
        else:
            text = f"{entry.call}({', '.join([*args, *said])})"
        call.results(text, outs)

    def scalar(self, value: Operand) -> str:
        """A number beside a tensor: a node's constant without dimensions; else empty."""
        constant = value.constant
        if constant is not None and not constant.is_weight and constant.array.ndim == 0:
            return _literal(constant)
        return self.read(value) if value.form == "int" else ""

    def word(self, call: Call, name: str, value: Any) -> str:
        """An attribute as an expression."""
        if name in _DTYPES and type(value) is int:
            dtype = DTYPE.get(value)
            if dtype is None and not (name == "output_dtype" and value == 0):
                call.refuse(f"{name} {self.source.problems.type_name(value)}")
            return str(dtype)
        if isinstance(value, Constant):
            return self.tensor(Operand(constant=value))
        return shown(value)

    def constant(self, t: Any, name: str, is_weight: bool = False) -> Operand:
        """A tensor of the file."""
        return Operand(constant=self.source.constants.add(t, name, is_weight))

    def sparse(self, t: Any, name: str, is_weight: bool = False) -> Operand:
        """A sparse tensor of the file, made dense."""
        return Operand(constant=self.source.constants.add_sparse(t, name, is_weight))

    # ---- functions

    def body(self, call: Call, domain: str) -> tuple[Any, str, dict[str, Any]] | None:
        """The function by which the standard defines an operator; None if there is none."""
        onnx = onnx_package()
        version = self.opsets.get(domain, 1)
        schema = onnx.defs.get_schema(call.node.op_type, version, domain)
        defaults = {k: a.default_value for k, a in schema.attributes.items()
                    if a.default_value.type}  # fmt: skip
        made = onnx.FunctionProto()
        if schema.has_function:
            made.CopyFrom(schema.function_body)
        elif schema.has_context_dependent_function:
            types = [self.type_of(n) for n in call.node.input]
            if any(t is None for t in types):
                return None
            plain = onnx.NodeProto()
            plain.CopyFrom(call.node)
            raw = schema.get_context_dependent_function(
                plain.SerializeToString(), [t.SerializeToString() for t in types]
            )
            made.ParseFromString(raw)
        if not made.node:
            return None
        return made, domain, defaults

    def type_of(self, name: str) -> Any:
        """The type of a value, where shape inference finds it."""
        if not name:
            return onnx_package().TypeProto()
        return self.source.types().get(name)

    def call(self, call: Call, body: Any, domain: str, defaults: Mapping[str, Any]) -> None:
        """Writes a node as a call of a function, which is written once for each use of a kind."""
        refs = {**defaults, **{a.name: a for a in call.attributes}}
        given: list[Operand] = []
        key: list[Any] = [call.node.op_type, domain, call.node.overload, body.SerializeToString(),
                          sorted((k, a.SerializeToString()) for k, a in refs.items())]  # fmt: skip
        for value in [*call.inputs, *[ABSENT] * (len(body.input) - len(call.inputs))]:
            number = self.as_number(value)
            given.append(value)
            kept = value is ABSENT or number.known is not None
            key.append((number.form, number.dtype, repr(number.known) if kept else None, kept))
        found = self.source.made.get(repr(key))
        if found is None:
            found = self.source.made[repr(key)] = self.written(call, body, given, refs)
        name, results = found
        args = []
        for value in given:
            if value is ABSENT or self.as_number(value).known is not None:
                continue
            is_number = value.form != "tensor" and value.constant is None
            args.append(self.number(value) if is_number else self.tensor(value))
        outs = [*call.node.output, *[""] * (len(results) - len(call.node.output))]
        call.results(f"{name}({', '.join(['self', *args])})", outs, results)

    def written(self, call: Call, body: Any, given: list[Operand],
                refs: Mapping[str, Any]) -> tuple[str, list[Operand]]:  # fmt: skip
        """Writes a function; its name, and what its results are."""
        label = (call.node.domain, call.node.op_type, call.node.overload)
        if label in self.source.stack:
            raise ValueError(
                f"[onnx.load] expected functions that do not call themselves, got {label[1]!r}"
            )
        opsets = {**self.opsets, **{_domain(o.domain): o.version for o in body.opset_import}}
        frame = Frame(self.source, opsets, refs)
        params = []
        for name, value in zip(body.input, given):
            number = self.as_number(value)
            if value is ABSENT or number.known is not None:
                frame.scope[name] = value
                continue
            params.append(frame.names.fresh(name))
            frame.scope[name] = Operand(params[-1], number.form, number.dtype)
        self.source.stack.append(label)
        frame.run(body.node)
        self.source.stack.pop()
        results = [frame.as_number(frame.scope.get(o, ABSENT)) for o in body.output]
        texts = [
            frame.tensor(v) if v.form == "tensor" else frame.number(v) for v in results
        ]  # fmt: skip
        name = self.source.names.fresh(call.node.op_type.lower(), "function")
        self.source.function(name, params, frame, texts)
        return name, [Operand("", v.form, v.dtype) for v in results]


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _literal(constant: Constant) -> str:
    """A small constant as Python's numbers; empty where it is none."""
    array = constant.array
    if array.ndim > 1 or array.size > _MOST or array.dtype.kind not in "ifb" or constant.is_bits:
        return ""
    return shown(array.tolist())


def _held(text: str) -> str:
    """An operand of a formula."""
    return text if is_held(text) else f"({text})"
