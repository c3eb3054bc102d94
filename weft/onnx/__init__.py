"""Models in ONNX's form: written from functions and Modules, and read as Modules."""

from weft.onnx.errors import NotOnnx, OnnxExporterError, Unsupported
from weft.onnx.export import export, is_in_onnx_export
from weft.onnx.exported import ONNXProgram
from weft.onnx.load import load
from weft.onnx.module import OnnxModule

__all__ = [
    "NotOnnx",
    "ONNXProgram",
    "OnnxExporterError",
    "OnnxModule",
    "Unsupported",
    "export",
    "is_in_onnx_export",
    "load",
]
