"""Functions of Python's module math, as programs call them."""

import math
from collections.abc import Callable
from typing import Any

OF_ONE: list[Callable[[Any], Any]] = [
    lambda a: math.sinh(a), lambda a: math.cosh(a), lambda a: math.asinh(a),
    lambda a: math.acosh(a), lambda a: math.atanh(a), lambda a: math.exp2(a),
    lambda a: math.expm1(a), lambda a: math.log1p(a), lambda a: math.cbrt(a),
    lambda a: math.degrees(a), lambda a: math.radians(a), lambda a: math.erfc(a),
    lambda a: math.modf(a), lambda a: math.isqrt(a), lambda a: math.factorial(a),
    lambda a: math.perm(a), lambda a: math.hypot(a), lambda a: math.lcm(a),
]  # fmt: skip
OF_TWO: list[Callable[[Any, Any], Any]] = [
    lambda a, b: math.copysign(a, b), lambda a, b: math.fmod(a, b), lambda a, b: math.hypot(a, b),
    lambda a, b: math.isclose(a, b), lambda a, b: math.isclose(a, b, rel_tol=0.5),
    lambda a, b: math.isclose(a, b, abs_tol=b), lambda a, b: math.atan2(a, b),
    lambda a, b: math.lcm(a, b, 6), lambda a, b: math.perm(a, b), lambda a, b: math.pow(a, b),
    lambda a, b: math.dist([a, 1.0], (b, -1)), lambda a, b: math.dist([a], [a, b]),
]  # fmt: skip
