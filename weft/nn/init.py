"""Filling tensors with starting values, in place; every function returns its tensor.

The random numbers are drawn in PyTorch's order, so a seed gives PyTorch's values.

>>> import weft
>>> w = weft.empty(3, 5)
>>> weft.nn.init.xavier_uniform_(w) is w
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.base import checks as _checks
from weft.base.forms import doc_after as _doc_after
from weft.base.warn import warn


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """Return the recommended gain for what follows a layer.

    Args:
        nonlinearity: a function's name in `weft.nn.functional`, or a layer's, such as `"conv2d"`.
        param: the negative slope, for `"leaky_relu"`.

    Raises:
        ValueError: an unknown name, or a slope that is not a number.

    >>> import weft
    >>> weft.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if param is None:
        param = 0.01
    elif isinstance(param, bool) or not isinstance(param, int | float):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + param**2))


_LINEAR = frozenset(
    ["linear", "sigmoid"] + [f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)]
)
_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill a tensor of any shape with values uniform between `a` and `b`; it is the result.

    >>> w = weft.nn.init.uniform_(weft.empty(100), -1, 1)
    >>> bool(-1 <= w.min() and w.max() < 1)
    True
    """
    return _draw(tensor, "uniform_", a, b, generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal values.

    Args:
        tensor: any shape, floating; it is written, and is the result.
        mean, std: of the distribution.
        generator: where the numbers come from.

    >>> w = weft.nn.init.normal_(weft.empty(100, 100), std=0.5)
    >>> bool(0.4 < w.std() < 0.6)
    True
    """
    return _draw(tensor, "normal_", mean, std, generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fill with normal values, drawn again as long as they are outside of `a` to `b`.

    By rejection: from the normal distribution itself if more than 30 % of it lies between the
    bounds, and otherwise from the uniform one between them, as PyTorch 2.13 does.

    A floating tensor of any shape.

    >>> import weft
    >>> w = weft.nn.init.trunc_normal_(weft.empty(100))
    >>> bool((w.abs() <= 2).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
        )

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / (std * math.sqrt(2.0)))) / 2.0

    if tensor.is_meta:  # nothing is rejected where there are no values
        return _draw(tensor, "uniform_", a, b, generator)
    with weft.no_grad():
        if below(b) - below(a) > 0.3:
            _reject_normal(tensor, mean, std, a, b, generator)
        else:
            _reject_uniform(tensor, mean, std, a, b, generator)
    return tensor


