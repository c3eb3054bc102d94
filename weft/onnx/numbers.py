"""Numbers of a graph: sizes and what is computed of them, as Python's own.

ONNX computes a Reshape's target by nodes on small tensors of integers: Shape, Gather, Mul, Concat.
As numbers of Python they cost nothing, wait for no batch, and are known where the program is
compiled or written out again. Each form writes its node so where its operands are numbers, and
says False where they are not: then the node is one on tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weft.onnx.parts import ABSENT, Call, Operand

_INTEGERS = (6, 7)  # int32, int64
Form = Callable[[Call], bool]
NUMBERS: dict[str, Form] = {}


def _form(*names: str) -> Callable[[Form], Form]:
    def add(function: Form) -> Form:
        for name in names:
            NUMBERS[name] = function
        return function

    return add


def _operands(call: Call) -> list[Operand] | None:
    """The inputs as numbers; None if one of them is a tensor, or all are the file's own."""
    found = [v if v is ABSENT else call.frame.as_number(v) for v in call.inputs]
    is_number = all(v is ABSENT or v.form != "tensor" for v in found)
    return found if is_number and found else None


def _text(call: Call, value: Operand) -> str:
    return call.frame.read(value)


@_form("Shape")
def _shape(call: Call) -> bool:
    x = call.inputs[0]
    start, end = call.words.get("start", 0), call.words.get("end")
    if x.constant is not None:
        sizes = list(x.constant.array.shape)[start:end]
        return call.number("", "ints", known=sizes)
    if x.form != "tensor":
        sizes = [f"len({_text(call, x)})"] if x.form == "ints" else []
        return call.number(f"[{', '.join(sizes[start:end])}]", "ints")
    out, frame = call.node.output[0], call.frame
    if end == start + 1 and start >= 0:
        call.measured(f"{_text(call, x)}.shape[{start}]", "int")
        size = frame.read(frame.scope[out])
        return call.numbers([size])
    part = f"[{start or ''}:{'' if end is None else end}]" if start or end is not None else ""
    return call.measured(f"list({_text(call, x)}.shape{part})", "ints")


@_form("Size")
def _size(call: Call) -> bool:
    x = call.inputs[0]
    if x.constant is not None:
        return call.number("", "int", known=int(x.constant.array.size))
    if x.form == "tensor":
        return call.measured(f"{_text(call, x)}.numel()", "int")
    return call.number(f"len({_text(call, x)})" if x.form == "ints" else "1", "int")


@_form("Identity")
def _identity(call: Call) -> bool:
    call.frame.scope[call.node.output[0]] = call.inputs[0]
    return True


@_form("Gather")
def _gather(call: Call) -> bool:
    found = _operands(call)
    if found is None or found[0].form != "ints" or call.words.get("axis", 0) not in (0, -1):
        return False
    row, at = found
    if at.form == "int":
        if row.known is not None and at.known is not None:
            if not -len(row.known) <= at.known < len(row.known):
                return False
            return call.number("", "int", row.dtype, row.known[at.known])
        if row.items is not None and at.known is not None:
            return _element(call, row, at.known)
        return call.number(f"{_text(call, row)}[{_text(call, at)}]", "int", row.dtype)
    if at.form != "ints" or at.known is None:
        return False
    if row.known is not None:
        if not all(-len(row.known) <= k < len(row.known) for k in at.known):
            return False
        return call.number("", "ints", row.dtype, [row.known[k] for k in at.known])
    name = _text(call, row)
    if row.items is not None:
        if not all(-len(row.items) <= k < len(row.items) for k in at.known):
            return False
        return call.numbers([row.items[k] for k in at.known], row.dtype)
    return call.numbers([f"{name}[{k}]" for k in at.known], row.dtype)


def _element(call: Call, row: Operand, k: int) -> bool:
    """One number of a list whose elements are known by their text."""
    assert row.items is not None
    if not -len(row.items) <= k < len(row.items):
        return False
    _text(call, row)
    return call.number(row.items[k], "int", row.dtype)


