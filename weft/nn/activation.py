"""Activations as layers. Unless said otherwise: any shape, and the output has that of the input.

>>> import weft
>>> weft.nn.LeakyReLU(0.1)(weft.tensor([-10.0, 10.0])).tolist()
[-1.0, 10.0]
"""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft.base.warn import warn
from weft.nn import functional as F
from weft.nn import init as init_
from weft.nn.module import Module
from weft.nn.parameter import Parameter


class _InPlace(Module):
    """An activation that can write its output over its input."""

    __constants__: list[str] = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""

    def _with_inplace(self, text: str) -> str:
        return f"{text}, inplace=True" if self.inplace else text


class ReLU(_InPlace):
    """`max(0, x)`.

    Args:
        inplace: whether the input itself is changed.

    From any shape `(*)` of floats to the same shape and dtype.

    >>> weft.nn.ReLU()(weft.tensor([-1., 2.]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _C.relu_(input) if self.inplace else _C.relu(input)


class LeakyReLU(_InPlace):
    """`max(0, x) + negative_slope * min(0, x)`.

    Args:
        negative_slope: the slope below 0.
        inplace: whether the input itself is changed.

    From any shape `(*)` of floats to the same shape and dtype.

    >>> weft.nn.LeakyReLU(0.1)(weft.tensor([-1., 2.]))
    tensor([-0.1000,  2.0000])
    """

    __constants__ = ["inplace", "negative_slope"]

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"negative_slope={self.negative_slope}")


class ELU(_InPlace):
    """`max(0, x) + min(0, alpha (exp(x) - 1))` (Clevert et al., 2015).

    Of the input's shape.

    Args:
        alpha: how far it goes below 0.
        inplace: whether the input itself is changed.

    >>> weft.nn.ELU()(weft.tensor([-1., 0., 1.]))
    tensor([-0.6321,  0.0000,  1.0000])
    """

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"alpha={self.alpha}")


class CELU(ELU):
    """`max(0, x) + min(0, alpha (exp(x / alpha) - 1))` (Barron, 2017).

    Of the input's shape.

    Args:
        alpha: how far it goes below 0.
        inplace: whether the input itself is changed.

    >>> weft.nn.CELU()(weft.tensor([-1.0, 1.0]))
    tensor([-0.6321,  1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class SELU(_InPlace):
    """A scaled ELU that keeps mean 0 and variance 1 (Klambauer et al., 2017).

    Of the input's shape.

    Args:
        inplace: whether the input itself is changed.

    >>> weft.nn.SELU()(weft.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class GELU(Module):
    """`x Φ(x)`, with Φ the normal distribution's (Hendrycks and Gimpel, 2016).

    Of the input's shape.

    Args:
        approximate: `"none"`, or `"tanh"` for the formula with a tanh.

    >>> weft.nn.GELU()(weft.tensor([-1., 0., 1.]))
    tensor([-0.1587,  0.0000,  0.8413])
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(_InPlace):
    """`x sigmoid(x)`, also called swish.

    Args:
        inplace: whether the input itself is changed.

    From any shape `(*)` of floats to the same shape and dtype.

    >>> weft.nn.SiLU()(weft.tensor([-1., 0., 1.]))
    tensor([-0.2689,  0.0000,  0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _C.silu_(input) if self.inplace else _C.silu(input)


class Mish(_InPlace):
    """`x tanh(softplus(x))` (Misra, 2019).

    Of the input's shape.

    Args:
        inplace: whether the input itself is changed.

    >>> weft.nn.Mish()(weft.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8651])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`.

    From any shape `(*)` of floats to the same shape and dtype.

    >>> weft.nn.Sigmoid()(weft.tensor([0., 2.]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _C.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    From any shape `(*)` of floats to the same shape and dtype.

    >>> weft.nn.Tanh()(weft.tensor([0., 1.]))
    tensor([0.0000, 0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _C.tanh(input)


class Softplus(Module):
    """`log(1 + exp(beta x)) / beta`.

    Args:
        beta: how sharp the bend is.
        threshold: where `beta x` is above this, the output is x.

    From any shape `(*)` of floats to the same shape and dtype.

    >>> weft.nn.Softplus()(weft.tensor([-1., 2.]))
    tensor([0.3133, 2.1269])
    """

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Softsign(Module):
    """`x / (1 + |x|)`.

    Of the input's shape.

    >>> weft.nn.Softsign()(weft.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class LogSigmoid(Module):
    """`log(1 / (1 + exp(-x)))`.

    Of the input's shape.

    >>> weft.nn.LogSigmoid()(weft.zeros(1))
    tensor([-0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Hardtanh(_InPlace):
    """The input, cut off at `min_val` and `max_val`.

    Of the input's shape.

    Args:
        min_val: the lower end.
        max_val: the upper end.
        inplace: whether the input itself is changed.
        min_value, max_value: the older names of the ends.

    Raises:
        AssertionError: the ends are not in order.

    >>> weft.nn.Hardtanh()(weft.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        for old, new, value in (
            ("min_value", "min_val", min_value),
            ("max_value", "max_val", max_value),
        ):
            if value is not None:
                warn(
                    f"keyword argument `{old}` is deprecated and renamed to `{new}`",
                    FutureWarning,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        assert self.max_val > self.min_val, (
            f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})"
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"min_val={self.min_val}, max_val={self.max_val}")


class ReLU6(Hardtanh):
    """`min(max(0, x), 6)`.

    Of the input's shape.

    Args:
        inplace: whether the input itself is changed.

    >>> weft.nn.ReLU6()(weft.tensor([-1.0, 7.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return _InPlace.extra_repr(self)


class Hardsigmoid(_InPlace):
    """`relu6(x + 3) / 6`.

    Of the input's shape.

    Args:
        inplace: whether the input itself is changed.

    >>> weft.nn.Hardsigmoid()(weft.tensor([-3.0, 0.0]))
    tensor([0.0000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """`x relu6(x + 3) / 6` (Howard et al., 2019).

    Of the input's shape.

    Args:
        inplace: whether the input itself is changed.

    >>> weft.nn.Hardswish()(weft.tensor([-3.0, 3.0]))
    tensor([-0., 3.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Threshold(_InPlace):
    """x where it is above `threshold`, and `value` elsewhere.

    Of the input's shape.

    Args:
        threshold: the bound.
        value: what replaces the rest.
        inplace: whether the input itself is changed.

    >>> weft.nn.Threshold(2, 0)(weft.tensor([1.0, 3.0]))
    tensor([0., 3.])
    """

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"threshold={self.threshold}, value={self.value}")


class Tanhshrink(Module):
    """`x - tanh(x)`.

    Of the input's shape.

    >>> weft.nn.Tanhshrink()(weft.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Softshrink(Module):
    """x moved towards 0 by `lambd`, and 0 where it is nearer than that.

    Of the input's shape.

    Args:
        lambd: the distance, not negative.

    >>> weft.nn.Softshrink()(weft.tensor([-1.0, 0.2]))
    tensor([-0.5000,  0.0000])
    """

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(Softshrink):
    """x where `|x| > lambd`, and 0 elsewhere.

    Of the input's shape.

    Args:
        lambd: the bound.

    >>> weft.nn.Hardshrink()(weft.tensor([-1.0, 0.2]))
    tensor([-1.,  0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class PReLU(Module):
    """`max(0, x) + weight * min(0, x)` with a trained weight (He et al., 2015).

    Args:
        num_parameters: 1, or the number of channels (dimension 1 of the input).
        init: the weight's first value.
        device, dtype: of the weight.

    >>> weft.nn.PReLU()(weft.tensor([-1., 0., 1.])).tolist()
    [-0.25, 0.0, 1.0]
    """

    __constants__ = ["num_parameters"]
    weight: Tensor

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(weft.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to its first value."""
        init_.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _AlongDim(Module):
    """A function along one dimension."""

    __constants__ = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class GLU(_AlongDim):
    """`a * sigmoid(b)` of the two halves along a dimension (Dauphin et al., 2016).

    Args:
        dim: the dimension, of an even size, which the output has half of.

    >>> weft.nn.GLU()(weft.tensor([1.0, 0.0]))
    tensor([0.5000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)  # type: ignore[arg-type]


class Softmax(_AlongDim):
    """`exp(x) / sum(exp(x))` along a dimension.

    Args:
        dim: the dimension whose slices sum to 1.

    >>> import weft
    >>> weft.nn.Softmax(dim=0)(weft.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class Softmax2d(Module):
    """`softmax` over the channels of `(batch, channels, h, w)` or `(channels, h, w)`.

    Raises:
        ValueError: another number of dimensions.

    >>> weft.nn.Softmax2d()(weft.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)


class LogSoftmax(_AlongDim):
    """`log(softmax(x))` along a dimension.

    Args:
        dim: the dimension.

    From any shape `(*)` of floats to the same shape and dtype.

    >>> weft.nn.LogSoftmax(dim=0)(weft.tensor([1., 1.]))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmin(_AlongDim):
    """`softmax(-x)` along a dimension.

    Args:
        dim: the dimension.

    >>> weft.nn.Softmin(0)(weft.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)
