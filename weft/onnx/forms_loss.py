"""Losses."""

from __future__ import annotations

from typing import Any

import weft
from weft.onnx.builder import Builder
from weft.onnx.graph import Value
from weft.onnx.records import form, needs


def reduced(g: Builder, loss: Value, reduction: str) -> Value:
    """The mean, the sum, or all of it."""
    if reduction == "none":
        return g.op("Identity", loss)
    return g.reduce("ReduceMean" if reduction == "mean" else "ReduceSum", loss, None, False)


def _weighted(g: Builder, loss: Value, weight: Value | None, reduction: str) -> Value:
    if weight is None:
        return reduced(g, loss, reduction)
    weight = g.cast(weight, g.result.dtype)
    loss = g.cast(loss, g.result.dtype) * weight
    if reduction == "mean":
        return g.op("ReduceSum", loss, keepdims=0) / g.op("ReduceSum", weight, keepdims=0)
    return reduced(g, loss, reduction)


def _gap(g: Builder, input: Value, target: Value) -> Value:
    into = g.result.dtype
    return g.cast(input, into) - g.cast(target, into)


@form("mse_loss", "mse_loss.weighted")
def _mse(g: Builder, input: Value, target: Value, reduction: str, weight: Any = None) -> Value:
    gap = _gap(g, input, target)
    return _weighted(g, gap * gap, weight, reduction)


@form("l1_loss")
def _l1(g: Builder, input: Value, target: Value, reduction: str, weight: Any = None) -> Value:
    return _weighted(g, g.op("Abs", _gap(g, input, target)), weight, reduction)


@form("smooth_l1_loss")
def _smooth(g: Builder, input: Value, target: Value, reduction: str, beta: Any) -> Value:
    gap = g.op("Abs", _gap(g, input, target))
    beta = needs(beta, "beta")
    if beta == 0:
        return reduced(g, gap, reduction)
    return reduced(
        g, g.op("Where", gap < beta, gap * gap * (0.5 / beta), gap - 0.5 * beta), reduction
    )


@form("huber_loss", "huber_loss.weighted")
def _huber(
    g: Builder, input: Value, target: Value, reduction: str, delta: Any, weight: Any = None
) -> Value:
    gap = g.op("Abs", _gap(g, input, target))
    delta = needs(delta, "delta")
    loss = g.op("Where", gap <= delta, gap * gap * 0.5, (gap - 0.5 * delta) * delta)
    return reduced(g, loss if weight is None else loss * weight, reduction)


def _by_log(g: Builder, x: Value, factor: Value) -> Value:
    """factor * log(x), and 0 where the factor is 0."""
    return g.op("Where", g.op("Equal", factor, 0), 0, factor * g.op("Log", x))


@form("kl_div")
def _kl_div(g: Builder, input: Value, target: Value, reduction: str, log_target: Any) -> Value:
    if needs(log_target, "log_target"):
        loss = g.op("Exp", target) * (target - input)
    else:
        loss = _by_log(g, target, target) - target * input
    if reduction == "batchmean":
        total = g.op("ReduceSum", loss, keepdims=0)
        return total / g.scalar(g.size(input, 0) if input.rank else 1, input.dtype)
    return reduced(g, loss, reduction)


@form("binary_cross_entropy")
def _bce(g: Builder, input: Value, target: Value, weight: Any, reduction: str) -> Value:
    yes = g.op("Max", g.op("Log", input), -100.0)
    no = g.op("Max", g.op("Log", 1 - input), -100.0)
    loss = -(target * yes + (1 - target) * no)
    return reduced(g, loss if weight is None else loss * weight, reduction)


@form("binary_cross_entropy_with_logits")
def _bce_logits(
    g: Builder, input: Value, target: Value, weight: Any, reduction: str, pos_weight: Any
) -> Value:
    # log(1 + e^-x), without overflow
    low = g.op("Log", g.op("Exp", -g.op("Abs", input)) + 1) + g.op("Max", -input, 0)
    factor = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    loss = (1 - target) * input + (low if pos_weight is None else low * factor)
    return reduced(g, loss if weight is None else loss * weight, reduction)


