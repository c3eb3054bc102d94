"""All functions that make the nodes of records."""

import weft.onnx.forms_conv
import weft.onnx.forms_index
import weft.onnx.forms_loss
import weft.onnx.forms_nn
import weft.onnx.forms_pointwise
import weft.onnx.forms_random
import weft.onnx.forms_reduce
import weft.onnx.forms_shape  # noqa: F401
