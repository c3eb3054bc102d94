"""What `torch` itself has of nn.functional, with the operators' own arguments.

Reductions are 0 (none), 1 (mean) and 2 (sum), other modes the numbers of PyTorch's operators. A
reduction that is not given is 0: PyTorch's schema says 1, but its Python functions do not reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.base import checks as _checks
from weft.nn import functional as F

__all__ = [
    "affine_grid_generator", "alpha_dropout_", "conv_tbc", "cosine_embedding_loss", "ctc_loss",
    "dropout_", "embedding_bag", "embedding_renorm_", "feature_alpha_dropout_", "feature_dropout_",
    "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "hinge_embedding_loss",
    "margin_ranking_loss", "max_pool1d_with_indices", "native_batch_norm",
    "native_channel_shuffle", "native_dropout", "native_group_norm", "poisson_nll_loss",
    "triplet_margin_loss",
]  # fmt: skip


def _named(who: str, what: str, number: int, names: Sequence[str]) -> str:
    if not 0 <= number < len(names):
        raise ValueError(
            f"[{who}] expected {what} of 0 to {len(names) - 1} ({', '.join(names)}), got {number}"
        )
    return names[number]


def _reduction(who: str, number: int) -> str:
    return _named(who, "a reduction", number, ("none", "mean", "sum"))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.cosine_embedding_loss` of (N, D) or (D), with a number for the reduction.

    >>> weft.cosine_embedding_loss(weft.ones(1, 2), weft.ones(1, 2), weft.tensor([-1.0]), 0.5, 1)
    tensor(0.5000)
    """
    how = _reduction("cosine_embedding_loss", reduction)
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=how)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.hinge_embedding_loss` of any shape, with a number for the reduction.

    >>> weft.hinge_embedding_loss(weft.tensor([0.25, 0.5]), weft.tensor([1.0, -1.0]), 1.0, 0)
    tensor([0.2500, 0.5000])
    """
    how = _reduction("hinge_embedding_loss", reduction)
    return F.hinge_embedding_loss(input, target, margin, reduction=how)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.margin_ranking_loss` of any shape, with a number for the reduction.

    >>> weft.margin_ranking_loss(weft.tensor([1.0]), weft.tensor([3.0]), weft.tensor([1.0]))
    tensor([2.])
    """
    how = _reduction("margin_ranking_loss", reduction)
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=how)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """`nn.functional.poisson_nll_loss` of any shape, with a number for the reduction.

    >>> weft.poisson_nll_loss(weft.zeros(2), weft.ones(2), True, False, 1e-8, 2)
    tensor(2.)
    """
    how = _reduction("poisson_nll_loss", reduction)
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=how)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """`nn.functional.triplet_margin_loss` of (N, D) or (D), with a number for the reduction.

    >>> weft.triplet_margin_loss(weft.zeros(1, 2), weft.zeros(1, 2), weft.ones(1, 2), 3.0, 1.0)
    tensor([1.0000])
    """
    how = _reduction("triplet_margin_loss", reduction)
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=how)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """`nn.functional.ctc_loss` of shape (T, N, C) or (T, C), with a number for the reduction.

    >>> logs = weft.full((2, 1, 2), 0.5).log()
    >>> weft.ctc_loss(logs, weft.tensor([[1]]), (2,), (1,))  # three of four paths
    tensor([0.2877])
    """
    how = _reduction("ctc_loss", reduction)
    lengths = (input_lengths, target_lengths)
    return F.ctc_loss(log_probs, targets, *lengths, blank, how, zero_infinity)


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`nn.functional.embedding_bag` of a vector of indices, with `mode` 0 (sum), 1 (mean), 2 (max).

    Returns: the bags (bags, features), and int64 tensors: the bag of each index, how many indices
    each bag has that count, and an empty one (in PyTorch which index gave each maximum, which
    gradients here need not be told).

    >>> table, bags = weft.tensor([[1.0], [2.0], [4.0]]), weft.tensor([0, 1])
    >>> out, of, sizes, _ = weft.embedding_bag(table, weft.tensor([2, 0, 1]), bags)
    >>> out.flatten(), of, sizes
    (tensor([4., 3.]), tensor([0, 1, 1]), tensor([1, 2]))
    """
    how = _named("embedding_bag", "a mode", mode, ("sum", "mean", "max"))
    out = F.embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq, mode=how, sparse=sparse,
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )  # fmt: skip
    starts = offsets[:-1] if include_last_offset else offsets
    of = weft.searchsorted(starts, weft.arange(indices.numel()), right=True) - 1
    counts = weft.ones_like(of) if padding_idx is None else (indices != padding_idx).long()
    sizes = weft.zeros(len(starts), dtype=weft.int64).index_add(0, of, counts)
    return out, of, sizes, weft.empty(0, dtype=weft.int64)


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Shorten the rows of shape (rows, features) that `indices` names to `max_norm`, in place.

    >>> weft.embedding_renorm_(weft.tensor([[3.0, 4.0], [6.0, 8.0]]), weft.tensor([1]), 5.0, 2.0)
    tensor([[3., 4.],
            [3., 4.]])
    """
    with weft.no_grad():
        F.embedding(indices, input, max_norm=max_norm, norm_type=norm_type)
    return input


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over time of (time, batch, channels) by `weight` (width, channels, outputs).

    Raises: RuntimeError for shapes that do not fit.

    >>> weft.conv_tbc(weft.ones(4, 1, 2), weft.ones(3, 2, 1), weft.zeros(1)).flatten()
    tensor([6., 6.])
    """
    if input.dim() != 3 or weight.dim() != 3 or bias.dim() != 1:
        raise RuntimeError(
            "[conv_tbc] expected input, weight and bias of 3, 3 and 1 dims, got "
            f"{input.dim()}, {weight.dim()} and {bias.dim()}: Input must have 3 dims: time, batch, "
            "in_channel"
        )
    rows = F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return rows.permute(2, 0, 1)


