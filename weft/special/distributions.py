"""The incomplete gamma functions and the normal quantile, by SciPy."""

from __future__ import annotations

import math
from typing import Any

from weft._library_ops import Gradients
from weft.special.pointwise import pointwise, scipy_special

_SAMPLES = ["f(T(2, 3, lo=0.5, hi=4).detach(), T(2, 3, lo=0.2, hi=4))",
            "f(T(2, 1, lo=0.5, hi=4).detach(), T(2, 1, lo=0.2, hi=4))"]  # fmt: skip


def _density(g: Gradients, who: str) -> Any:
    """The gradient by x; that by a is of no known closed form."""
    a, x = g.inputs
    if a.requires_grad:
        raise NotImplementedError(
            f"[{who}] expected a gradient by the second argument alone, got one by the first (the "
            f"derivative for '{who}: self' is not implemented.) Hint: detach() the first argument"
        )
    return ((a - 1) * x.log() - x - a.lgamma()).exp()


def _gradient_lower(g: Gradients) -> Any:
    return None, g.grads[0] * _density(g, "igamma")


@pointwise("igamma", _gradient_lower, _SAMPLES)
def gammainc(input: Any, other: Any) -> Any:
    """The regularised lower incomplete gamma function, of shape `input` up to `other`.

    >>> weft.special.gammainc(weft.tensor([1.]), weft.tensor([1.]))
    tensor([0.6321])
    """
    return scipy_special("special.gammainc").gammainc(input, other)


def _gradient_upper(g: Gradients) -> Any:
    return None, -g.grads[0] * _density(g, "igammac")


@pointwise("igammac", _gradient_upper, _SAMPLES)
def gammaincc(input: Any, other: Any) -> Any:
    """1 - gammainc(input, other).

    >>> weft.special.gammaincc(weft.tensor([1.]), weft.tensor([1.]))
    tensor([0.3679])
    """
    return scipy_special("special.gammaincc").gammaincc(input, other)


def _gradient_ndtri(g: Gradients) -> Any:
    return g.grads[0] * (g.outputs[0].square() * 0.5).exp() * math.sqrt(2 * math.pi)


@pointwise(
    "special_ndtri",
    _gradient_ndtri,
    ["f(T(2, 3, lo=0.1, hi=0.9))", "f(T(0, 3))"],
    saves=["result"],
)
def ndtri(input: Any) -> Any:
    """The x below which a standard normal variable lies with the probability `input`.

    >>> weft.special.ndtri(weft.tensor([0.5, 0.975]))
    tensor([0.0000, 1.9600])
    """
    return scipy_special("special.ndtri").ndtri(input)
