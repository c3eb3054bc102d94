"""Rounding to what a quantized tensor could hold, in floats: for training before quantization."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft.base.forms import forms

__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"]


def _expect_bounds(who: str, input: Tensor, low: Any, high: Any) -> None:
    if not input.is_floating_point():
        raise NotImplementedError(
            f"[{who}] expected a floating tensor, got {input.dtype} (not implemented for it)"
        )
    if any(not isinstance(bound, int) for bound in (low, high)):
        raise TypeError(f"[{who}] expected ints as quant_min and quant_max, got {low} and {high}")
    if low > high:
        raise RuntimeError(
            f"[{who}] expected quant_min <= quant_max, got {low} and {high} (`quant_min` should be "
            "less than or equal to `quant_max`.)"
        )


def _expect_inside(who: str, inside: bool, zero_point: Any) -> None:
    if not inside:
        raise RuntimeError(
            f"[{who}] expected zero_point in the range, got {zero_point} (`zero_point` must be "
            "between `quant_min` and `quant_max`.)"
        )


def _rounded(
    input: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, whole: bool = True
) -> Tensor:
    """The nearest numbers that a quantized tensor holds. Gradients pass where none was out of
    range; scale and zero point, in float32, have none."""
    plain = input.detach()
    wide = plain.to(weft.promote_types(plain.dtype, weft.float32))
    scaled, zero = wide * (1 / scale).to(wide.dtype), zero.to(wide.dtype)
    steps = scaled.round() + zero if whole else (scaled + zero).round()
    inside = (steps >= low) & (steps <= high)
    held = steps.nan_to_num(nan=low).clamp(low, high) - zero
    out = (held.float() * scale).to(input.dtype)
    # a zero whose gradient is that of the input
    return out + weft.where(inside, input - plain, weft.zeros((), dtype=input.dtype))


def _without_gradient(who: str, *parameters: Any) -> None:
    for t in parameters:
        if isinstance(t, Tensor) and t.requires_grad and weft.is_grad_enabled():
            raise RuntimeError(
                f"[{who}] expected a scale and a zero point without requires_grad, got one with it "
                "(is not differentiable with respect to argument 'scale'. This input cannot have "
                "requires_grad True.)"
            )


@forms()
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: float | Tensor, zero_point: int | Tensor, quant_min: int, quant_max: int
) -> Tensor:
    """(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale.

    The gradient is that of the identity where the rounded numbers lie in the range, else 0.

    Args:
        input: a floating tensor of any shape.
        scale: a float, or a tensor with one element.
        zero_point: an int, or with such a scale a tensor with one element.
        quant_min, quant_max: the range of the quantized numbers.

    Returns: a tensor of input's shape and dtype.

    Raises:
        TypeError: a number among tensors or the other way round.
        RuntimeError: an empty range, a zero point outside of it, a scale that requires grad.
        NotImplementedError: input is not floating.

    >>> weft.fake_quantize_per_tensor_affine(weft.tensor([0.12, 0.26, 9.0]), 0.1, 0, 0, 15)
    tensor([0.1000, 0.3000, 1.5000])
    """
    who = "fake_quantize_per_tensor_affine"
    _expect_bounds(who, input, quant_min, quant_max)
    if isinstance(zero_point, Tensor) and not isinstance(scale, Tensor) and not zero_point.dim():
        zero_point = int(zero_point)
    step: Any = scale
    zero: Any = zero_point
    tensors = isinstance(scale, Tensor), isinstance(zero_point, Tensor)
    if tensors == (True, True):
        _without_gradient(who, scale, zero_point)
        step, zero = step.item(), zero.item()
    elif tensors[0] or not isinstance(scale, (int, float)) or not isinstance(zero_point, int):
        raise TypeError(
            f"[{who}] expected a float as scale and an int as zero_point, or tensors as both, got "
            f"{type(scale).__name__} and {type(zero_point).__name__} (received an invalid "
            "combination of arguments)"
        )
    else:
        _expect_inside(who, quant_min <= zero_point <= quant_max, zero_point)
    steps, zeros = (weft.tensor(float(v), dtype=weft.float32) for v in (step, zero))
    return _rounded(input, steps, zeros, quant_min, quant_max)


@forms()
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each index along `axis`.

    Args:
        input: a floating tensor.
        scale: float32 or bfloat16, of one dimension, with the size of input's `axis`.
        zero_point: int32, float32 or float16, of scale's shape.
        axis: the dimension of the channels.
        quant_min, quant_max: the range of the quantized numbers.

    Returns: a tensor of input's shape and dtype.

    Raises:
        RuntimeError: other dtypes or sizes, an empty range, a zero point outside of it, a scale
            that requires grad.
        NotImplementedError: input is not floating.

    >>> x, scale = weft.tensor([[0.12, 0.26], [0.12, 0.26]]), weft.tensor([0.1, 0.25])
    >>> weft.fake_quantize_per_channel_affine(x, scale, weft.zeros(2, dtype=weft.int32), 0, 0, 15)
    tensor([[0.1000, 0.3000],
            [0.0000, 0.2500]])
    """
    who = "fake_quantize_per_channel_affine"
    _expect_bounds(who, input, quant_min, quant_max)
    _without_gradient(who, scale, zero_point)

    def expect(met: bool, expected: str, got: Any, known: str) -> None:
        if not met:
            raise RuntimeError(f"[{who}] expected {expected}, got {got} ({known})")

    def name(t: Tensor) -> str:
        return weft.typename(t).split(".")[-1].removesuffix("Tensor")

    expect(scale.dtype in (weft.float32, weft.bfloat16), "a scale of float32 or bfloat16",
           scale.dtype, f"Scale must be Float or BFloat16, found {name(scale)}")  # fmt: skip
    expect(zero_point.dtype in (weft.int32, weft.float32, weft.float16),
           "a zero point of int32, float32 or float16", zero_point.dtype,
           f"Zero-point must be Int32, Float or Half, found {name(zero_point)}")  # fmt: skip
    expect(scale.dim() == 1, "a vector as scale", scale.shape, "scale should be a 1-D tensor")
    expect(zero_point.dim() == 1, "a vector as zero point", zero_point.shape,
           "zero point should be a 1-D tensor")  # fmt: skip
    expect(scale.numel() == zero_point.numel(), "a scale for each zero point",
           f"{scale.numel()} and {zero_point.numel()}",
           "scale and zero-point need to have the same dimensions")  # fmt: skip
    expect(input.size(axis) == scale.numel(), "a scale for each channel",
           f"{scale.numel()} of {input.size(axis)}",
           "dimensions of scale and zero-point are not consistent with input tensor")  # fmt: skip
    expect(0 <= axis <= input.dim(), "an axis of at least 0", axis,
           "`axis` must be between 0 and number of dimensions of input")  # fmt: skip
    if zero_point.dtype is weft.int32 and zero_point.numel():
        lowest, highest = zero_point.aminmax()
        _expect_inside(who, int(lowest) >= quant_min and int(highest) <= quant_max, zero_point)
    sizes = [1] * input.dim()
    sizes[axis] = -1
    steps, zeros = (t.to(_C.float32).view(sizes) for t in (scale, zero_point))
    whole = zero_point.dtype is weft.int32
    return _rounded(input, steps, zeros, quant_min, quant_max, whole)