def _sampled(
    who: str, input: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool
) -> Tensor:
    how = _named(who, "an interpolation mode", mode, ("bilinear", "nearest", "bicubic"))
    beyond = _named(who, "a padding mode", padding, ("zeros", "border", "reflection"))
    return F.grid_sample(input, grid, how, beyond, align_corners)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`nn.functional.grid_sample` of (N, C, H, W) or (N, C, D, H, W), with numbers for the modes.

    `interpolation_mode` is 0 (bilinear), 1 (nearest) or 2 (bicubic), `padding_mode` 0 (zeros), 1
    (border) or 2 (reflection).

    >>> image, grid = weft.tensor([[[[1.0, 3.0]]]]), weft.zeros(1, 1, 1, 2)
    >>> weft.grid_sampler(image, grid, 0, 0, False)
    tensor([[[[2.]]]])
    """
    return _sampled("grid_sampler", input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of images (N, C, H, W).

    >>> image, grid = weft.tensor([[[[1.0, 3.0]]]]), weft.ones(1, 1, 1, 2)
    >>> weft.grid_sampler_2d(image, grid, 1, 1, False)
    tensor([[[[3.]]]])
    """
    return _sampled("grid_sampler_2d", input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of volumes (N, C, D, H, W).

    >>> volume, grid = weft.ones(1, 1, 2, 2, 2), weft.zeros(1, 1, 1, 1, 3)
    >>> weft.grid_sampler_3d(volume, grid, 0, 0, False).item()
    1.0
    """
    return _sampled("grid_sampler_3d", input, grid, interpolation_mode, padding_mode, align_corners)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`nn.functional.affine_grid` of (N, 2, 3) or (N, 3, 4).

    >>> weft.affine_grid_generator(weft.eye(2, 3)[None], (1, 1, 1, 1), False)
    tensor([[[[0., 0.]]]])
    """
    return F.affine_grid(theta, list(size), align_corners)


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`nn.functional.max_pool1d` of (N, C, L) or (C, L), and where the maxima are.

    >>> weft.max_pool1d_with_indices(weft.tensor([[1.0, 4.0, 2.0, 0.0]]), 2)
    (tensor([[4., 2.]]), tensor([[1, 2]]))
    """
    given = (kernel_size, stride, padding, dilation, ceil_mode)
    found: tuple[Tensor, Tensor] = F.max_pool1d_with_indices(input, *given)
    return found


# ---- norms with their statistics -----------------------------------------------------------------


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`nn.functional.group_norm` of N x C x HxW elements, and each group's mean, 1 / deviation.

    Raises: RuntimeError where the input has another number of elements.

    >>> x = weft.tensor([[[1.0, 3.0]]])
    >>> out, mean, rstd = weft.native_group_norm(x, None, None, 1, 1, 2, 1, 0.0)
    >>> out, mean, rstd
    (tensor([[[-1.,  1.]]]), tensor([[2.]]), tensor([[1.]]))
    """
    if input.numel() != N * C * HxW:
        raise RuntimeError(
            f"[native_group_norm] expected {N} * {C} * {HxW} elements, got shape "
            f"{list(input.shape)}: Expected input shape to be compatible with N, C and HxW"
        )
    out = F.group_norm(input.reshape(N, C, HxW), group, weight, bias, eps).view(input.shape)
    variance, mean = weft.var_mean(input.detach().reshape(N, group, -1), -1, correction=0)
    return out, mean, (variance + eps).rsqrt()


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`nn.functional.batch_norm` of (N, C, ...), and each channel's mean and 1 / deviation.

    Without `training` the statistics are empty, as in PyTorch on the CPU.

    >>> x = weft.tensor([[1.0], [3.0]])
    >>> out, mean, rstd = weft.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-9)
    >>> out.flatten(), mean, rstd
    (tensor([-1.,  1.]), tensor([2.]), tensor([1.]))
    """
    running = (running_mean, running_var)
    out = F.batch_norm(input, *running, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    rows = input.detach().transpose(0, 1).flatten(1)
    variance, mean = weft.var_mean(rows, 1, correction=0)
    return out, mean, (variance + eps).rsqrt()


# ---- what is drawn, and what is written in place -------------------------------------------------


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """`nn.functional.dropout` of any shape, and a mask of what was kept.

    >>> weft.native_dropout(weft.ones(2), 0.5, False)
    (tensor([1., 1.]), tensor([True, True]))
    """
    if train is False or p == 0:
        return input.clone(), weft.ones_like(input, dtype=weft.bool)
    kept = weft.empty_like(input).bernoulli_(1 - p).bool()
    return input * kept * (0.0 if p == 1 else 1 / (1 - p)), kept


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`nn.functional.channel_shuffle` of (N, C, ...).

    >>> weft.native_channel_shuffle(weft.arange(4.0).view(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    return F.channel_shuffle(input, groups)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout` of any shape, in place.

    >>> weft.dropout_(weft.ones(2), 1.0, True)
    tensor([0., 0.])
    """
    return F.dropout(input, p, train, inplace=True)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout` of any shape, in place.

    >>> weft.alpha_dropout_(weft.ones(2), 0.5, False)
    tensor([1., 1.])
    """
    return F.alpha_dropout(input, p, train, inplace=True)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels of (N, C, ...), in place.

    >>> weft.feature_dropout_(weft.ones(1, 2, 1), 1.0, True).flatten()
    tensor([0., 0.])
    """
    return input.copy_(weft.feature_dropout(input, p, train))


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout` of (N, C, ...), in place.

    >>> weft.feature_alpha_dropout_(weft.ones(1, 2, 1), 0.5, False).flatten()
    tensor([1., 1.])
    """
    return F.feature_alpha_dropout(input, p, train, inplace=True)


_checks.install(__name__)
