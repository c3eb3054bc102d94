"""Activations; `weft.nn.functional` offers them. Any shape, and the same for the result."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft.base.warn import warn

__all__ = [
    "celu", "elu", "glu", "gumbel_softmax", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "log_softmax", "mish", "relu", "relu6", "rrelu", "rrelu_", "selu", "silu", "softmax", "softmin",
    "threshold",
]  # fmt: skip


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `max(0, x)`, in x's shape `(*)` and dtype.

    >>> weft.nn.functional.relu(weft.tensor([-1., 2.]))
    tensor([0., 2.])
    """
    return _C.relu_(input) if inplace else _C.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `min(max(0, x), 6)`.

    Of the input's shape.

    >>> weft.nn.functional.relu6(weft.tensor([-1.0, 3.0, 7.0]))
    tensor([0., 3., 6.])
    """
    return _C.relu6_(input) if inplace else _C.relu6(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return `max(0, x) + negative_slope * min(0, x)`.

    Of the input's shape.

    >>> weft.nn.functional.leaky_relu(weft.tensor([-1.0, 1.0]))
    tensor([-0.0100,  1.0000])
    """
    run = _C.leaky_relu_ if inplace else _C.leaky_relu
    return run(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return `max(0, x) + min(0, alpha (exp(x) - 1))`.

    Of the input's shape.

    >>> weft.nn.functional.elu(weft.tensor([-1., 0., 1.]))
    tensor([-0.6321,  0.0000,  1.0000])
    """
    return (_C.elu_ if inplace else _C.elu)(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return a scaled `elu` that keeps mean 0 and variance 1 (Klambauer et al., 2017).

    Of the input's shape.

    >>> weft.nn.functional.selu(weft.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return _C.selu_(input) if inplace else _C.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return `max(0, x) + min(0, alpha (exp(x / alpha) - 1))` (Barron, 2017).

    Of the input's shape.

    Raises:
        RuntimeError: `alpha` is 0.

    >>> weft.nn.functional.celu(weft.tensor([-1.0, 1.0]))
    tensor([-0.6321,  1.0000])
    """
    return (_C.celu_ if inplace else _C.celu)(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x sigmoid(x)`, in x's shape `(*)` and dtype.

    >>> weft.nn.functional.silu(weft.tensor([-1., 1.]))
    tensor([-0.2689,  0.7311])
    """
    return _C.silu_(input) if inplace else _C.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x tanh(softplus(x))` (Misra, 2019).

    Of the input's shape.

    >>> weft.nn.functional.mish(weft.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8651])
    """
    return _C.mish_(input) if inplace else _C.mish(input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Return the input, cut off at `min_val` and `max_val`; the slope is 0 at both.

    Of the input's shape.

    Raises:
        ValueError: `min_val > max_val`.

    >>> weft.nn.functional.hardtanh(weft.tensor([-2.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (_C.hardtanh_ if inplace else _C.hardtanh)(input, min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `relu6(x + 3) / 6`.

    Of the input's shape.

    >>> weft.nn.functional.hardsigmoid(weft.tensor([-3.0, 0.0, 3.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return _C.hardsigmoid_(input) if inplace else _C.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x relu6(x + 3) / 6` (Howard et al., "Searching for MobileNetV3", 2019).

    Of the input's shape.

    >>> weft.nn.functional.hardswish(weft.tensor([-3.0, 0.0, 3.0]))
    tensor([-0., 0., 3.])
    """
    return _C.hardswish_(input) if inplace else _C.hardswish(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return x where it is above `threshold`, and `value` elsewhere.

    Of the input's shape.

    >>> weft.nn.functional.threshold(weft.tensor([1.0, 3.0]), 2, 0)
    tensor([0., 3.])
    """
    return (_C.threshold_ if inplace else _C.threshold)(input, threshold, value)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Return x where it is positive, elsewhere x times a slope (Xu et al., 2015).

    In training the slope of each element is drawn from `lower` to `upper`, else it is their mean.

    Raises:
        RuntimeError: `lower` is above `upper`.

    >>> weft.nn.functional.rrelu(weft.tensor([-24.0, 1.0]))
    tensor([-5.5000,  1.0000])
    """
    if lower > upper:
        raise RuntimeError(f"[rrelu] expected lower <= upper, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    low = input.detach() <= 0
    count = int(low.sum())
    slopes = (
        weft.empty(count, dtype=_C.float64, device=input.device)
        .uniform_(lower, upper)
        .to(input.dtype)
    )
    noise = weft.ones_like(input).masked_scatter(low, slopes)
    return input.mul_(noise) if inplace else input * noise


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """`rrelu`, written over the input.

    The shape stays.

    >>> weft.nn.functional.rrelu_(weft.tensor([-24.0, 1.0]))
    tensor([-5.5000,  1.0000])
    """
    return rrelu(input, lower, upper, training, True)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Return a sample near a one-hot vector along `dim` (Jang et al., 2017).

    Of the shape of `logits`.

    Args:
        logits: unnormalised logarithms of probabilities.
        tau: the temperature.
        hard: whether the sample is one-hot, with the gradient of the soft one.
        eps: not used, as in PyTorch.

    >>> weft.nn.functional.gumbel_softmax(weft.zeros(1, 3), hard=True).sum()
    tensor(1.)
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    noise = -weft.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.detach().argmax(dim, keepdim=True)
    return weft.zeros_like(logits).scatter(dim, index, 1.0) - soft.detach() + soft


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return `a * sigmoid(b)`, where a and b are the halves of the input along `dim`.

    Raises:
        RuntimeError: the size along `dim` is odd, or the input has no dimension.

    >>> weft.nn.functional.glu(weft.tensor([1.0, 0.0]))
    tensor([0.5000])
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.dim()} is size {size}"
        )
    half = size // 2
    return input.narrow(dim, 0, half) * _C.sigmoid(input.narrow(dim, half, half))


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return `exp(x) / sum(exp(x))` along `dim`, of the input converted to `dtype`.

    From any shape `(*)` to the same; along `dim` the results sum to 1.

    >>> weft.nn.functional.softmax(weft.tensor([[0., 0.], [1., 1.]]), dim=-1)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    return _C.softmax(input, _implicit("softmax", input) if dim is None else dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return `log(softmax(x))` along `dim`, of the input converted to `dtype`.

    From any shape `(*)` to the same.

    >>> weft.nn.functional.log_softmax(weft.tensor([0., 0.]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return _C.log_softmax(input, _implicit("log_softmax", input) if dim is None else dim, dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return `softmax(-x)` along `dim`, of the input converted to `dtype`.

    Of the input's shape.

    >>> weft.nn.functional.softmin(weft.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    return _C.softmin(input, _implicit("softmin", input) if dim is None else dim, dtype)


def _implicit(who: str, input: Tensor) -> int:
    """Return the dimension that PyTorch takes where none is given."""
    warn(
        f"Implicit dimension choice for {who} has been deprecated. "
        "Change the call to include dim=X as an argument."
    )
    return 0 if input.dim() in (0, 1, 3) else 1
