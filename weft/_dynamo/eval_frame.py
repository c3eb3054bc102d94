"""The class of compiled Modules, by PyTorch's name."""

from weft.compiler.module import OptimizedModule as OptimizedModule

__all__ = ["OptimizedModule"]
