"""ONNX's operators as functions over weft's ops: what the text of a loaded model calls as `ops`."""

from weft.onnx.operators import (
    convolutions,
    draws,
    elements,
    images,
    layers,
    losses,
    places,
    quantized,
    recurrent,
    reductions,
    sequences,
    shapes,
    signals,
)
from weft.onnx.operators.table import FUNCTIONS

globals().update(FUNCTIONS)
