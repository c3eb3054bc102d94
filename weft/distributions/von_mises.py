"""Angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.distribution import Distribution
from weft.distributions.utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


class VonMises(Distribution):
    """An angle of density exp(concentration cos(x - loc)) / (2 π I₀(concentration)).

    Drawn by rejection from a wrapped Cauchy distribution, in float64 (Best and Fisher, Efficient
    simulation of the von Mises distribution, 1979). Samples have no gradients.

    >>> weft.distributions.VonMises(weft.tensor(0.0), weft.tensor(1.0)).log_prob(weft.tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _expands = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        near = self.concentration * (weft.cos(value - self.loc) - 1)
        return near - math.log(2 * math.pi) - weft.special.i0e(self.concentration).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with weft.no_grad():
            loc, kappa = self.loc.double(), self.concentration.double()
            drawn = _rejection_sample(loc, kappa, _proposal(kappa), loc.new_empty(shape))
        return drawn.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance."""
        kappa = self.concentration
        return 1 - weft.special.i1e(kappa) / weft.special.i0e(kappa)


def _proposal(kappa: Tensor) -> Tensor:
    """The parameter of the wrapped Cauchy distribution; by its series for nearly uniform angles."""
    tau = 1 + (1 + 4 * kappa**2).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
    return weft.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))


def _rejection_sample(loc: Tensor, kappa: Tensor, proposal: Tensor, x: Tensor) -> Tensor:
    done = weft.zeros(x.shape, dtype=weft.bool)
    while not bool(done.all()):
        u1, u2, u3 = weft.rand(3, *x.shape, dtype=x.dtype).unbind()
        z = weft.cos(math.pi * u1)
        f = (1 + proposal * z) / (proposal + z)
        c = kappa * (proposal - f)
        accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
        x = weft.where(accept, (u3 - 0.5).sign() * f.acos(), x)
        done = done | accept
    return (x + math.pi + loc) % (2 * math.pi) - math.pi
