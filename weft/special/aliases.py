"""Functions of `weft.special` that the table has, and what is made of them."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import _C, Tensor
from weft.base.forms import write_out

digamma = psi = weft.digamma
erf = weft.erf
erfc = weft.erfc
erfinv = weft.erfinv
exp2 = weft.exp2
expit = weft.sigmoid
expm1 = weft.expm1
gammaln = weft.lgamma
log1p = weft.log1p
logit = weft.logit
logsumexp = weft.logsumexp
round = weft.round  # noqa: A001
sinc = weft.sinc
xlogy = weft.xlogy
entr = _C.ops.special_entr
erfcx = _C.ops.special_erfcx
log_ndtr = _C.ops.special_log_ndtr
ndtr = _C.ops.special_ndtr
xlog1py = _C.ops.special_xlog1py
zeta = _C.ops.special_zeta


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """exp(input), divided by its sum along `dim`.

    Of the input's shape.

    >>> weft.special.softmax(weft.zeros(2), 0)
    tensor([0.5000, 0.5000])
    """
    return weft.softmax(input, dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`.

    Of the input's shape.

    >>> weft.special.log_softmax(weft.zeros(2), 0)
    tensor([-0.6931, -0.6931])
    """
    return weft.log_softmax(input, dim, dtype=dtype)


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of `digamma`. RuntimeError for a negative n.

    Of the input's shape.

    >>> weft.polygamma(1, weft.tensor([1.]))
    tensor([1.6449])
    """
    if out is not None:
        return _C.ops._polygamma(input, n, out=out)
    return _C.ops._polygamma(input, n)


def multigammaln(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the gamma function of p dimensions, for input > (p - 1) / 2.

    >>> weft.mvlgamma(weft.tensor([2.]), 2)
    tensor([0.4516])
    """
    if p < 1:
        raise RuntimeError(
            f"[mvlgamma] expected p of at least 1, got {p} (p has to be greater than or equal to 1)"
        )
    if input.dtype is _C.bool or input.is_complex():
        raise RuntimeError(
            f"[mvlgamma] expected real numbers, got {input.dtype} (mvlgamma is not implemented for "
            "it)"
        )
    kind = input.dtype if input.is_floating_point() else weft.get_default_dtype()
    shifts = weft.arange(p, dtype=kind, device=input.device) * -0.5
    result = (input.to(kind).unsqueeze(-1) + shifts).lgamma().sum(-1)
    result = result + p * (p - 1) / 4 * math.log(math.pi)
    return result if out is None else write_out("mvlgamma", out, result)
