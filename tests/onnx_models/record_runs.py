"""What the tests of records in ONNX share: which samples are run, and their tensors as inputs."""

from typing import Any

import weft
from weft.onnx.graph import Model, Value
from weft.onnx.records import records
from weft.onnx.values import Held

RECORDS = records()
COMPLEX = "complex numbers, which ONNX Runtime has no kernels for"
NOT_RUN = {
    ("linspace", "f(0, 1j, 5)"): COMPLEX,
    ("linspace", "f(1, 2 + 1j, 1, dtype=weft.complex128)"): COMPLEX,
    ("logspace", "f(0, 1j, 3)"): COMPLEX,
    ("_upsample", "f(T(1, 2, 6, 7), (3, 4), 'bicubic', False, True)"): "antialias",
    ("where.self", "T(2, 3).where(B(2, 3), T(2, 3))"): "the method, not the function f",
}
UNSET = {"empty", "empty_like"}


def entered(v: Any, model: Model, made: list[tuple[Value, weft.Tensor]], free: bool) -> Any:
    """Tensors among arguments as inputs of the model."""
    if isinstance(v, weft.Tensor):
        sizes = tuple(None if free else n for n in v.shape)
        value = Value(model, model.name("input"), v.dtype, sizes)
        made.append((value, v))
        return Held(value, (v, v))
    return type(v)(entered(i, model, made, free) for i in v) if isinstance(v, (list, tuple)) else v


def name_of(record: dict[str, Any]) -> str:
    """What a program calls a record by."""
    if "call" in record:
        return str(record["name"])
    public = record["function"] or record["method"]
    return record["public_name"] if public else f"ops.{record['public_name']}"
