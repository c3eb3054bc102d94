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
    slope = [channels] + [1] * max(self.rank - 2, 0) if channels != 1 else [1] * min(self.rank, 1)
    return g.op("PRelu", self, g.reshape(weight, slope))


def _floor(g: Builder, self: Value, other: Value) -> Value:
    """The quotient rounded down, as Python has it: of floats by fmod, so that 1 // 0.1 is 9."""
    if not self.dtype.is_floating_point:
        whole = self / other
        rest = self - whole * other
        one_less = g.op("And", g.op("Not", g.op("Equal", rest, 0)), _unlike(g, rest, other))
        return whole - g.cast(one_less, self.dtype)
    plain = self / other
    rest = g.op("Mod", self, other, fmod=1)
    whole = (self - rest) / other
    one_less = g.op("And", g.op("Not", g.op("Equal", rest, 0)), _unlike(g, rest, other))
    whole = g.op("Where", one_less, whole - 1, whole)
    low = g.op("Floor", whole)
    low = g.op("Where", whole - low > 0.5, low + 1, low)
    low = g.op("Where", g.op("Equal", whole, 0), plain * 0, low)
    return g.op("Where", g.op("Equal", other, 0), plain, low)


def _unlike(g: Builder, a: Value, b: Value) -> Value:
    """Whether one of them is below 0."""
    return g.op("Xor", a < 0, b < 0)


def _trunc(g: Builder, x: Value) -> Value:
    return g.op("Where", x < 0, g.op("Ceil", x), g.op("Floor", x))


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
    wrong = g.op("And", g.op("Not", g.op("Equal", rest, 0)), _unlike(g, rest, other))
    return g.op("Where", wrong, rest + other, rest)


@form("atan2")
def _atan2(g: Builder, self: Value, other: Value) -> Value:
    y, x = g.op("Abs", self), g.op("Abs", other)
    alike = g.op("And", g.op("Equal", x, y), g.op("IsInf", x))
    both_zero = g.op("And", g.op("Equal", x, 0), g.op("Equal", y, 0))
    slope = g.op("Where", alike, 1, g.op("Where", both_zero, 0, y / x))
    angle = g.op("Atan", slope)
    angle = g.op("Where", _negative(g, other), -angle + math.pi, angle)
    return angle * _sign_of(g, self)


@form("isclose")
def _isclose(g: Builder, self: Value, other: Value, rtol: Any, atol: Any, equal_nan: bool) -> Value:
    out = g.op("Equal", self, other)
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
    inside = g.op("And", other >= 0, other < self.dtype.itemsize * 8)
    return g.op("Where", inside, out, 0)


@form("bitwise_right_shift")
def _right(g: Builder, self: Value, other: Value) -> Value:
    # ONNX shifts bits without a sign: of negative numbers, those of the complement
    low = self < 0
    plain = g.op("Where", low, g.op("BitwiseNot", self), self)
    widest = self.dtype.itemsize * 8 - int(self.dtype.is_signed)  # all but the sign
    most = g.op("Where", other < 0, widest, g.op("Min", other, widest))
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
    return g.op("Abs", Value(model, first.name, a.dtype, a.sizes))


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


def _sign_of(g: Builder, x: Value) -> Value:
    """1 or -1, to multiply by: runtimes' Neg(0.0) has no sign."""
    return g.op("Where", _negative(g, x), g.const(-1, x.dtype), g.const(1, x.dtype))


@form("copysign")
def _copysign(g: Builder, self: Value, other: Value) -> Value:
    return g.op("Abs", self) * _sign_of(g, other)


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
    plain = g.op("Or", zero, g.op("IsNaN", self - self))  # 0, NaN and infinities are as they are
    exponent = g.op("Where", plain, 0, exponent)
    return self / g.op("Pow", 2.0, exponent), g.cast(exponent, weft.int32)


@form("_wrap_index")
def _wrap_index(g: Builder, index: Value, size: Any) -> Value:
    return g.op("Where", index < 0, index + size, index)
