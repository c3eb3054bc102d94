"""The three transforms that the others are made of: ops of the core (src/ops/fft.cpp)."""

from __future__ import annotations

import weft
from weft import _C, Tensor

NONE, ROOT, BY_N = 0, 1, 2  #: the factor of a transform over n numbers: 1, 1/√n, 1/n

c2c = _C.ops._fft_c2c
r2c = _C.ops._fft_r2c
c2r = _C.ops._fft_c2r


def _padded(x: Tensor, dim: int, size: int) -> Tensor:
    """x with zeros behind, up to a larger `size` along `dim`."""
    pad = [0, 0] * (x.dim() - 1 - dim % x.dim()) + [0, size - x.shape[dim]]
    return weft.nn.functional.pad(x, pad)
