"""Normalisation: by channels, of `(batch, channels, *)`, and by length.

>>> import weft
>>> import weft.nn.functional as F
>>> F.batch_norm(weft.tensor([[1.0], [3.0]]), None, None, training=True, eps=1e-12).tolist()
[[-1.0], [1.0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import _C, Tensor

__all__ = [
    "batch_norm", "instance_norm", "group_norm", "rms_norm", "local_response_norm", "normalize",
]  # fmt: skip


def _expect_more_than_one(size: Sequence[int], count: int, unit: str) -> None:
    if count == 1:
        raise ValueError(
            f"Expected more than 1 {unit} when training, got input size torch.Size({list(size)})"
        )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel over the batch (Ioffe and Szegedy, 2015).

    Args:
        input: `(batch, channels, *)`.
        running_mean, running_var: `(channels)`; used in evaluation, moved in training.
        weight, bias: `(channels)`.
        training: whether the input's own statistics are used.
        momentum: how far the running statistics move.
        eps: added to the variance.

    Raises:
        ValueError: one value per channel in training.
        RuntimeError: shapes that do not fit.

    >>> x = weft.tensor([[1.], [3.]])
    >>> weft.nn.functional.batch_norm(x, None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training:
        count = input.shape[0]
        for n in input.shape[2:]:
            count *= n
        _expect_more_than_one(input.shape, count, "value per channel")
    if training and eps <= 0:
        raise ValueError(f"[batch_norm] expected eps must be positive during training, got {eps}")
    return _C.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
    )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each example (Ulyanov et al., 2016). Arguments as `batch_norm`.

    Raises:
        ValueError: one element per channel with the input's own statistics.
        RuntimeError: shapes that do not fit.

    >>> weft.nn.functional.instance_norm(weft.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if (running_mean is None) != (running_var is None):
        raise ValueError(
            "[instance_norm] expected both statistics or none, got one (running_mean and "
            "running_var must either both be None or neither be None)"
        )
    if use_input_stats:
        count = 1
        for n in input.shape[2:]:
            count *= n
        _expect_more_than_one(input.shape, count, "spatial element")
    return _C.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False
    )


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise groups of channels of each example (Wu and He, 2018).

    Raises:
        RuntimeError: fewer than two dimensions, or channels that `num_groups` does not divide.
        ValueError: one value per group.

    >>> weft.nn.functional.group_norm(weft.tensor([[1.0, 3.0]]), 1)
    tensor([[-1.0000,  1.0000]])
    """
    if input.dim() < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
        )
    count = input.shape[0] * input.shape[1] // max(num_groups, 1)
    for n in input.shape[2:]:
        count *= n
    _expect_more_than_one(input.shape, count, "value per channel")
    return _C.group_norm(input, num_groups, weight, bias, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return `x / sqrt(mean(x²) + eps) * weight` over the last dimensions.

    Zhang and Sennrich, 2019. `eps` None is the dtype's.

    Raises:
        RuntimeError: an input that does not end in `normalized_shape`.

    >>> weft.nn.functional.rms_norm(weft.tensor([3.0, 4.0]), [2])
    tensor([0.8485, 1.1314])
    """
    return _C.rms_norm(input, normalized_shape, weight, eps)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Return `x / (k + alpha * mean of x² over size channels) ** beta` (Krizhevsky et al., 2012).

    Raises:
        ValueError: an input of fewer than 3 dimensions.

    >>> weft.nn.functional.local_response_norm(weft.ones(1, 2, 1), 2, alpha=2).flatten()
    tensor([0.5946, 0.4387])
    """
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)"
        )
    if input.numel() == 0:
        return input
    squares = (input * input).reshape(input.shape[0], 1, input.shape[1], -1)
    padded = _C.ops.pad(squares, (0, 0, size // 2, (size - 1) // 2))
    mean = _C.ops.avg_pool2d(padded, (size, 1), 1).reshape(input.shape)
    return input / mean.mul(alpha).add(k).pow(beta)


def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Return the input divided by its p-norm along `dim`, no norm counting as less than `eps`.

    Of the input's shape.

    >>> import weft
    >>> weft.nn.functional.normalize(weft.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / norm if out is None else weft.div(input, norm, out=out)
