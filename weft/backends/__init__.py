"""Libraries that PyTorch computes with, and the switches that programs set: `weft.backends`.

weft has none of them. A program may ask, and set what only says how they should work.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from weft.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]

#: How products on a GPU or by a library may round: there is none whose rounding it would say.
fp32_precision = "none"


@contextmanager
def __allow_nonbracketed_mutation() -> Generator[None]:
    """A scope in which switches may be set: they may be everywhere."""
    yield