@_form("Slice")
def _slice(call: Call) -> bool:
    found = _operands(call)
    if found is None or found[0].form != "ints":
        return False
    row, *rest = found
    words = call.words
    named = [*rest, *[ABSENT] * (4 - len(rest))]
    ends = []
    for name, value in zip(("starts", "ends", "axes", "steps"), named):
        known = value.known if value is not ABSENT else words.get(name)
        known = [known] if isinstance(known, int) else known
        if value is not ABSENT and known is None or known is not None and len(known) != 1:
            return False
        ends.append(known[0] if known is not None else None)
    start, end, axis, step = ends
    if start is None or end is None or axis not in (None, 0, -1):
        return False
    end = None if abs(end) > 2**31 - 2 else end
    where = slice(start, end, step)
    if row.known is not None:
        return call.number("", "ints", row.dtype, row.known[where])
    if row.items is not None:
        _text(call, row)
        return call.numbers(row.items[where], row.dtype)
    shown = ":".join("" if k is None else str(k) for k in (start, end, step))
    return call.number(f"{_text(call, row)}[{shown.rstrip(':') if step is None else shown}]"
                       if end is not None or step is not None
                       else f"{_text(call, row)}[{start}:]", "ints", row.dtype)  # fmt: skip


@_form("Unsqueeze", "Squeeze")
def _dims(call: Call) -> bool:
    found = _operands(call)
    if found is None:
        return False
    value = found[0]
    axes = found[1].known if len(found) > 1 else call.words.get("axes")
    axes = [axes] if isinstance(axes, int) else axes
    if call.node.op_type == "Unsqueeze":
        if value.form != "int" or axes not in ([0], [-1]):
            return False
        if value.known is not None:
            return call.number("", "ints", value.dtype, [value.known])
        return call.numbers([_text(call, value)], value.dtype)
    if value.form != "ints" or axes not in ([0], [-1], None):
        return False
    if value.known is not None:
        return len(value.known) == 1 and call.number("", "int", value.dtype, value.known[0])
    if value.items is not None:
        return len(value.items) == 1 and _element(call, value, 0)
    return axes is not None and call.number(f"{_text(call, value)}[0]", "int", value.dtype)


@_form("Reshape")
def _reshape(call: Call) -> bool:
    found = _operands(call)
    if found is None or len(found) < 2:
        return False
    value, shape = found[0], found[1].known
    if value.form == "int" and shape in ([1], [-1]):
        if value.known is not None:
            return call.number("", "ints", value.dtype, [value.known])
        return call.numbers([_text(call, value)], value.dtype)
    if value.form == "ints" and shape == [-1]:
        call.frame.scope[call.node.output[0]] = value
        return True
    if value.form == "ints" and shape == [] and value.known is None:
        if value.items is not None:
            return len(value.items) == 1 and _element(call, value, 0)
        return call.number(f"{_text(call, value)}[0]", "int", value.dtype)
    return False


@_form("Concat")
def _concat(call: Call) -> bool:
    found = _operands(call)
    if found is None or any(v.form != "ints" for v in found):
        return False
    if len({v.dtype for v in found}) > 1 or call.words.get("axis", 0) not in (0, -1):
        return False
    if all(v.known is not None for v in found):
        return call.number("", "ints", found[0].dtype, [k for v in found for k in v.known])
    parts: list[str] = []
    for v in found:
        text = _text(call, v)
        parts += [f"*{text}"] if v.items is None else v.items
    if any(part.startswith("*") for part in parts):
        return call.number(f"[{', '.join(parts)}]", "ints", found[0].dtype)
    return call.numbers(parts, found[0].dtype)


