"""Bessel functions and Airy's, by SciPy; their gradients are each other's (DLMF 10.29)."""

from __future__ import annotations

from typing import Any

import weft
from weft._library_ops import Gradients
from weft.special.pointwise import pointwise, scipy_special

# PyTorch's own errors are 1e-7 elsewhere for bessel_j0, bessel_j1 and airy_ai.
_SAMPLES = ["f(T(2, 3, lo=0.2, hi=5))", "f(T(3, lo=-4, hi=-0.5))", "f(T(0, 3))"]


def _at_zero(x: Any, value: float, elsewhere: Any) -> Any:
    """elsewhere(x), which may divide by x; `value` at 0."""
    zero = x == 0
    return weft.where(zero, value, elsewhere(weft.where(zero, 1.0, x)))


def _gradient_i0(g: Gradients) -> Any:
    return g.grads[0] * i1(g.inputs[0])


@pointwise("i0", _gradient_i0, _SAMPLES)
def i0(input: Any) -> Any:
    """The modified Bessel function of the first kind and of order 0.

    >>> weft.special.i0(weft.tensor([0., 1.]))
    tensor([1.0000, 1.2661])
    """
    return scipy_special("special.i0").i0(input)


def _gradient_i0e(g: Gradients) -> Any:
    x = g.inputs[0]
    return g.grads[0] * (i1e(x) - x.sign() * g.outputs[0])


@pointwise("special_i0e", _gradient_i0e, _SAMPLES, "SpecialI0EBackward0", saves=["input", "result"])
def i0e(input: Any) -> Any:
    """exp(-|input|) i0(input).

    >>> weft.special.i0e(weft.tensor([0.0, 1.0]))
    tensor([1.0000, 0.4658])
    """
    return scipy_special("special.i0e").i0e(input)


def _gradient_i1(g: Gradients) -> Any:
    x = g.inputs[0]
    return g.grads[0] * _at_zero(x, 0.5, lambda x: i0(x) - i1(x) / x)


@pointwise("special_i1", _gradient_i1, _SAMPLES, node="SpecialI1Backward0")
def i1(input: Any) -> Any:
    """The modified Bessel function of the first kind and of order 1.

    >>> weft.special.i1(weft.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """
    return scipy_special("special.i1").i1(input)


def _gradient_i1e(g: Gradients) -> Any:
    x = g.inputs[0]
    return g.grads[0] * _at_zero(x, 0.5, lambda x: i0e(x) - i1e(x) * (x.sign() + 1 / x))


@pointwise("special_i1e", _gradient_i1e, _SAMPLES, node="SpecialI1EBackward0")
def i1e(input: Any) -> Any:
    """exp(-|input|) i1(input).

    >>> weft.special.i1e(weft.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2079])
    """
    return scipy_special("special.i1e").i1e(input)


@pointwise("special_bessel_j0", samples=_SAMPLES[::2])
def bessel_j0(input: Any) -> Any:
    """The Bessel function of the first kind and of order 0; not differentiable, as PyTorch's.

    >>> weft.special.bessel_j0(weft.tensor([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """
    return scipy_special("special.bessel_j0").j0(input)


@pointwise("special_bessel_j1", samples=_SAMPLES[::2])
def bessel_j1(input: Any) -> Any:
    """The Bessel function of the first kind and of order 1; not differentiable, as PyTorch's.

    >>> weft.special.bessel_j1(weft.tensor([0.0, 1.0]))
    tensor([0.0000, 0.4401])
    """
    return scipy_special("special.bessel_j1").j1(input)


@pointwise("special_bessel_y0", samples=_SAMPLES[:1])
def bessel_y0(input: Any) -> Any:
    """The Bessel function of the second kind and of order 0; not differentiable, as PyTorch's.

    >>> weft.special.bessel_y0(weft.tensor([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """
    return scipy_special("special.bessel_y0").y0(input)


@pointwise("special_bessel_y1", samples=_SAMPLES[:1])
def bessel_y1(input: Any) -> Any:
    """The Bessel function of the second kind and of order 1; not differentiable, as PyTorch's.

    >>> weft.special.bessel_y1(weft.tensor([1.0, 2.0]))
    tensor([-0.7812, -0.1070])
    """
    return scipy_special("special.bessel_y1").y1(input)


@pointwise("special_modified_bessel_i0", samples=_SAMPLES)
def modified_bessel_i0(input: Any) -> Any:
    """`i0`; not differentiable, as PyTorch's.

    >>> weft.special.modified_bessel_i0(weft.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """
    return scipy_special("special.modified_bessel_i0").i0(input)


@pointwise("special_modified_bessel_i1", samples=_SAMPLES)
def modified_bessel_i1(input: Any) -> Any:
    """`i1`; not differentiable, as PyTorch's.

    >>> weft.special.modified_bessel_i1(weft.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """
    return scipy_special("special.modified_bessel_i1").i1(input)


@pointwise("special_modified_bessel_k0", samples=_SAMPLES[:1])
def modified_bessel_k0(input: Any) -> Any:
    """The modified Bessel function of the second kind and of order 0; not differentiable.

    >>> weft.special.modified_bessel_k0(weft.tensor([1.0, 2.0]))
    tensor([0.4210, 0.1139])
    """
    return scipy_special("special.modified_bessel_k0").k0(input)


@pointwise("special_modified_bessel_k1", samples=_SAMPLES[:1])
def modified_bessel_k1(input: Any) -> Any:
    """The modified Bessel function of the second kind and of order 1; not differentiable.

    >>> weft.special.modified_bessel_k1(weft.tensor([1.0, 2.0]))
    tensor([0.6019, 0.1399])
    """
    return scipy_special("special.modified_bessel_k1").k1(input)


@pointwise("special_scaled_modified_bessel_k0", samples=_SAMPLES[:1])
def scaled_modified_bessel_k0(input: Any) -> Any:
    """exp(input) modified_bessel_k0(input).

    >>> weft.special.scaled_modified_bessel_k0(weft.tensor([1.0, 2.0]))
    tensor([1.1445, 0.8416])
    """
    return scipy_special("special.scaled_modified_bessel_k0").k0e(input)


@pointwise("special_scaled_modified_bessel_k1", samples=_SAMPLES[:1])
def scaled_modified_bessel_k1(input: Any) -> Any:
    """exp(input) modified_bessel_k1(input).

    >>> weft.special.scaled_modified_bessel_k1(weft.tensor([1.0, 2.0]))
    tensor([1.6362, 1.0335])
    """
    return scipy_special("special.scaled_modified_bessel_k1").k1e(input)


@pointwise("special_spherical_bessel_j0", samples=_SAMPLES)
def spherical_bessel_j0(input: Any) -> Any:
    """The spherical Bessel function of the first kind and of order 0: sin(input) / input.

    >>> weft.special.spherical_bessel_j0(weft.tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """
    return scipy_special("special.spherical_bessel_j0").spherical_jn(0, input).astype(input.dtype)


@pointwise("special_airy_ai", samples=_SAMPLES[::2])
def airy_ai(input: Any) -> Any:
    """Airy's function Ai; not differentiable, as PyTorch's.

    >>> weft.special.airy_ai(weft.tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """
    return scipy_special("special.airy_ai").airy(input)[0]
