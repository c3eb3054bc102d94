"""Pointwise ops whose form an expression does not tell."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft.onnx.builder import Builder
from weft.onnx.graph import Value
from weft.onnx.records import form, needs


@form("round")
def _round(g: Builder, self: Value, decimals: Any) -> Value:
    if not self.dtype.is_floating_point:
        return g.op("Identity", self)
    decimals = needs(decimals, "decimals")
    if not decimals:
        return g.op("Round", self)
    return g.op("Round", self * 10.0**decimals) / 10.0**decimals


@form("nan_to_num")
def _nan_to_num(g: Builder, self: Value, nan: Any, posinf: Any, neginf: Any) -> Value:
    if not self.dtype.is_floating_point:
        return g.op("Identity", self)
    limits = weft.finfo(self.dtype)
    out = g.op("Where", g.op("IsNaN", self), 0.0 if nan is None else nan, self)
    high = g.op("IsInf", self, detect_negative=0)
    low = g.op("IsInf", self, detect_positive=0)
    out = g.op("Where", high, limits.max if posinf is None else posinf, out)
    return g.op("Where", low, limits.min if neginf is None else neginf, out)


@form("prelu")
def _prelu(g: Builder, self: Value, weight: Value) -> Value:
    channels = g.fixed(weight, 0) if weight.rank else 1
    slope = [channels] + [1] * max(self.rank - 2, 0) if channels > 1 else [1] * min(self.rank, 1)
    return g.op("PRelu", self, g.reshape(weight, slope))


def _floor(g: Builder, self: Value, other: Value) -> Value:
    if self.dtype.is_floating_point:
        return g.op("Floor", self / other)
    rest = g.op("Mod", self, other)  # of the divisor's sign, so the quotient is whole
    return g.op("Div", self - rest, other)


def _trunc(g: Builder, x: Value) -> Value:
    return g.op("Sign", x) * g.op("Floor", g.op("Abs", x))


@form("floor_divide")
def _floor_divide(g: Builder, self: Value, other: Value) -> Value:
    return _floor(g, self, other)


@form("div.Mode")
def _div_mode(g: Builder, self: Value, other: Value, rounding_mode: str | None) -> Value:
    if rounding_mode == "floor":
        return _floor(g, self, other)
    if rounding_mode == "trunc":
        quotient = self / other
        return _trunc(g, quotient) if self.dtype.is_floating_point else quotient
    return g.cast(self, g.result.dtype) / g.cast(other, g.result.dtype)


@form("remainder")
def _remainder(g: Builder, self: Value, other: Value) -> Value:
    if not self.dtype.is_floating_point:
        return g.op("Mod", self, other)
    rest = g.op("Mod", self, other, fmod=1)
    wrong = g.op("And", g.op("Not", g.op("Equal", rest, 0)), g.op("Xor", rest < 0, other < 0))
    return g.op("Where", wrong, rest + other, rest)


@form("atan2")
def _atan2(g: Builder, self: Value, other: Value) -> Value:
    angle = g.op("Atan", self / other)
    half = g.op("Where", self < 0, g.scalar(-math.pi, self.dtype), g.scalar(math.pi, self.dtype))
    angle = g.op("Where", other < 0, angle + half, angle)
    both = g.op("And", g.op("Equal", self, 0), g.op("Equal", other, 0))
    return g.op("Where", both, self * 0, angle)


@form("isclose")
def _isclose(g: Builder, self: Value, other: Value, rtol: Any, atol: Any, equal_nan: bool) -> Value:
    out = g.op("Equal", self, other)
    if self.dtype == weft.bool:
        return out
    a, b = (v if v.dtype.is_floating_point else g.cast(v, weft.float64) for v in (self, other))
    far = g.op("Abs", a - b)
    near = g.op("And", far <= g.op("Abs", b) * rtol + atol, g.op("Not", g.op("IsInf", far)))
    out = g.op("Or", out, near)
    if equal_nan:
        out = g.op("Or", out, g.op("And", g.op("IsNaN", a), g.op("IsNaN", b)))
    return out


@form("pow")
def _pow(g: Builder, self: Value, exponent: Value) -> Value:
    if exponent.known is not None and exponent.sizes == ():
        number = exponent.known.item()
        if number == 2:
            return self * self
        if number == 0.5 and self.dtype.is_floating_point:
            return g.op("Sqrt", self)
    return g.op("Pow", self, exponent)


@form("clamp", "clamp.Tensor")
def _clamp(g: Builder, self: Value, min: Any, max: Any) -> Value:
    into = g.result.dtype
    out = g.cast(self, into)
    if min is not None:
        out = g.op("Max", out, g.scalar(min, into))
    if max is not None:
        out = g.op("Min", out, g.scalar(max, into))
    return out


@form("logit")
def _logit(g: Builder, self: Value, eps: float | None) -> Value:
    if eps is not None:
        self = g.op("Clip", self, eps, 1 - eps)
    return g.op("Log", self / (1 - self))


def _log_sum(g: Builder, a: Value, b: Value, unit: float) -> Value:
    """log_base(base^a + base^b), of which `unit` is the base's logarithm; right for infinities."""
    high = g.op("Max", a, b)
    gap = g.op("Abs", a - b) * -unit
    more = g.op("Log", g.op("Exp", gap) + 1) / unit
    return g.op("Where", g.op("Equal", a, b), a + math.log(2) / unit, high + more)