@form("_multi_margin_loss")
def _multi_margin(g: Builder, input: Value, target: Value, p: Any, margin: Any) -> Value:
    p, margin = needs(p, "p"), needs(margin, "margin")
    own = g.op("GatherElements", input, g.unsqueeze(target, [1]), axis=1)
    hinge = input - own + margin
    is_own = g.op("Equal", g.arange(g.size(input, 1)), g.unsqueeze(target, [1]))
    hinge = g.op("Where", is_own, 0, g.op("Where", hinge > 0, hinge, 0))  # NaN counts as 0
    hinge = hinge * hinge if p == 2 else hinge
    total = g.op("ReduceSum", hinge, g.ints([1]), keepdims=0)
    return total / g.scalar(g.size(input, 1), input.dtype)


def _nll(
    g: Builder, logs: Value, target: Value, weight: Any, reduction: str, ignore_index: Any
) -> Value:
    """Of log-probabilities [n, classes, ...], or [classes] alone."""
    ignore = needs(ignore_index, "ignore_index")
    target = g.cast(target, weft.int64)
    alone = logs.rank == 1
    if alone:
        logs, target = g.unsqueeze(logs, [0]), g.reshape(target, [1])
    skipped = g.op("Equal", target, ignore)
    at = g.op("Where", skipped, 0, target)
    picked = g.op("GatherElements", logs, g.op("Unsqueeze", at, g.ints([1])), axis=1)
    loss = -g.op("Squeeze", picked, g.ints([1]))
    counts: Value = g.cast(g.op("Not", skipped), logs.dtype)
    if weight is not None:
        counts = counts * g.op("Gather", weight, at, axis=0)
    loss = g.op("Where", skipped, 0, loss * counts)
    if reduction == "none":
        return g.op("Squeeze", loss, g.ints([0])) if alone else loss
    total = g.op("ReduceSum", loss, keepdims=0)
    return total if reduction == "sum" else total / g.op("ReduceSum", counts, keepdims=0)


@form("nll_loss")
def _nll_loss(
    g: Builder, input: Value, target: Value, weight: Any, reduction: str, ignore_index: Any
) -> Value:
    return _nll(g, input, target, weight, reduction, ignore_index)


@form("cross_entropy")
def _cross_entropy(
    g: Builder,
    input: Value,
    target: Value,
    weight: Any,
    ignore_index: Any,
    reduction: str,
    label_smoothing: Any,
) -> Value:
    axis = 0 if input.rank == 1 else 1
    logs = g.op("LogSoftmax", input, axis=axis)
    smoothing = needs(label_smoothing, "label_smoothing")
    if target.dtype.is_floating_point:
        return _by_probabilities(g, logs, target, weight, reduction, smoothing, axis)
    plain = _nll(g, logs, target, weight, reduction, ignore_index)
    if not smoothing:
        return plain
    return _smoothed(g, plain, logs, target, weight, reduction, ignore_index, smoothing, axis)


def _by_probabilities(
    g: Builder, logs: Value, target: Value, weight: Any, reduction: str, smoothing: float, axis: int
) -> Value:
    classes = g.fixed(logs, axis, "a number of classes")
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    parts = logs * target
    if weight is not None:
        parts = parts * g.reshape(weight, [-1] + [1] * (logs.rank - axis - 1))
    loss = -g.op("ReduceSum", parts, g.ints([axis]), keepdims=0)
    if reduction == "mean":
        total = g.op("ReduceSum", loss, keepdims=0)
        count = g.numel(logs)
        return total / g.scalar(count // classes, logs.dtype)
    return reduced(g, loss, reduction)


def _smoothed(
    g: Builder,
    plain: Value,
    logs: Value,
    target: Value,
    weight: Any,
    reduction: str,
    ignore: Any,
    smoothing: float,
    axis: int,
) -> Value:
    classes = g.fixed(logs, axis, "a number of classes")
    skipped = g.op("Equal", g.cast(target, weft.int64), needs(ignore, "ignore_index"))
    parts = logs
    if weight is not None:
        parts = parts * g.reshape(weight, [-1] + [1] * (logs.rank - axis - 1))
    spread = g.op("Where", skipped, 0, -g.op("ReduceSum", parts, g.ints([axis]), keepdims=0))
    if reduction == "none":
        total: Value = spread
    else:
        total = g.op("ReduceSum", spread, keepdims=0)
    if reduction == "mean":
        count: Value = g.cast(g.op("Not", skipped), logs.dtype)
        if weight is not None:
            at = g.op("Where", skipped, 0, g.cast(target, weft.int64))
            count = count * g.op("Gather", weight, at, axis=0)
        total = total / g.op("ReduceSum", count, keepdims=0)
    return plain * (1 - smoothing) + total * (smoothing / classes)
