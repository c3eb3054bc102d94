"""Files of ONNX: read, checked, and their tensors as weft's."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import weft
from weft.onnx.graph import DTYPE, onnx_package

_ERROR = "[onnx.load] expected an ONNX model, got"


def read(f: Any) -> Any:
    """The checked model of a file, of bytes or of a `ModelProto`, weights of other files included.

    Raises:
        ValueError: it is no model, or a broken one.
        OSError: the file cannot be read.
        ImportError: the package `onnx` is not installed.
    """
    onnx = onnx_package()
    folder = None
    f = getattr(f, "model_proto", f)  # of what onnx.export gives
    if isinstance(f, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(f)
    elif isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        folder = os.path.dirname(os.path.abspath(path))
        with open(path, "rb") as file:
            model = _parsed(onnx, file.read())
    elif isinstance(f, (bytes, bytearray, memoryview)):
        model = _parsed(onnx, bytes(f))
    else:
        read_from = getattr(f, "read", None)
        if read_from is None:
            raise TypeError(
                "[onnx.load] expected a path, bytes, a file or a ModelProto, "
                f"got {type(f).__name__}"
            )
        model = _parsed(onnx, read_from())
    if not _is_text(model):
        raise ValueError(f"{_ERROR} one with names that are not UTF-8")
    _check_external(onnx, model, folder)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        words = str(error).strip().partition("\n")[0]
        raise ValueError(f"{_ERROR} one that onnx.checker refuses: {words}") from None
    return model


def _parsed(onnx: Any, raw: bytes) -> Any:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(raw)
    except Exception as error:  # protobuf's own, which it does not export
        raise ValueError(f"{_ERROR} {len(raw)} bytes of something else ({error})") from None
    if not model.HasField("graph"):
        raise ValueError(f"{_ERROR} {len(raw)} bytes without a graph")
    return model


_STRING, _MESSAGE = 9, 11  # protobuf's types of fields


def _is_text(message: Any) -> bool:
    """Whether all strings are: of others protobuf makes bytes."""
    for field, value in message.ListFields():
        if field.type == _STRING:
            row = [value] if isinstance(value, (str, bytes)) else value
            if not all(isinstance(text, str) for text in row):
                return False
        elif field.type == _MESSAGE:
            row = [value] if hasattr(value, "ListFields") else value
            if not all(map(_is_text, row)):
                return False
    return True


def _check_external(onnx: Any, model: Any, folder: str | None) -> None:
    """Reads weights that lie in other files, of the model's folder alone."""
    helper = onnx.external_data_helper
    outside = [t for t in helper._get_all_tensors(model) if helper.uses_external_data(t)]
    if not outside:
        return
    if folder is None:
        raise ValueError(
            f"{_ERROR} one whose weights are in other files ({outside[0].name!r}). "
            "Hint: give the path of the model"
        )
    try:
        helper.load_external_data_for_model(model, folder)
    except (onnx.checker.ValidationError, ValueError, RuntimeError, OSError) as error:
        words = str(error).strip().partition("\n")[0]
        raise ValueError(f"{_ERROR} one with weights that cannot be read: {words}") from None


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """A TensorProto's elements; those of bfloat16 as int16."""
    onnx = onnx_package()
    made: np.ndarray[Any, Any] = onnx.numpy_helper.to_array(tensor)
    if tensor.data_type == onnx.TensorProto.BFLOAT16:
        made = np.ascontiguousarray(made).view(np.int16)
    return made


def tensor_of(tensor: Any) -> weft.Tensor:
    """A TensorProto as a tensor of weft's, with memory of its own."""
    made = weft.from_numpy(np.array(array_of(tensor), copy=True, order="C"))
    dtype = DTYPE[tensor.data_type]
    return made.view(dtype) if made.dtype != dtype else made
