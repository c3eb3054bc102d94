"""How this build was made: `weft.__config__.show()`."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show() -> str:
    """A few lines: the version, the compiler of the extension, the library of large products."""
    import platform

    import weft

    return "\n".join([
        f"weft {weft.__version__} built with:",
        f"  - Python {platform.python_version()}",
        "  - C++ version: 202002",
        f"  - BLAS: {weft._blas_path or 'its own kernels'}",
    ])  # fmt: skip


def parallel_info() -> str:
    """How many threads are at work."""
    import os

    import weft

    return (
        f"threads of an operator: {weft.get_num_threads()}\n"
        f"threads of the machine: {os.cpu_count()}\n"
    )
