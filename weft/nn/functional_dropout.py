"""Dropout of elements, of channels, and one that keeps mean and variance; `weft.nn.functional`.

All are the identity unless `training`. PyTorch's semantics and, under one seed, its random numbers.
"""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft.base.warn import warn


def _check(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _run(op: Any, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    out = op(input, p, training)
    return input.copy_(out) if inplace and out is not input else out


def _feature_alpha_dropout(input: Tensor, p: float, training: bool) -> Tensor:
    """alpha_dropout with one decision per sample and channel."""
    if p == 0 or not training or not input.numel():
        return input
    if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    if p == 1:
        return input * weft.zeros((), dtype=input.dtype, device=input.device)
    low = 1.7580993408473766  # -(scale * alpha) of selu: what a dropped unit becomes
    shape = [*input.shape[:2], *[1] * (input.dim() - 2)]
    kept = weft.empty(shape, dtype=input.dtype, device=input.device).bernoulli_(1 - p)
    scale = 1 / ((low * low * p + 1) * (1 - p)) ** 0.5
    return input * (kept * scale) + ((kept - 1) * (low * scale) + low * scale * p)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of `(batch, channels, length)` or `(channels, length)`.

    Raises:
        RuntimeError: another number of dimensions.
        ValueError: `p` is outside of 0 to 1.

    >>> weft.nn.functional.dropout1d(weft.ones(1, 2, 3), training=False).shape
    torch.Size([1, 2, 3])
    """
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    batched = input.dim() == 3
    rows = input if batched else input.unsqueeze(0)
    out = _run(_C.feature_dropout, rows, p, training, inplace)
    if inplace:
        return input
    return out if batched else out.squeeze(0)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of `(batch, channels, height, width)` (Tompson et al., 2015).

    The shape stays.

    Raises:
        ValueError: `p` is outside of 0 to 1.

    >>> weft.nn.functional.dropout2d(weft.ones(1, 2, 3, 3), training=False).shape
    torch.Size([1, 2, 3, 3])
    """
    _check(p)
    if input.dim() not in (3, 4):
        warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated and "
            "will result in an error in a future release. To retain the behavior and silence this "
            "warning, please use dropout instead. Note that dropout2d exists to provide "
            "channel-wise dropout on inputs with 2 spatial dimensions, a channel dimension, and an "
            "optional batch dimension (i.e. 3D or 4D inputs)."
        )
    if input.dim() == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead."
        )
    return _run(_C.feature_dropout, input, p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of `(batch, channels, depth, height, width)`, the batch optional.

    The shape stays.

    Raises:
        ValueError: `p` is outside of 0 to 1.

    >>> weft.nn.functional.dropout3d(weft.ones(1, 2, 3, 3, 3), training=False).shape
    torch.Size([1, 2, 3, 3, 3])
    """
    _check(p)
    if input.dim() not in (4, 5):
        warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated and "
            "will result in an error in a future release. To retain the behavior and silence this "
            "warning, please use dropout instead. Note that dropout3d exists to provide "
            "channel-wise dropout on inputs with 3 spatial dimensions, a channel dimension, and an "
            "optional batch dimension (i.e. 4D or 5D inputs)."
        )
    batched = input.dim() == 5
    rows = input if batched else input.unsqueeze(0)
    out = _run(_C.feature_dropout, rows, p, training, inplace)
    if inplace:
        return input
    return out if batched else out.squeeze(0)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean 0 and variance 1 behind `selu` (Klambauer et al., 2017).

    Of the input's shape.

    Raises:
        ValueError: `p` is outside of 0 to 1.

    >>> weft.nn.functional.alpha_dropout(weft.ones(2), training=False)
    tensor([1., 1.])
    """
    _check(p)
    return _run(_C.alpha_dropout, input, p, training, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels.

    [n, c, *], of the input's shape.

    Raises:
        ValueError: `p` is outside of 0 to 1.

    >>> weft.feature_alpha_dropout(weft.ones(1, 2, 1), 0.5, False).flatten()
    tensor([1., 1.])
    """
    _check(p)
    return _run(_feature_alpha_dropout, input, p, training, inplace)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zero each element with probability `p` and scale the rest by 1 / (1 - p).

    Raises:
        ValueError: `p` is outside of 0 to 1.

    >>> weft.nn.functional.dropout(weft.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not inplace:
        return _C.dropout(input, p, training)
    if not training or p == 0:
        return input
    return input.mul_(_C.ops._dropout_noise(input, p)) if p < 1 else input.mul_(0.0)
