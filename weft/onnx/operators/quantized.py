"""Operators on quantized tensors: small integers with a scale and a zero point."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import largest, operator, smallest


def _along(t: Tensor | None, x: Tensor, axis: int, block: int) -> Any:
    """A scale or a zero point in a form that broadcasts: one for all, for each slice, or block."""
    if t is None or t.dim() == 0:
        return t
    if block:
        wide = weft.repeat_interleave(t, block, axis)
        return wide.narrow(axis, 0, x.shape[axis])
    if t.numel() == 1:
        return t.reshape([])
    shape = [1] * x.dim()
    shape[axis] = -1
    return t.reshape(shape)


def _rounded(x: Tensor, zero: Any, dtype: weft.dtype) -> Tensor:
    least, most = smallest(dtype), largest(dtype)
    whole = weft.round(x)
    if zero is not None:
        whole = whole + zero.to(x.dtype)
    return weft.clamp(whole, least, most).to(dtype)


@operator("QuantizeLinear")
def quantize_linear(
    x: Tensor, y_scale: Tensor, y_zero_point: Tensor | None = None, *, axis: int = 1,
    block_size: int = 0, output_dtype: weft.dtype | None = None, precision: int = 0,
    saturate: int = 1,
) -> Tensor:  # fmt: skip
    """Divided by a scale, rounded, moved by a zero point and held within the dtype."""
    dtype = output_dtype or weft.uint8
    if y_zero_point is not None:
        dtype = y_zero_point.dtype
    scale = _along(y_scale, x, axis, block_size)
    zero = _along(y_zero_point, x, axis, block_size)
    return _rounded(x.to(scale.dtype) / scale, zero, dtype)


@operator("DequantizeLinear")
def dequantize_linear(
    x: Tensor, x_scale: Tensor, x_zero_point: Tensor | None = None, *, axis: int = 1,
    block_size: int = 0, output_dtype: weft.dtype | None = None,
) -> Tensor:  # fmt: skip
    """The numbers that quantized ones stand for."""
    scale = _along(x_scale, x, axis, block_size)
    zero = _along(x_zero_point, x, axis, block_size)
    whole = x.to(weft.int32)
    if zero is not None:
        whole = whole - zero.to(weft.int32)
    return (whole.to(scale.dtype) * scale).to(output_dtype or scale.dtype)


def _less_zero(x: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """Integers without their zero point; in float64, whose products of them are exact."""
    wide = x.to(weft.float64)
    if zero is None:
        return wide
    if zero.dim() == 1 and zero.numel() > 1 and x.dim() > 1:
        shape = [1] * x.dim()
        shape[axis] = -1
        zero = zero.reshape(shape)
    elif zero.numel() == 1:
        zero = zero.reshape([])
    return wide - zero.to(weft.float64)


@operator("MatMulInteger")
def matmul_integer(
    A: Tensor, B: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    """A product of small integers, in int32."""
    return (_less_zero(A, a_zero_point, -2) @ _less_zero(B, b_zero_point, -1)).to(weft.int32)


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Tensor, a_scale: Tensor, a_zero_point: Tensor, b: Tensor, b_scale: Tensor,
    b_zero_point: Tensor, y_scale: Tensor, y_zero_point: Tensor,
) -> Tensor:  # fmt: skip
    """A product of quantized matrices, quantized."""
    whole = _less_zero(a, a_zero_point, -2) @ _less_zero(b, b_zero_point, -1)
    scale = (a_scale.to(weft.float64) * b_scale.to(weft.float64)) / y_scale.to(weft.float64)
    return _rounded(whole * scale, y_zero_point, y_zero_point.dtype)


@operator("ConvInteger")
def conv_integer(
    x: Tensor, w: Tensor, x_zero_point: Tensor | None = None, w_zero_point: Tensor | None = None, *,
    auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1, kernel_shape: Any = None,
    pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    """A convolution of small integers, in int32."""
    from weft.onnx.operators.convolutions import conv

    out = conv(
        _less_zero(x, x_zero_point, 0), _less_zero(w, w_zero_point, 0), None, auto_pad=auto_pad,
        dilations=dilations, group=group, pads=pads, strides=strides,
    )  # fmt: skip
    return out.to(weft.int32)


@operator("QLinearConv")
def qlinear_conv(
    x: Tensor, x_scale: Tensor, x_zero_point: Tensor, w: Tensor, w_scale: Tensor,
    w_zero_point: Tensor, y_scale: Tensor, y_zero_point: Tensor, B: Tensor | None = None, *,
    auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1, kernel_shape: Any = None,
    pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    """A convolution of quantized tensors, quantized."""
    from weft.onnx.operators.convolutions import conv

    whole = conv(
        _less_zero(x, x_zero_point, 0), _less_zero(w, w_zero_point, 0),
        None if B is None else B.to(weft.float64), auto_pad=auto_pad, dilations=dilations,
        group=group, pads=pads, strides=strides,
    )  # fmt: skip
    scale = x_scale.to(weft.float64) * w_scale.to(weft.float64) / y_scale.to(weft.float64)
    scale = scale.reshape([-1] + [1] * (x.dim() - 2)) if scale.numel() > 1 else scale.reshape([])
    return _rounded(whole * scale, y_zero_point.reshape([]), y_zero_point.dtype)
