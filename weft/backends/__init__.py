"""Libraries that PyTorch computes with, and the switches that programs set: `weft.backends`.

weft has none of them. A program may ask, and set what only says how they should work.
"""

from weft.backends import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
