"""What the processor is asked for: `weft.backends.cpu`."""

from __future__ import annotations

from weft import _C

__all__ = ["get_cpu_capability"]

_NAMES = {"baseline": "DEFAULT", "avx2": "AVX2", "avx512": "AVX512"}


def get_cpu_capability() -> str:
    """The instructions that kernels use: "DEFAULT", "AVX2" or "AVX512" (on ARM "DEFAULT").

    >>> weft.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    True
    """
    return _NAMES[_C._cpu_level()]
