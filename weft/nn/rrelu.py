"""A rectifier with a random slope.

>>> import weft
>>> weft.nn.RReLU(0.1, 0.3).eval()(weft.tensor([-10.0, 10.0])).tolist()
[-2.0, 10.0]
"""

from __future__ import annotations

from weft import Tensor
from weft.nn import functional as F
from weft.nn.module import Module


class RReLU(Module):
    """`x` where it is positive; elsewhere x times a slope, in training random (Xu et al., 2015).

    Of the input's shape.

    Args:
        lower, upper: the range of the slope; in evaluation it is their mean.
        inplace: whether the input itself is changed.

    >>> weft.nn.RReLU().eval()(weft.tensor([-24.0, 1.0]))
    tensor([-5.5000,  1.0000])
    """

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (
            ", inplace=True" if self.inplace else ""
        )
