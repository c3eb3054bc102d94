"""Operators on elements."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import formula, helper, operator

for _name in (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp",
    "Floor", "Log", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt",
    "Tan", "Tanh",
):  # fmt: skip
    formula(_name, f"torch.{_name.lower()}({{0}})")
formula("Not", "torch.logical_not({0})")
formula("BitwiseNot", "torch.bitwise_not({0})")
formula("IsNaN", "torch.isnan({0})")
formula("Mish", "torch.nn.functional.mish({0})")
formula("HardSwish", "torch.nn.functional.hardswish({0})")
formula("Softsign", "torch.nn.functional.softsign({0})")
formula("And", "torch.logical_and({0}, {1})")
formula("Or", "torch.logical_or({0}, {1})")
formula("Xor", "torch.logical_xor({0}, {1})")
formula("BitwiseAnd", "{0} & {1}")
formula("BitwiseOr", "{0} | {1}")
formula("BitwiseXor", "{0} ^ {1}")
formula("Add", "{0} + {1}", scalars=True)
formula("Sub", "{0} - {1}", scalars=True)
formula("Mul", "{0} * {1}", scalars=True)
formula("Equal", "{0} == {1}", scalars=True)
formula("Less", "{0} < {1}", scalars=True)
formula("LessOrEqual", "{0} <= {1}", scalars=True)
formula("Greater", "{0} > {1}", scalars=True)
formula("GreaterOrEqual", "{0} >= {1}", scalars=True)
formula("Where", "torch.where({0}, {1}, {2})")
formula("MatMul", "{0} @ {1}")


@helper
def quotient(a: int, b: int) -> int:
    """A quotient of numbers, towards zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


@helper
def pairs(a: list[int], b: list[int]) -> list[tuple[int, int]]:
    """Two lists side by side, as tensors broadcast."""
    if len(a) == 1:
        return [(a[0], k) for k in b]
    if len(b) == 1:
        return [(k, b[0]) for k in a]
    return [(a[k], b[k]) for k in range(len(a))]


@operator("Div", scalars=True)
def divide(A: Any, B: Any) -> Tensor:
    """A quotient; of integers towards zero."""
    like = A if isinstance(A, Tensor) else B
    if like.is_floating_point():
        return A / B
    whole = A if isinstance(A, Tensor) else weft.tensor(A, dtype=like.dtype)
    return weft.div(whole, B, rounding_mode="trunc")


@operator("Mod", scalars=True)
def modulo(A: Any, B: Any, *, fmod: int = 0) -> Tensor:
    """A remainder: of the divisor's sign, or with fmod of the dividend's."""
    whole = A if isinstance(A, Tensor) else weft.tensor(A, dtype=getattr(B, "dtype", None))
    return weft.fmod(whole, B) if fmod else weft.remainder(whole, B)


@operator("Pow", scalars=True)
def power(X: Any, Y: Any) -> Tensor:
    """A power, of the base's dtype."""
    base = X if isinstance(X, Tensor) else weft.tensor(X, dtype=getattr(Y, "dtype", None))
    return weft.pow(base, Y).to(base.dtype)


@operator("Max")
def maximum(*data_0: Tensor) -> Tensor:
    """The largest of tensors."""
    out = data_0[0]
    for other in data_0[1:]:
        out = weft.maximum(out, other)
    return out


@operator("Min")
def minimum(*data_0: Tensor) -> Tensor:
    """The smallest of tensors."""
    out = data_0[0]
    for other in data_0[1:]:
        out = weft.minimum(out, other)
    return out


@operator("Sum")
def total(*data_0: Tensor) -> Tensor:
    """The sum of tensors."""
    out = data_0[0]
    for other in data_0[1:]:
        out = out + other
    return out


@operator("Mean")
def average(*data_0: Tensor) -> Tensor:
    """The mean of tensors."""
    return total(*data_0) / len(data_0)


@operator("Clip", scalars=True)
def clip(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Elements, not below one bound nor above another."""
    if min is not None:
        input = weft.clamp(input, min=min)
    return input if max is None else weft.clamp(input, max=max)


@operator("BitShift")
def bit_shift(X: Tensor, Y: Tensor, *, direction: str) -> Tensor:
    """Bits moved."""
    if direction == "LEFT":
        return X << Y
    if X.dtype != weft.uint64:
        return X >> Y
    steps, x = (
        Y.view(weft.int64),
        X.contiguous().view(weft.int64),
    )  # of which the first bit is a sign
    moved = ((x >> 1) & (2**63 - 1)) >> weft.clamp(steps - 1, min=0)
    return weft.where(steps == 0, x, moved).view(weft.uint64)


@operator("IsInf")
def is_inf(X: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Which elements are infinite."""
    if not detect_negative:
        return weft.isposinf(X) if detect_positive else weft.zeros_like(X, dtype=weft.bool)
    return weft.isinf(X) if detect_positive else weft.isneginf(X)


@operator("Cast")
def cast(input: Tensor, *, to: weft.dtype, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Another dtype. What is said of float8 changes nothing: there is none."""
    return input.to(to)


@operator("CastLike")
def cast_like(
    input: Tensor, target_type: Tensor, *, saturate: int = 1, round_mode: str = "up"
) -> Tensor:
    """The dtype of another tensor."""
    return input.to(target_type.dtype)


@operator("BitCast")
def bit_cast(input: Tensor, *, to: weft.dtype) -> Tensor:
    """The same bits as another dtype of one size."""
    return input.contiguous().view(to)


@operator("LeakyRelu")
def leaky_relu(X: Tensor, *, alpha: float = 0.01) -> Tensor:
    """A slope below zero."""
    return weft.nn.functional.leaky_relu(X, alpha)


@operator("PRelu")
def prelu(X: Tensor, slope: Tensor, *, version: int) -> Tensor:
    """A slope of its own below zero, broadcast to the input; before version 7 one for a channel."""
    if version < 7 and slope.dim() == 1 and X.dim() > 2:
        slope = slope.reshape([-1] + [1] * (X.dim() - 2))
    return weft.where(X < 0, X * slope, X)


@operator("Elu")
def elu(X: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Clevert et al. 2016."""
    return weft.nn.functional.elu(X, alpha)


@operator("Celu")
def celu(X: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Barron 2017."""
    return weft.nn.functional.celu(X, alpha)


@operator("Selu")
def selu(
    X: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805
) -> Tensor:
    """Klambauer et al. 2017."""
    return gamma * weft.nn.functional.elu(X, alpha)


@operator("ThresholdedRelu")
def thresholded_relu(X: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Zero up to a threshold."""
    return weft.where(X > alpha, X, weft.zeros_like(X))


@operator("Shrink")
def shrink(input: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Nearer to zero, and zero within a bound."""
    zero = weft.zeros_like(input)
    below = weft.where(input < -lambd, input + bias, zero)
    return weft.where(input > lambd, input - bias, below)


@operator("HardSigmoid")
def hard_sigmoid(X: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """A line between zero and one."""
    return weft.clamp(alpha * X + beta, 0, 1)


@operator("Softplus")
def softplus(X: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return weft.nn.functional.softplus(X)


@operator("Gelu")
def gelu(X: Tensor, *, approximate: str = "none") -> Tensor:
    """Hendrycks & Gimpel 2016."""
    return weft.nn.functional.gelu(X, approximate=approximate)


@operator("Swish")
def swish(X: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x * sigmoid(alpha x)."""
    return X * weft.sigmoid(X * alpha) if alpha != 1 else weft.nn.functional.silu(X)