@form("logaddexp")
def _logaddexp(g: Builder, self: Value, other: Value) -> Value:
    return _log_sum(g, self, other, 1.0)


@form("logaddexp2")
def _logaddexp2(g: Builder, self: Value, other: Value) -> Value:
    return _log_sum(g, self, other, math.log(2))


@form("bitwise_left_shift")
def _left(g: Builder, self: Value, other: Value) -> Value:
    bits = [g.cast(v, weft.uint64) for v in (self, other)]
    out = g.cast(g.op("BitShift", *bits, direction="LEFT"), self.dtype)
    return g.op("Where", other < self.dtype.itemsize * 8, out, 0)


@form("bitwise_right_shift")
def _right(g: Builder, self: Value, other: Value) -> Value:
    # ONNX shifts bits without a sign: of negative numbers, those of the complement
    low = self < 0
    plain = g.op("Where", low, g.op("BitwiseNot", self), self)
    most = g.op("Min", other, self.dtype.itemsize * 8 - 1)
    bits = [g.cast(v, weft.uint64) for v in (plain, most)]
    out = g.cast(g.op("BitShift", *bits, direction="RIGHT"), self.dtype)
    return g.op("Where", low, g.op("BitwiseNot", out), out)


def _gcd_of(g: Builder, a: Value, b: Value) -> Value:
    """Euclid's algorithm for all elements: a Loop until nothing is left over."""
    zero = g.op("Abs", a * 0 + b * 0)
    a, b = g.op("Abs", a) + zero, g.op("Abs", b) + zero
    model = g.model
    with g.inner() as body:
        turn = Value(model, model.name("turn"), weft.int64, ())
        going = Value(model, model.name("going"), weft.bool, ())
        x, y = (Value(model, model.name(n), a.dtype, a.sizes) for n in ("x", "y"))
        over = body.op("Equal", y, 0)
        rest = body.op("Mod", x, body.op("Where", over, 1, y))
        left = body.op("Where", over, x, y)
        more = body.op("Where", over, 0, rest)
        again = body.op("ReduceMax", more, keepdims=0, sizes=()) > 0
        graph = body.graph("gcd", [turn, going, x, y], [again, left, more])
    out = g.several(
        "Loop", None, g.const(True, weft.bool), a, b, outputs=2, dtype=a.dtype, body=graph
    )
    first: Value = out[0]
    return Value(model, first.name, a.dtype, a.sizes)


@form("gcd")
def _gcd(g: Builder, self: Value, other: Value) -> Value:
    return _gcd_of(g, self, other)


@form("lcm")
def _lcm(g: Builder, self: Value, other: Value) -> Value:
    common = _gcd_of(g, self, other)
    zero = g.op("Equal", common, 0)
    return g.op("Abs", g.op("Div", self, g.op("Where", zero, 1, common)) * other)


def _negative(g: Builder, x: Value) -> Value:
    """The sign bit: also of -0.0, whose reciprocal is below 0."""
    return g.op("Or", x < 0, g.op("And", g.op("Equal", x, 0), g.op("Reciprocal", x) < 0))


@form("copysign")
def _copysign(g: Builder, self: Value, other: Value) -> Value:
    size = g.op("Abs", self)
    return g.op("Where", _negative(g, other), -size, size)


@form("signbit")
def _signbit(g: Builder, self: Value) -> Value:
    if self.dtype == weft.bool:
        return g.op("And", self, False)
    return _negative(g, self) if self.dtype.is_floating_point else self < 0


@form("_frexp")
def _frexp(g: Builder, self: Value) -> tuple[Value, Value]:
    size = g.op("Abs", self)
    zero = g.op("Equal", self, 0)
    exponent = g.op("Floor", g.op("Log", g.op("Where", zero, 1, size)) / math.log(2)) + 1
    mantissa = self / g.op("Pow", 2.0, exponent)
    over = g.op("Abs", mantissa) >= 1  # the logarithm is rounded: one off at powers of two
    under = g.op("Abs", mantissa) < 0.5
    exponent = g.op("Where", over, exponent + 1, g.op("Where", under, exponent - 1, exponent))
    exponent = g.op("Where", zero, 0, exponent)
    return self / g.op("Pow", 2.0, exponent), g.cast(exponent, weft.int32)


@form("_wrap_index")
def _wrap_index(g: Builder, index: Value, size: Any) -> Value:
    return g.op("Where", index < 0, index + size, index)
