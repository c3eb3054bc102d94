"""Tensors from sizes and numbers, and random ones (whose draws are another generator's)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft
from weft.onnx.builder import Builder
from weft.onnx.forms_shape import listed
from weft.onnx.graph import ELEM, Value
from weft.onnx.records import form, needs


@form("eye")
def _eye(g: Builder, n: Any, m: Any, dtype: Any) -> Value:
    rows, columns = g.arange(n), g.arange(n if m is None else m)
    return g.cast(g.op("Equal", g.unsqueeze(rows, [1]), columns), g.result.dtype)


@form("arange")
def _arange(g: Builder, end: Any, dtype: Any) -> Value:
    return _arange_start(g, 0, end, 1, dtype)


@form("arange.start")
def _arange_start(g: Builder, start: Any, end: Any, step: Any, dtype: Any) -> Value:
    into = g.result.dtype
    if not any(isinstance(v, Value) for v in (start, end, step)):
        made = weft.arange(start, end, step, dtype=into)
        return g.op("Identity", g.const(made.numpy(), into))
    if into == weft.int64:
        return g.op("Range", *(g.scalar(v, into) for v in (start, end, step)), sizes=(None,))
    # as eager: counted in double; the numbers are doubles too, or whole ones
    low, high, gap = (g.scalar(v, weft.float64) for v in (start, end, step))
    count = g.cast(g.op("Ceil", (high - low) / gap), weft.int64)
    wide = weft.float64 if into.is_floating_point else weft.int64
    turn = g.cast(g.arange(count), wide)
    return g.cast(turn * g.scalar(step, wide) + g.scalar(start, wide), into)


@form("linspace")
def _linspace(g: Builder, start: Any, end: Any, steps: Any, dtype: Any) -> Value:
    into = g.result.dtype
    if not isinstance(steps, Value) and not isinstance(start, Value) and not isinstance(end, Value):
        return g.op("Identity", g.const(weft.linspace(start, end, steps, dtype=into).numpy(), into))
    # ends and steps may be ints of the run, which would divide as ints
    wide = into if into in (weft.float32, weft.float64) else weft.float64
    low, high, last = (g.scalar(v, wide) for v in (start, end, steps - 1))
    gap = (high - low) / g.op("Max", last, 1.0)
    return g.cast(g.cast(g.arange(steps), wide) * gap + low, into)


@form("logspace")
def _logspace(g: Builder, start: Any, end: Any, steps: Any, base: Any, dtype: Any) -> Value:
    return g.op("Pow", g.scalar(base, g.result.dtype), _linspace(g, start, end, steps, None))


# ---- draws


def _uniform(g: Builder, sizes: Any, low: Any, high: Any, dtype: Any) -> Value:
    low, high = float(needs(low, "low")), float(needs(high, "high"))
    sizes = listed(sizes)
    if sizes and all(isinstance(n, int) for n in sizes):
        return g.op(
            "RandomUniform",
            shape=sizes,
            low=low,
            high=high,
            dtype=dtype,
            sizes=tuple(sizes),
            **_elem(dtype),
        )
    return g.op("RandomUniformLike", g.full(sizes, 0, dtype), low=low, high=high)


def _normal(g: Builder, sizes: Any, dtype: Any) -> Value:
    sizes = listed(sizes)
    if sizes and all(isinstance(n, int) for n in sizes):
        return g.op("RandomNormal", shape=sizes, dtype=dtype, sizes=tuple(sizes), **_elem(dtype))
    return g.op("RandomNormalLike", g.full(sizes, 0, dtype))


def _elem(dtype: Any) -> dict[str, Any]:
    return {"elem": ELEM[dtype]}


@form("rand")
def _rand(g: Builder, size: Any, dtype: Any) -> Value:
    return _uniform(g, size, 0, 1, g.result.dtype)


@form("randn")
def _randn(g: Builder, size: Any, dtype: Any) -> Value:
    return _normal(g, size, g.result.dtype)


def _whole(g: Builder, sizes: Any, low: Any, high: Any) -> Value:
    span = high - low
    draws = _uniform(g, sizes, 0, 1, weft.float32)
    span_number = g.cast(span, weft.float32) if isinstance(span, Value) else float(span)
    number = g.cast(g.op("Floor", draws * span_number),
                    weft.int64)  # fmt: skip
    return g.cast(g.op("Min", number, span - 1) + low, g.result.dtype)


@form("randint")
def _randint(g: Builder, high: Any, size: Any, dtype: Any) -> Value:
    return _whole(g, size, 0, high)


@form("randint.low")
def _randint_low(g: Builder, low: Any, high: Any, size: Any, dtype: Any) -> Value:
    return _whole(g, size, low, high)


@form("randperm")
def _randperm(g: Builder, n: Any, dtype: Any) -> Value:
    draws = _uniform(g, [n], 0, 1, weft.float32)
    out = g.several("TopK", draws, g.ints(n), axis=0, outputs=2)
    return Value(g.model, out[1].name, weft.int64)


@form("rand_like")
def _rand_like(g: Builder, self: Value, dtype: Any) -> Value:
    return _uniform(g, g.size_list(self), 0, 1, g.result.dtype)


@form("randn_like")
def _randn_like(g: Builder, self: Value, dtype: Any) -> Value:
    return _normal(g, g.size_list(self), g.result.dtype)


@form("randint_like")
def _randint_like(g: Builder, self: Value, high: Any, dtype: Any) -> Value:
    return _whole(g, g.size_list(self), 0, high)


@form("randint_like.low")
def _randint_like_low(g: Builder, self: Value, low: Any, high: Any, dtype: Any) -> Value:
    return _whole(g, g.size_list(self), low, high)


@form("normal.tensors", "normal.mean", "normal.std")
def _normal_tensors(g: Builder, mean: Any, std: Any) -> Value:
    into = g.result.dtype
    mean, std = (g.cast(v, into) if isinstance(v, Value) else v for v in (mean, std))
    like = mean + std * 0 if isinstance(mean, Value) else std + mean * 0.0
    draws = g.op("RandomNormalLike", like)
    return draws * std + mean


@form("normal.sized")
def _normal_sized(g: Builder, mean: Any, std: Any, size: Any, dtype: Any) -> Value:
    return _normal(g, size, g.result.dtype) * std + mean


@form("uniform")
def _fill_uniform(g: Builder, self: Value, **bounds: Any) -> Value:
    return _uniform(g, g.size_list(self), bounds["from"], bounds["to"], g.result.dtype)


@form("normal.fill")
def _fill_normal(g: Builder, self: Value, mean: Any, std: Any) -> Value:
    return _normal(g, g.size_list(self), g.result.dtype) * std + mean


@form("random")
def _fill_random(g: Builder, self: Value) -> Value:
    high = (
        2**24
        if self.dtype.is_floating_point
        else 2
        if self.dtype == weft.bool
        else min(weft.iinfo(self.dtype).max, 2**31)
    )
    return _whole(g, g.size_list(self), 0, high)


@form("random.to")
def _fill_random_to(g: Builder, self: Value, to: Any) -> Value:
    return _whole(g, g.size_list(self), 0, to)


@form("random.from")
def _fill_random_from(g: Builder, self: Value, **bounds: Any) -> Value:
    to = bounds["to"] if bounds["to"] is not None else 2**24
    return _whole(g, g.size_list(self), bounds["from"], to)


def _open_uniform(g: Builder, self: Value) -> Value:
    """Draws of which none is 0."""
    return g.op("Max", _uniform(g, g.size_list(self), 0, 1, self.dtype), 1e-7)


@form("exponential")
def _exponential(g: Builder, self: Value, lambd: Any) -> Value:
    return g.op("Log", _open_uniform(g, self)) / -float(needs(lambd, "lambd"))


@form("cauchy")
def _cauchy(g: Builder, self: Value, median: Any, sigma: Any) -> Value:
    return g.op("Tan", (_open_uniform(g, self) - 0.5) * math.pi) * sigma + median


@form("log_normal")
def _log_normal(g: Builder, self: Value, mean: Any, std: Any) -> Value:
    return g.op("Exp", _normal(g, g.size_list(self), self.dtype) * std + mean)


@form("geometric")
def _geometric(g: Builder, self: Value, p: Any) -> Value:
    into = self.dtype if self.dtype.is_floating_point else weft.float32
    draws = g.op("Max", _uniform(g, g.size_list(self), 0, 1, into), 1e-7)
    return g.op("Ceil", g.op("Log", draws) / float(np.log1p(-needs(p, "p"))))


def _decided(g: Builder, chances: Value) -> Value:
    """1 with these chances, else 0: ONNX Runtime has no kernel of Bernoulli's, and makes of its
    definition the opposite."""
    draws = g.op("RandomUniformLike", chances, low=0.0, high=1.0)
    return g.cast(g.op("Less", draws, chances), chances.dtype)


@form("bernoulli")
def _bernoulli(g: Builder, self: Value) -> Value:
    return _decided(g, self)


@form("bernoulli.p")
def _bernoulli_p(g: Builder, self: Value, p: Any) -> Value:
    chances = g.full(g.size_list(self), p, weft.float32)
    return g.cast(_decided(g, chances), self.dtype)


@form("bernoulli.tensor")
def _bernoulli_tensor(g: Builder, self: Value, p: Value) -> Value:
    return _decided(g, g.op("Expand", p, g.shape(self)))


@form("dropout")
def _dropout(g: Builder, input: Value, p: Any, train: Any) -> Value:
    if not needs(train, "train") or p == 0:
        return g.op("Identity", input)
    p = needs(p, "p")
    if p == 1:
        return input * 0
    out: Value = g.op("Dropout", input, g.const(p, weft.float32), g.const(True, weft.bool))
    return out


@form("feature_dropout")
def _feature_dropout(g: Builder, input: Value, p: Any, train: Any) -> Value:
    if not needs(train, "train") or p == 0:
        return g.op("Identity", input)
    sizes = [n if d < 2 else 1 for d, n in enumerate(g.size_list(input))]
    keep = _decided(g, g.full(sizes, 1 - p, input.dtype))
    return input * keep / max(1 - p, 1e-12)


@form("alpha_dropout")
def _alpha_dropout(g: Builder, input: Value, p: Any, train: Any) -> Value:
    if not needs(train, "train") or p == 0:
        return g.op("Identity", input)
    alpha = 1.7580993408473766
    if p == 1:
        return input * 0
    a = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    keep = _decided(g, g.full(g.size_list(input), 1 - p, input.dtype))
    return (input * keep + (keep - 1) * alpha) * a + alpha * a * p


@form("multinomial")
def _multinomial(g: Builder, self: Value, num_samples: Any, replacement: Any) -> Value:
    logs = g.op("Log", self)
    count = needs(num_samples, "num_samples")
    if not needs(replacement, "replacement") and count > 1:
        # the largest of logarithms with Gumbel's noise are draws without replacement
        noise = -g.op(
            "Log", -g.op("Log", g.op("Max", _uniform(g, g.size_list(self), 0, 1, self.dtype), 1e-7))
        )
        out = g.several("TopK", logs + noise, g.ints(count), axis=-1, outputs=2)
        return Value(g.model, out[1].name, weft.int64)
    rows = g.unsqueeze(logs, [0]) if self.rank == 1 else logs
    drawn = g.op("Multinomial", rows, sample_size=count, dtype=weft.int64, elem=ELEM[weft.int64])
    return g.op("Squeeze", drawn, g.ints([0])) if self.rank == 1 else drawn