def _reject_normal(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> None:
    # The bounds as the tensor's dtype has them: a value must not be rejected for ever.
    low, high = (weft.tensor(bound, dtype=tensor.dtype, device="cpu").item() for bound in (a, b))
    result = _draw(tensor, "normal_", mean, std, generator)
    while True:
        outside = (result < low) | (result > high)
        if not outside.any():
            break
        again = _draw(weft.empty_like(result), "normal_", mean, std, generator)
        result = weft.where(outside, again, result)
    if result is not tensor:
        tensor.copy_(result)


def _reject_uniform(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> None:
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def rejected(candidates: Tensor) -> Tensor:
        log_density = ((candidates - mean) / std).pow(2) * -0.5 - peak
        chance = _draw(weft.empty_like(tensor), "uniform_", 0.0, 1.0, generator)
        return chance.log() > log_density

    result = _draw(tensor, "uniform_", a, b, generator)
    pending = rejected(result)
    while pending.any():
        candidates = _draw(weft.empty_like(tensor), "uniform_", a, b, generator)
        result = weft.where(pending, candidates, result)
        pending = pending & rejected(candidates)
    if result is not tensor:
        tensor.copy_(result)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor of any shape with one value; it is the result.

    >>> weft.nn.init.constant_(weft.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    with weft.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor of any shape with 1; it is the result.

    >>> weft.nn.init.ones_(weft.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor of any shape with 0; it is the result.

    >>> weft.nn.init.zeros_(weft.empty(2))
    tensor([0., 0.])
    """
    with weft.no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity, as far as it is square.

    [n, m] of any floating dtype.

    Raises:
        ValueError: the tensor is not a matrix.

    >>> weft.nn.init.eye_(weft.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with weft.no_grad():
        return tensor.copy_(weft.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight so that it copies as many channels as it can.

    Args:
        tensor: `(out, in, ...)` with 1 to 3 spatial sizes.
        groups: the number of groups of the convolution.

    Raises:
        ValueError: the number of dimensions, or `out` is not a multiple of `groups`.

    >>> weft.nn.init.dirac_(weft.empty(2, 2, 3))[0]
    tensor([[0., 1., 0.],
            [0., 0., 0.]])
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out, channels, *spatial = tensor.shape
    if out % groups:
        raise ValueError("dim 0 must be divisible by groups")
    centre = tuple(size // 2 for size in spatial)
    per_group = out // groups
    with weft.no_grad():
        tensor.zero_()
        for group in range(groups):
            for d in range(min(per_group, channels)):
                tensor[(group * per_group + d, d, *centre)] = 1
    return tensor


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill uniformly so that the variance survives both directions (Glorot and Bengio, 2010).

    Raises:
        ValueError: the tensor has fewer than 2 dimensions.

    >>> w = weft.nn.init.xavier_uniform_(weft.empty(3, 5))
    >>> w.abs().max() <= (6 / (3 + 5)) ** 0.5
    tensor(True)
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return _draw(tensor, "uniform_", -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill normally so that the variance survives both directions (Glorot and Bengio, 2010).

    Raises:
        ValueError: the tensor has fewer than 2 dimensions.

    >>> weft.nn.init.xavier_normal_(weft.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    return _draw(tensor, "normal_", 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill uniformly so that the variance survives rectifiers (He et al., 2015).

    Args:
        tensor: a weight, `(out, in, ...)`.
        a: the negative slope of the rectifier that follows.
        mode: `"fan_in"` keeps the variance forward, `"fan_out"` backward.
        nonlinearity: what follows; see `calculate_gain`.
        generator: the source of random numbers.

    Raises:
        ValueError: an unknown mode, or a tensor with fewer than 2 dimensions.

    >>> w = weft.nn.init.kaiming_uniform_(weft.empty(3, 6), nonlinearity='relu')
    >>> w.abs().max() <= 1  # (6 / 6) ** 0.5
    tensor(True)
    """
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return _draw(tensor, "uniform_", -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill normally so that the variance survives rectifiers; see `kaiming_uniform_`.

    The tensor has two dimensions `(out, in)` or more, and is the result.

    >>> w = weft.nn.init.kaiming_normal_(weft.empty(100, 200))
    >>> bool(0.08 < w.std() < 0.12)  # the root of 2 / 200
    True
    """
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return tensor
    return _draw(tensor, "normal_", 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill so that the rows or the columns are orthonormal (Saxe et al., 2013).

    A tensor of more than 2 dimensions is a matrix of its first size and the product of the rest.

    Raises:
        ValueError: the tensor has fewer than 2 dimensions.

    >>> import weft
    >>> w = weft.nn.init.orthogonal_(weft.empty(2, 4))
    >>> weft.allclose(w @ w.t(), weft.eye(2), atol=1e-6)
    True
    """
    import numpy as np

    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.shape[0]
    cols = tensor.numel() // rows
    with weft.no_grad():
        drawn = _draw(
            weft.empty(rows, cols, dtype=tensor.dtype, device="cpu"), "normal_", 0, 1, generator
        )
        matrix = drawn.numpy().astype(np.float64)
        q, r = np.linalg.qr(matrix.T if rows < cols else matrix)
        # With the signs of r's diagonal in q, the result is uniform among orthogonal matrices.
        q = q * np.sign(np.diag(r))
        q = np.ascontiguousarray(q.T if rows < cols else q).reshape(tuple(tensor.shape))
        return tensor.copy_(weft.from_numpy(q)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix normally, with the fraction `sparsity` of each column zero (Martens, 2010).

    [n, m] of any floating dtype.

    Raises:
        ValueError: the tensor is not a matrix.

    >>> (weft.nn.init.sparse_(weft.empty(4, 2), 0.5) == 0).sum(0)
    tensor([2, 2])
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with weft.no_grad():
        _draw(tensor, "normal_", 0, std, generator)
        empty = weft.zeros(rows, cols, dtype=weft.bool, device=tensor.device)
        source = {} if generator is None else {"generator": generator}
        for col in range(cols):
            empty[weft.randperm(rows, device=tensor.device, **source)[:zeros], col] = True
        return tensor.masked_fill_(empty, 0.0)


def _draw(tensor: Tensor, how: str, first: float, second: float, generator: Any) -> Tensor:
    with weft.no_grad():
        fill: Callable[..., Tensor] = getattr(tensor, how)
        if generator is None:
            return fill(first, second)
        return fill(first, second, generator=generator)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return how many inputs an output of this weight has, and how many outputs an input."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    out, channels, *spatial = tensor.shape
    field = math.prod(spatial)
    return channels * field, out * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Return the one of the two fans that `mode` names."""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _deprecated(new: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the function under the name it had before PyTorch marked in-place functions."""
    old_name, new_name = new.__name__[:-1], new.__name__

    def old(*args: Any, **kwargs: Any) -> Tensor:
        warn(
            f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`.",
            FutureWarning,
        )
        return new(*args, **kwargs)

    old.__name__ = old.__qualname__ = old_name
    old.__doc__ = _doc_after(f"The older name of `{new_name}`.", new)
    return old


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)


_checks.install(__name__)


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    """`uniform_`, by the name that packages take."""
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    """`normal_`, by the name that packages take."""
    return normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> Tensor:
    """`trunc_normal_`, by the name that packages take."""
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    """`constant_`, by the name that packages take."""
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    """`zeros_`, by the name that packages take."""
    return zeros_(tensor)
