"""Operators that draw random numbers: of weft's generator, whatever seed the file has."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import operator, single


@operator("RandomNormal")
def random_normal(
    *, shape: list[int], dtype: weft.dtype = weft.float32, mean: float = 0.0, scale: float = 1.0,
    seed: float = 0.0,
) -> Tensor:  # fmt: skip
    """Draws of a normal distribution."""
    return weft.randn(shape, dtype=dtype) * scale + mean


@operator("RandomNormalLike")
def random_normal_like(
    input: Tensor, *, dtype: weft.dtype | None = None, mean: float = 0.0, scale: float = 1.0,
    seed: float = 0.0,
) -> Tensor:  # fmt: skip
    """Draws of a normal distribution, of a tensor's shape."""
    return weft.randn_like(input, dtype=dtype or input.dtype) * scale + mean


@operator("RandomUniform")
def random_uniform(
    *, shape: list[int], dtype: weft.dtype = weft.float32, low: float = 0.0, high: float = 1.0,
    seed: float = 0.0,
) -> Tensor:  # fmt: skip
    """Draws between two bounds."""
    return weft.rand(shape, dtype=dtype) * (high - low) + low


@operator("RandomUniformLike")
def random_uniform_like(
    input: Tensor, *, dtype: weft.dtype | None = None, low: float = 0.0, high: float = 1.0,
    seed: float = 0.0,
) -> Tensor:  # fmt: skip
    """Draws between two bounds, of a tensor's shape."""
    return weft.rand_like(input, dtype=dtype or input.dtype) * (high - low) + low


@operator("Bernoulli")
def bernoulli(input: Tensor, *, dtype: weft.dtype | None = None, seed: float = 0.0) -> Tensor:
    """Ones with given probabilities."""
    return weft.bernoulli(input).to(dtype or input.dtype)


@operator("Multinomial")
def multinomial(
    input: Tensor, *, dtype: weft.dtype = weft.int32, sample_size: int = 1, seed: float = 0.0
) -> Tensor:
    """Classes, drawn by the logarithms of their weights."""
    return weft.multinomial(weft.softmax(input, -1), sample_size, True).to(dtype)


@operator("Dropout", numbers=["ratio", "training_mode"])
def dropout(
    data: Tensor, ratio: Any = None, training_mode: Any = False, *, seed: int = 0, outputs: int
) -> Any:
    """Zeros at random places, if it is said to train; else nothing."""
    share = 0.5 if ratio is None else single(ratio)
    if not single(training_mode) or share == 0:
        return (data, weft.ones_like(data, dtype=weft.bool)) if outputs > 1 else data
    mask = weft.rand_like(data) >= share
    kept = weft.where(mask, data / (1 - share), weft.zeros_like(data))
    return (kept, mask) if outputs > 1 else kept
