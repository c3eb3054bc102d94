"""Branches, loops, constants and sequences of a graph, as Python's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.onnx.graph import DTYPE
from weft.onnx.parts import ABSENT, Call, Operand
from weft.onnx.text import Statement
from weft.onnx.text import shown as _shown

_DEEPEST = 16  # CPython has at most 20 blocks in one another
_FOREVER = 2**62
CONTROL: dict[str, Callable[[Call], None]] = {}


def _control(name: str) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
    def add(function: Callable[[Call], None]) -> Callable[[Call], None]:
        CONTROL[name] = function
        return function

    return add


@_control("Constant")
def _constant(call: Call) -> None:
    out = call.node.output[0]
    (name, value), *_ = call.words.items()
    frame = call.frame
    if name in ("value", "sparse_value"):
        frame.scope[out] = Operand(constant=value)
        return
    if name not in ("value_int", "value_ints", "value_float", "value_floats"):
        return call.refuse(f"its attribute {name!r}")
    from weft.onnx.graph import onnx_package

    array = np.array(value, np.int64 if "int" in name else np.float32)
    proto = onnx_package().numpy_helper.from_array(array)
    frame.scope[out] = frame.constant(proto, out)


def _forms(frame: Any, ways: list[list[Operand]]) -> list[Operand]:
    """What the results of several ways are: a number where it is one on each of them."""
    out = []
    for values in zip(*ways):
        found = [frame.as_number(v) for v in values]
        same = len({(v.form, v.dtype) for v in found}) == 1 and found[0].form != "tensor"
        out.append(Operand("", found[0].form, found[0].dtype) if same else Operand())
    return out


def _as(frame: Any, value: Operand, form: Operand) -> str:
    """A value as an expression of a form."""
    if form.form == "tensor":
        return str(frame.tensor(value))
    return str(frame.number(frame.as_number(value)))


def _set(frame: Any, names: list[str], values: list[Operand], forms: list[Operand]) -> None:
    """Adds the assignment of values to variables that are there."""
    pairs = [(n, t) for n, t in zip(names, [_as(frame, v, f) for v, f in zip(values, forms)])
             if n != t]  # fmt: skip
    if pairs:
        left, right = ", ".join(n for n, _ in pairs), ", ".join(t for _, t in pairs)
        frame.add(f"{left} = {right}", keeps=True)
    frame.taken()


@_control("ConstantOfShape")
def _constant_of_shape(call: Call) -> None:
    given = call.words.get("value")
    value, dtype = (
        (given.array.reshape(-1), DTYPE.get(given.elem)) if given else ([0.0], weft.float32)
    )
    if given is not None and given.is_bits:
        value = np.array(given.array.reshape(-1), np.int16)
        return call.refuse("a value of bfloat16")
    shape = call.frame.number(call.input(0))
    (number,) = [v.item() if hasattr(v, "item") else v for v in value]
    call.results(f"torch.full({shape}, {_shown(number)}, dtype={dtype})", call.node.output)


@_control("If")
def _if(call: Call) -> None:
    frame, outs = call.frame, list(call.node.output)
    known = frame.as_number(call.inputs[0]).known
    if known is not None:  # one way alone is ever gone
        graph, outer = call.graph("then_branch" if known else "else_branch"), frame.scope
        frame.scope = dict(outer)
        frame.enter(graph)
        found = [frame.value(o.name) for o in graph.output]
        frame.scope = {**outer, **dict(zip(outs, found))}
        return
    ways, blocks = [], []
    for name in ("then_branch", "else_branch"):
        graph = call.graph(name)
        with frame.inner() as block:
            frame.enter(graph)
            ways.append([frame.value(o.name) for o in graph.output])
        blocks.append(block)
    forms = _forms(frame, ways)
    names = [frame.names.fresh(o, "result") for o in outs]
    for block, values in zip(blocks, ways):
        frame.block, kept = block, frame.block
        _set(frame, names, values, forms)
        frame.block = kept
    head = frame.condition(call.inputs[0])
    frame.compound([(f"if {head}:", blocks[0]), ("else:", blocks[1])], names, frame.taken())
    for out, name, form in zip(outs, names, forms):
        frame.scope[out] = Operand(name, form.form, form.dtype)


class _Turns:
    """A Loop while it is written.

    Attributes:
        forms: what the carried values are.
    """

    def __init__(self, call: Call, initial: list[Operand], forms: list[Operand]) -> None:
        self.call, self.initial, self.forms = call, initial, forms

    def write(self) -> bool:
        """Writes it; False if a carried value turned out to be a tensor: then `forms` says so."""
        call, frame = self.call, self.call.frame
        graph, n = call.graph("body"), len(self.initial)
        limit, first = call.input(0), call.input(1)
        names = [frame.names.fresh(i.name, "carried") for i in graph.input[2:]]
        turn = frame.names.fresh(graph.input[0].name, "turn")
        going = frame.names.fresh(graph.input[1].name, "going")
        start = ABSENT if first is ABSENT else frame.as_number(first)
        begins = start is ABSENT or start.known is True
        with frame.inner() as block:
            frame.scope[graph.input[0].name] = Operand(turn, "int")
            frame.scope[graph.input[1].name] = asked = Operand(going, "bool", 9)
            for i, name, form in zip(graph.input[2:], names, self.forms):
                frame.scope[i.name] = Operand(name, form.form, form.dtype)
            frame.enter(graph)
            values = [frame.value(o.name) for o in graph.output]
        found = _forms(frame, [self.initial, values[1 : n + 1]])
        if any(a.form != b.form for a, b in zip(found, self.forms)):
            self.forms = found
            return False
        last = frame.as_number(values[0])
        always = begins and (last is asked or last.known is True)
        tested = not always
        frame.block, outer = block, frame.block
        rows = []
        for value in values[n + 1 :]:
            rows.append(frame.names.fresh("rows"))
            frame.add(f"{rows[-1]}.append({frame.tensor(value)})", keeps=True)
        at_end = tested and begins and limit is not ABSENT and not self.uses(block, going)
        left, right = list(names), values[1 : n + 1]
        forms = list(self.forms)
        if tested and not at_end and last is not asked:
            left, right = [*left, going], [*right, last]
            forms.append(Operand("", "bool", 9) if last.form == "bool" else Operand())
        if at_end:
            stop = f"if not {_held(frame.condition(last))}:"
            reads = frame.taken()
        _set(frame, left, right, forms)
        if at_end:
            frame.compound([(stop, [Statement("break", keeps=True)])], (), reads)
            frame.block[-1].keeps = True
        frame.block = outer
        return self.close(block, names, rows, turn, going, tested and not at_end, start)

    def uses(self, block: list[Statement], name: str) -> bool:
        """Whether a block reads a variable."""
        return any(name in s.reads or any(self.uses(b, name) for _, b in s.parts) for s in block)

    def close(self, block: list[Statement], names: list[str], rows: list[str], turn: str,
              going: str, tested: bool, start: Operand) -> bool:  # fmt: skip
        """Puts the head around the body, and what comes after it."""
        call, frame = self.call, self.call.frame
        outs, n = list(call.node.output), len(names)
        if names:
            texts = [_as(frame, v, f) for v, f in zip(self.initial, self.forms)]
            frame.add(f"{', '.join(names)} = {', '.join(texts)}", names, keeps=True)
        for row in rows:
            frame.add(f"{row} = []", [row], keeps=True)
        used = self.uses(block, going) or tested
        if used:
            text = "True" if start is ABSENT else frame.condition(start)
            frame.add(f"{going} = {text}", [going], keeps=True)
        limit = call.input(0)
        number = frame.as_number(limit)
        endless = limit is ABSENT or isinstance(number.known, int) and number.known >= _FOREVER
        if endless:
            if not tested:
                call.refuse("a loop without an end")
                return True
            counts = self.uses(block, turn)
            if counts:
                frame.add(f"{turn} = 0", [turn], keeps=True)
                block.append(Statement(f"{turn} += 1", (), frozenset([turn]), keeps=True))
            head = f"while {going}:"
        else:
            count = frame.number(number) if number.form == "int" else f"int({frame.tensor(limit)})"
            head = f"for {turn} in range({count}):"
            if tested:
                stop = Statement("", (), frozenset([going]),
                                 [(f"if not {going}:", [Statement("break", keeps=True)])],
                                 keeps=True)  # fmt: skip
                block.insert(0, stop)
        reads = frame.taken() | set(names) | set(rows) | ({going} if used else set())
        frame.compound([(head, block)], [*names, *rows], reads)
        for out, name, form in zip(outs, names, self.forms):
            frame.scope[out] = Operand(name, form.form, form.dtype)
        infos = call.graph("body").output[n + 1 :]
        for out, row, info in zip(outs[n:], rows, infos):
            if out:
                call.results(_stacked(frame, row, info, 0, False), [out])
        return True


def _held(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def _stacked(frame: Any, row: str, info: Any, axis: int, backwards: bool) -> str:
    """The rows of a loop as one tensor; of no turns, as the model says the rows to be."""
    kind = info.type.tensor_type
    sizes = [d.dim_value if d.HasField("dim_value") else 0 for d in kind.shape.dim]
    dtype = DTYPE.get(kind.elem_type, weft.float32)
    frame.read(Operand(row))
    words = (f", axis={axis}" if axis else "") + (", backwards=True" if backwards else "")
    return f"ops.stacked({row}, {sizes}, {dtype}{words})"


def _depth(call: Call) -> bool:
    if call.frame.depth >= _DEEPEST:
        call.refuse(f"more than {_DEEPEST} loops in one another")
        return False
    return True


@_control("Loop")
def _loop(call: Call) -> None:
    frame = call.frame
    if not _depth(call):
        return
    initial = [call.input(k) for k in range(2, 2 + len(call.graph("body").input) - 2)]
    found = [frame.as_number(v) for v in initial]
    turns = _Turns(call, initial, [Operand("", v.form, v.dtype) for v in found])
    constants = frame.source.constants
    count, frame.depth = len(constants.used), frame.depth + 1
    problems = dict(frame.source.problems.found)
    while not turns.write():
        constants.back_to(count)
        frame.source.problems.found = dict(problems)
    frame.depth -= 1


@_control("Scan")
def _scan(call: Call) -> None:
    frame, words, graph = call.frame, call.words, call.graph("body")
    if not _depth(call):
        return
    m = words["num_scan_inputs"]
    n = len(graph.input) - m
    if len(call.inputs) != len(graph.input) or frame.since("", "Scan") == 8:
        return call.refuse("sequence_lens, which later versions do not have")
    k = len(graph.output) - n
    axes, ways = words.get("scan_input_axes", [0] * m), words.get("scan_input_directions", [0] * m)
    out_axes = words.get("scan_output_axes", [0] * k)
    out_ways = words.get("scan_output_directions", [0] * k)
    names = [frame.names.fresh(i.name, "carried") for i in graph.input[:n]]
    turn = frame.names.fresh("turn")
    if names:
        frame.add(f"{', '.join(names)} = {', '.join(map(frame.tensor, call.inputs[:n]))}", names,
                  keeps=True)  # fmt: skip
    rows = [frame.names.fresh("rows") for _ in range(k)]
    for row in rows:
        frame.add(f"{row} = []", [row], keeps=True)
    sources = [frame.tensor(v) for v in call.inputs[n:]]
    frame.depth += 1
    with frame.inner() as block:
        for i, name in zip(graph.input[:n], names):
            frame.scope[i.name] = Operand(name)
        for i, text, axis, way, value in zip(graph.input[n:], sources, axes, ways, call.inputs[n:]):
            name = frame.names.fresh(i.name, "row")
            at = f"-1 - {turn}" if way else turn
            frame.tensor(value)
            frame.add(f"{name} = {text}.select({axis}, {at})", [name])
            frame.scope[i.name] = Operand(name)
        frame.enter(graph)
        values = [frame.value(o.name) for o in graph.output]
        for row, value in zip(rows, values[n:]):
            frame.add(f"{row}.append({frame.tensor(value)})", keeps=True)
        _set(frame, names, values[:n], [Operand()] * n)
    frame.depth -= 1
    frame.tensor(call.inputs[n])
    reads = frame.taken() | set(names) | set(rows)
    head = f"for {turn} in range({sources[0]}.shape[{axes[0]}]):"
    frame.compound([(head, block)], [*names, *rows], reads)
    for out, name in zip(call.node.output, names):
        frame.scope[out] = Operand(name)
    for out, row, info, axis, way in zip(
        call.node.output[n:], rows, graph.output[n:], out_axes, out_ways
    ):
        if out:
            call.results(_stacked(frame, row, info, axis, bool(way)), [out])


@_control("SequenceConstruct")
def _sequence(call: Call) -> None:
    call.results(f"[{', '.join(map(call.frame.tensor, call.inputs))}]", call.node.output)


@_control("SequenceEmpty")
def _empty(call: Call) -> None:
    call.results("[]", call.node.output)


@_control("Optional")
def _optional(call: Call) -> None:
    value = call.input(0)
    call.results(call.frame.tensor(value), call.node.output)


@_control("OptionalGetElement")
def _element(call: Call) -> None:
    call.frame.scope[call.node.output[0]] = call.input(0)


@_control("OptionalHasElement")
def _has_element(call: Call) -> None:
    if call.input(0) is ABSENT:
        call.number("", "bool", 9, False)
    else:
        call.number(f"{call.frame.tensor(call.input(0))} is not None", "bool", 9)
