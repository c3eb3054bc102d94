"""The same tensor in weft and in PyTorch."""

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")
DTYPES = ["bool", "int64", "float32", "float64"]


def pair(values, dtype):
    return tuple(lib.tensor(values, dtype=getattr(lib, dtype)) for lib in (weft, torch))


def same(a, b):
    """Whether a weft tensor and a PyTorch tensor agree in everything that shows."""
    return (
        tuple(a.shape) == tuple(b.shape)
        and str(a.dtype) == str(b.dtype)
        and np.array_equal(a.numpy(), b.numpy(), equal_nan=True)
    )
