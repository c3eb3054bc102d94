"""Operators as the opset that is asked for has them.

Forms write what opset 21 has. `instead` and `arguments` say the same for opsets that lack an
operator, or have it with other attributes; `narrow` looks at what is written by the operator's own
schema, so that no model has an operator, an attribute or a dtype that its opset has not. `FIRST` is
the first opset whose If, Loop and Identity take every dtype that weft has.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import weft
from weft.onnx.errors import NotOnnx
from weft.onnx.graph import ELEM, Value, onnx_package

if TYPE_CHECKING:
    from weft.onnx.builder import Builder

FIRST, LAST = 16, 23
OPSETS = range(FIRST, LAST + 1)
Values = Sequence[Value | None]
Arguments = tuple[Values, dict[str, Any]]
Instead = Callable[["Builder", Values, dict[str, Any]], Value | None]
Changed = Callable[[Values, dict[str, Any]], Arguments]

_NARROW = (weft.float16, weft.bfloat16)
# Values of attributes that are newer than the attribute.
_NEWER = {
    ("ScatterND", "reduction", "max"): 18, ("ScatterND", "reduction", "min"): 18,
    ("ScatterElements", "reduction", "max"): 18, ("ScatterElements", "reduction", "min"): 18,
    ("Pad", "mode", "wrap"): 19,
}  # fmt: skip


def instead(g: Builder, name: str, values: Values, attributes: dict[str, Any]) -> Value | None:
    """What stands for an operator in an opset before it; None: the operator itself."""
    until, write = _INSTEAD.get(name, (0, None))
    return write(g, values, attributes) if write is not None and g.opset < until else None


def arguments(name: str, opset: int, values: Values, attributes: dict[str, Any]) -> Arguments:
    """Operands and attributes as the operator takes them in an opset."""
    until, change = _CHANGED.get(name, (0, None))
    return change(values, attributes) if change and opset < until else (values, attributes)


def narrow(opset: int, name: str, values: Values, attributes: dict[str, Any]) -> Any:
    """The narrow floating dtype for which float32 has to stand, as the operator does not take it;
    None: there is none.

    Raises:
        NotOnnx: the opset has not the operator, an attribute of it, or a dtype.
    """
    schema = _schema(name, opset)
    if schema is None:
        raise _since(name, opset, _first(name))
    for word, value in attributes.items():
        word = "dtype" if word == "elem" else word
        newer = _NEWER.get((name, word, value), 0) if isinstance(value, str) else 0
        if value is not None and word not in schema.attributes or newer > opset:
            what = f"{name} with {word}={value!r}" if newer else f"{name} with {word}"
            raise _since(what, opset, newer or _first(name, word))
    for k, v in enumerate(values):
        if v is None or _text(v.dtype) in _types(schema, k):
            continue
        if v.dtype in _NARROW and _text(weft.float32) in _types(schema, k):
            return v.dtype
        raise NotOnnx(f"{name} of {v.dtype}, which opset {opset} does not have")
    return None


def ir_version(opset: int) -> int:
    """The version of the format that came with an opset: runtimes refuse a newer one than they
    know."""
    helper = onnx_package().helper
    return int(helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))


def _since(what: str, opset: int, first: int) -> NotOnnx:
    if not first:
        return NotOnnx(f"{what}, which ONNX does not have")
    return NotOnnx(f"{what}, which opset {opset} does not have", f"opset_version={first} has it")


@functools.cache
def _schema(name: str, opset: int) -> Any:
    defs = onnx_package().defs
    try:
        return defs.get_schema(name, opset)
    except defs.SchemaError:
        return None


def _first(name: str, attribute: str = "") -> int:
    """The first opset with an operator, or with an attribute of it; 0: none that is written."""
    for opset in OPSETS:
        schema = _schema(name, opset)
        if schema is not None and (not attribute or attribute in schema.attributes):
            return opset
    return 0


def _types(schema: Any, k: int) -> frozenset[str]:
    """What an operand may be; the last formal one stands for all that follow."""
    return frozenset(schema.inputs[min(k, len(schema.inputs) - 1)].types)


@functools.cache
def _text(dtype: Any) -> str:
    """A tensor's type as schemas write it: "tensor(float)"."""
    name = onnx_package().TensorProto.DataType.Name(ELEM[dtype])
    return f"tensor({name.lower()})"


# ---- older forms


def _gelu(g: Builder, values: Values, attributes: dict[str, Any]) -> Value:
    """Gelu before opset 20, as its definition has it."""
    (x,) = values
    assert x is not None
    if attributes.get("approximate") == "tanh":
        inside = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (g.op("Tanh", inside) + 1)
    return x * 0.5 * (g.op("Erf", x * math.sqrt(0.5)) + 1)


def _layer_norm(g: Builder, values: Values, attributes: dict[str, Any]) -> Value:
    """LayerNormalization before opset 17, as its definition has it."""
    x, scale, *bias = values
    assert x is not None
    axes = list(range(attributes["axis"] % x.rank, x.rank))
    apart = x - g.reduce("ReduceMean", x, axes, True)
    spread = g.reduce("ReduceMean", apart * apart, axes, True) + attributes["epsilon"]
    out = apart / g.op("Sqrt", spread) * scale
    return out + bias[0] if bias and bias[0] is not None else out


def _where_of_bools(g: Builder, values: Values, attributes: dict[str, Any]) -> Value | None:
    """Where of bools, which ONNX Runtime does not have."""
    condition, one, other = values
    if condition is None or one is None or other is None or one.dtype != weft.bool:
        return None
    rest = g.op("And", g.op("Not", condition), other)
    return g.op("Or", g.op("And", condition, one), rest)


def _axes_as_attribute(values: Values, attributes: dict[str, Any]) -> Arguments:
    """ReduceMax and its like before opset 18."""
    x, *axes = values
    if not axes or axes[0] is None:
        return values, attributes
    if axes[0].known is None:
        raise NotOnnx("a reduction over dimensions that only a run knows")
    return [x], {**attributes, "axes": axes[0].known.reshape(-1).tolist()}


def _even_split(values: Values, attributes: dict[str, Any]) -> Arguments:
    """Split before opset 18, into as many equal parts as it has outputs."""
    return values, {k: v for k, v in attributes.items() if k != "num_outputs"}


def _grid_of_images(values: Values, attributes: dict[str, Any]) -> Arguments:
    """GridSample of images alone, with other names of its modes."""
    if values[0] is not None and values[0].rank != 4:
        raise NotOnnx("GridSample of volumes, which opsets before 20 do not have")
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(attributes["mode"], attributes["mode"])
    return values, attributes | {"mode": mode}


# Until which opset.
_INSTEAD: dict[str, tuple[int, Instead]] = {
    "LayerNormalization": (17, _layer_norm),
    "Gelu": (20, _gelu),
    "Where": (LAST + 1, _where_of_bools),
}
_CHANGED: dict[str, tuple[int, Changed]] = {
    "Split": (18, _even_split),
    "GridSample": (20, _grid_of_images),
    **dict.fromkeys(
        ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd"), (18, _axes_as_attribute)
    ),
}
