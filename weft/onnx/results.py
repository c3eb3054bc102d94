"""What operators of ONNX give: dtypes and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft.onnx.errors import NotOnnx
from weft.onnx.graph import DTYPE, Value

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


def result_dtype(name: str, values: Sequence[Value | None], attributes: dict[str, Any]) -> Any:
    """The dtype that an operator gives."""
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


def result_sizes(name: str, values: Sequence[Value | None]) -> tuple[int | None, ...] | None:
    """The sizes that an operator gives; None: they are not known."""
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