_BINARY: dict[str, tuple[str, Callable[[int, int], Any]]] = {
    "Add": ("{} + {}", lambda a, b: a + b),
    "Sub": ("{} - {}", lambda a, b: a - b),
    "Mul": ("{} * {}", lambda a, b: a * b),
    "Div": ("ops.quotient({}, {})", lambda a, b: abs(a) // abs(b) * (1 if a * b >= 0 else -1)),
    "Mod": ("{} % {}", lambda a, b: a % b),
    "Max": ("max({}, {})", max),
    "Min": ("min({}, {})", min),
}
_COMPARE: dict[str, tuple[str, Callable[[int, int], bool]]] = {
    "Equal": ("{} == {}", lambda a, b: a == b),
    "Less": ("{} < {}", lambda a, b: a < b),
    "LessOrEqual": ("{} <= {}", lambda a, b: a <= b),
    "Greater": ("{} > {}", lambda a, b: a > b),
    "GreaterOrEqual": ("{} >= {}", lambda a, b: a >= b),
}


@_form(*_BINARY)
def _binary(call: Call) -> bool:
    found = _operands(call)
    if found is None or len(found) != 2 or call.words.get("fmod", 0):
        return False
    a, b = found
    forms = {a.form, b.form}
    if not forms <= {"int", "ints"} or a.dtype != b.dtype or a.dtype not in _INTEGERS:
        return False
    text, rule = _BINARY[call.node.op_type]
    if a.known is not None and b.known is not None:
        try:
            return call.number("", _wider(forms), a.dtype, _each(rule, a.known, b.known))
        except (ZeroDivisionError, ValueError):
            return False
    if forms == {"int"}:
        return call.number(text.format(_text(call, a), _text(call, b)), "int", a.dtype)
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        _text(call, a), _text(call, b)
        return call.numbers([f"({text.format(*k)})" for k in zip(a.items, b.items)], a.dtype)
    if a.form == "int" or b.form == "int":
        row, other = (a, b) if a.form == "ints" else (b, a)
        value = _text(call, other)
        pair = ("k", value) if a.form == "ints" else (value, "k")
        listed = f"[{text.format(*pair)} for k in {_text(call, row)}]"
    else:
        rows = f"{_text(call, a)}, {_text(call, b)}"
        listed = f"[{text.format('j', 'k')} for j, k in ops.pairs({rows})]"
    return call.number(listed, "ints", a.dtype)


@_form(*_COMPARE)
def _compare(call: Call) -> bool:
    found = _operands(call)
    if found is None or any(v.form != "int" for v in found):
        return False
    a, b = found
    text, rule = _COMPARE[call.node.op_type]
    if a.known is not None and b.known is not None:
        return call.number("", "bool", 9, rule(a.known, b.known))
    return call.number(text.format(_text(call, a), _text(call, b)), "bool", 9)


@_form("And", "Or", "Not")
def _logic(call: Call) -> bool:
    found = _operands(call)
    if found is None or any(v.form != "bool" for v in found):
        return False
    texts = [_text(call, v) for v in found]
    if call.node.op_type == "Not":
        return call.number(f"not {texts[0]}", "bool", 9)
    return call.number(f" {call.node.op_type.lower()} ".join(texts), "bool", 9)


@_form("Neg")
def _neg(call: Call) -> bool:
    found = _operands(call)
    if found is None or found[0].form != "int":
        return False
    known = -found[0].known if found[0].known is not None else None
    return call.number(f"-{_text(call, found[0])}", "int", found[0].dtype, known)


@_form("Cast")
def _cast(call: Call) -> bool:
    found = _operands(call)
    to = call.words.get("to")
    if found is None or to not in (*_INTEGERS, 9):
        return False
    value = found[0]
    if to == 9:
        if value.form != "int":
            return value.form == "bool" and _identity(call)
        truth = bool(value.known) if value.known is not None else None
        return call.number(f"{_text(call, value)} != 0", "bool", 9, truth)
    if value.form == "bool":
        known = int(value.known) if value.known is not None else None
        return call.number(f"int({_text(call, value)})", "int", to, known)
    limit = 2**31 if to == 6 else 2**63
    if value.known is not None:
        row = value.known if isinstance(value.known, list) else [value.known]
        if not all(-limit <= k < limit for k in row):
            return False
    call.frame.scope[call.node.output[0]] = replace(value, dtype=to)
    return True


@_form("ReduceProd")
def _prod(call: Call) -> bool:
    found = _operands(call)
    if found is None or found[0].form != "ints":
        return False
    axes = found[1].known if len(found) > 1 else call.words.get("axes")
    if axes not in ([0], [-1], None) or call.words.get("noop_with_empty_axes"):
        return False
    value = found[0]
    known = math.prod(value.known) if value.known is not None else None
    text = f"math.prod({_text(call, value)})"
    if call.words.get("keepdims", 1):
        return call.number(f"[{text}]", "ints", value.dtype, None if known is None else [known])
    return call.number(text, "int", value.dtype, known)


@_form("Where")
def _where(call: Call) -> bool:
    found = _operands(call)
    if found is None or [v.form for v in found] != ["bool", "int", "int"]:
        return False
    c, a, b = found
    if a.dtype != b.dtype:
        return False
    return call.number(
        f"{_text(call, a)} if {_text(call, c)} else {_text(call, b)}", "int", a.dtype
    )


def _wider(forms: set[str]) -> str:
    return "ints" if "ints" in forms else "int"


def _each(rule: Callable[[int, int], Any], a: Any, b: Any) -> Any:
    """A rule over numbers and lists of them, as tensors broadcast."""
    if not isinstance(a, list) and not isinstance(b, list):
        return rule(a, b)
    a, b = ([v] if not isinstance(v, list) else v for v in (a, b))
    n = max(len(a), len(b)) if min(len(a), len(b)) else 0
    if len(a) not in (1, n) or len(b) not in (1, n):
        raise ValueError("unlike lengths")
    return [rule(x, y) for x, y in zip(a * n if len(a) == 1 else a, b * n if len(b) == 1 else b)]
