"""Special functions under their older names: functions of `weft`, and methods of tensors."""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.base.forms import attach, in_place
from weft.special import aliases, bessel, distributions

__all__ = ["i0", "i0_", "igamma", "igammac", "mvlgamma", "polygamma"]

i0 = bessel.i0
igamma = distributions.gammainc
igammac = distributions.gammaincc
mvlgamma = aliases.multigammaln
polygamma = aliases.polygamma


def _polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of `digamma` at self, of self's shape.

    >>> weft.tensor([1.0]).polygamma(1)
    tensor([1.6449])
    """
    return polygamma(n, self)


_METHODS: dict[str, Any] = {
    "i0": i0, "igamma": igamma, "igammac": igammac, "mvlgamma": mvlgamma, "polygamma": _polygamma,
}  # fmt: skip
for _name, _method in _METHODS.items():
    attach(_name, _method)
    attach(_name + "_", in_place(_name, _method))
i0_ = Tensor.i0_
