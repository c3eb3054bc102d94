"""Operators over dimensions: sums, extrema, softmax, running sums, places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import largest, listed, operator, single, smallest


def _dims(data: Tensor, axes: Sequence[int] | None, noop: int) -> list[int]:
    """The dimensions that are reduced: all of them unless it says which."""
    if axes is None or axes == []:
        return [] if noop else list(range(data.dim()))
    return [a % data.dim() for a in listed(axes)]


def _summed(data: Tensor, dims: list[int], keep: bool) -> Tensor:
    return weft.sum(data, dims, keep, dtype=data.dtype) if dims else data


@operator("ReduceSum", numbers=["axes"])
def reduce_sum(
    data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """Sums."""
    return _summed(data, _dims(data, axes, noop_with_empty_axes), bool(keepdims))


@operator("ReduceMean", numbers=["axes"])
def reduce_mean(
    data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """Means; of integers towards zero."""
    dims = _dims(data, axes, noop_with_empty_axes)
    if not dims:
        return data
    if data.is_floating_point():
        return weft.mean(data, dims, bool(keepdims))
    return weft.mean(data.to(weft.float64), dims, bool(keepdims)).to(data.dtype)


@operator("ReduceSumSquare", numbers=["axes"])
def reduce_sum_square(
    data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """Sums of squares."""
    return _summed(data * data, _dims(data, axes, noop_with_empty_axes), bool(keepdims))


@operator("ReduceL1", numbers=["axes"])
def reduce_l1(
    data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """Sums of magnitudes."""
    return _summed(weft.abs(data), _dims(data, axes, noop_with_empty_axes), bool(keepdims))


@operator("ReduceL2", numbers=["axes"])
def reduce_l2(
    data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """Euclidean norms."""
    dims = _dims(data, axes, noop_with_empty_axes)
    return weft.sqrt(_summed(data * data, dims, bool(keepdims))).to(data.dtype)


@operator("ReduceLogSum", numbers=["axes"])
def reduce_log_sum(
    data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """Logarithms of sums."""
    dims = _dims(data, axes, noop_with_empty_axes)
    return weft.log(_summed(data, dims, bool(keepdims))).to(data.dtype)


@operator("ReduceLogSumExp", numbers=["axes"])
def reduce_log_sum_exp(
    data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """Logarithms of sums of exponentials."""
    dims = _dims(data, axes, noop_with_empty_axes)
    return weft.logsumexp(data, dims, bool(keepdims)) if dims else data


@operator("ReduceProd", numbers=["axes"])
def reduce_prod(
    data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """Products."""
    out = data
    for d in sorted(_dims(data, axes, noop_with_empty_axes), reverse=True):
        out = weft.prod(out, d, bool(keepdims), dtype=data.dtype)
    return out


def _extreme(
    rule: Callable[..., Tensor], data: Tensor, dims: list[int], keep: bool, worst: float
) -> Tensor:
    if not dims:
        return data
    if data.numel():
        if data.dtype == weft.bool:
            return rule(data.to(weft.uint8), dims, keep).to(weft.bool)
        return rule(data, dims, keep)
    if data.dtype == weft.bool:
        worst = worst > 0
    elif not data.is_floating_point():
        worst = smallest(data.dtype) if worst < 0 else largest(data.dtype)
    return weft.full_like(weft.sum(data, dims, keep), worst, dtype=data.dtype)


@operator("ReduceMax", numbers=["axes"])
def reduce_max(
    data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """Largest elements."""
    dims = _dims(data, axes, noop_with_empty_axes)
    return _extreme(weft.amax, data, dims, bool(keepdims), -float("inf"))


@operator("ReduceMin", numbers=["axes"])
def reduce_min(
    data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """Smallest elements."""
    dims = _dims(data, axes, noop_with_empty_axes)
    return _extreme(weft.amin, data, dims, bool(keepdims), float("inf"))


@operator("ArgMax")
def arg_max(
    data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    """Places of the largest elements."""
    if not select_last_index:
        return weft.argmax(data, axis, bool(keepdims))
    return data.shape[axis] - 1 - weft.argmax(weft.flip(data, [axis]), axis, bool(keepdims))


@operator("ArgMin")
def arg_min(
    data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    """Places of the smallest elements."""
    if not select_last_index:
        return weft.argmin(data, axis, bool(keepdims))
    return data.shape[axis] - 1 - weft.argmin(weft.flip(data, [axis]), axis, bool(keepdims))


def _along(rule: Callable[..., Tensor], x: Tensor, axis: int | None, version: int) -> Tensor:
    """A rule along a dimension; before version 13 along all from one on."""
    if version >= 13:
        return rule(x, -1 if axis is None else axis)
    axis = 1 if axis is None else axis
    return rule(x.flatten(axis), -1).reshape(x.shape)


@operator("Softmax")
def softmax(input: Tensor, *, axis: int | None = None, version: int) -> Tensor:
    """Shares that add up to one."""
    return _along(weft.softmax, input, axis, version)


@operator("LogSoftmax")
def log_softmax(input: Tensor, *, axis: int | None = None, version: int) -> Tensor:
    """Logarithms of softmax."""
    return _along(weft.log_softmax, input, axis, version)


@operator("Hardmax")
def hardmax(input: Tensor, *, axis: int | None = None, version: int) -> Tensor:
    """One at the first of the largest elements."""

    def rule(x: Tensor, dim: int) -> Tensor:
        place = weft.argmax(x, dim, True)
        return weft.zeros_like(x).scatter(dim, place, 1.0)

    return _along(rule, input, axis, version)


def _running(rule: Callable[..., Tensor], x: Tensor, axis: Any, first: float, exclusive: int,
             reverse: int) -> Tensor:  # fmt: skip
    """A running sum or product."""
    dim = single(axis)
    if reverse:
        x = weft.flip(x, [dim])
    out = rule(x, dim, dtype=x.dtype)
    if exclusive:
        n = x.shape[dim]
        start = weft.full_like(out.narrow(dim, 0, min(n, 1)), first)
        out = weft.cat([start, out.narrow(dim, 0, max(n - 1, 0))], dim)
    return weft.flip(out, [dim]) if reverse else out


@operator("CumSum", numbers=["axis"])
def cumsum(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Running sums."""
    return _running(weft.cumsum, x, axis, 0, exclusive, reverse)


@operator("CumProd", numbers=["axis"])
def cumprod(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Running products."""
    return _running(weft.cumprod, x, axis, 1, exclusive, reverse)


@operator("TopK", numbers=["K"])
def top_k(
    X: Tensor, K: Any = None, *, axis: int = -1, k: int | None = None, largest: int = 1,
    sorted: int = 1, outputs: int,
) -> Any:  # fmt: skip
    """The largest elements and their places; of equal ones those that come first."""
    count = k if k is not None else single(K)
    found = weft.sort(X, dim=axis, descending=bool(largest), stable=True)
    values, places = (t.narrow(axis, 0, count) for t in found)
    return (values, places) if outputs > 1 else values


@operator("LpNormalization")
def lp_normalization(input: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divided by its norm, zero where that is."""
    size = (
        weft.sum(weft.abs(input), axis, True) if p == 1 else (input * input).sum(axis, True).sqrt()
    )
    return weft.where(size == 0, weft.zeros_like(input), input / size)


@operator("Det")
def det(X: Tensor) -> Tensor:
    """Determinants."""
    return weft.linalg.det(X)


@operator("Einsum")
def einsum(*inputs: Tensor, equation: str) -> Tensor:
    """Sums of products by an equation."""
    return weft.einsum(equation, *inputs)
