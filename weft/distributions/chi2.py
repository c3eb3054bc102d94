"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.distributions import constraints
from weft.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of `df` squares of normal variables.

    >>> weft.distributions.Chi2(weft.tensor(3.0)).mean
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}
    _expands = ("concentration", "rate")

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """How many."""
        return self.concentration * 2
