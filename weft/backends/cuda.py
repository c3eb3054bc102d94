"""CUDA's switches: without a GPU they have nothing to switch, in PyTorch either."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class _Products:
    """How products on a GPU may round."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Products()
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """False."""
    return False


def enable_flash_sdp(enabled: bool) -> None:
    """Whether attention on a GPU may use this kernel."""
    _attention["flash"] = enabled


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Whether attention on a GPU may use this kernel."""
    _attention["mem_efficient"] = enabled


def enable_math_sdp(enabled: bool) -> None:
    """Whether attention on a GPU may use this kernel."""
    _attention["math"] = enabled


def enable_cudnn_sdp(enabled: bool) -> None:
    """Whether attention on a GPU may use this kernel."""
    _attention["cudnn"] = enabled


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` said."""
    return _attention["flash"]


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` said."""
    return _attention["mem_efficient"]


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` said."""
    return _attention["math"]


_libraries = {"linalg": "default", "blas": "default"}


def preferred_linalg_library(backend: str | None = None) -> str:
    """Which library a GPU would use: what was asked for."""
    _libraries["linalg"] = _libraries["linalg"] if backend is None else backend
    return _libraries["linalg"]


def preferred_blas_library(backend: str | None = None) -> str:
    """Which library a GPU would use: what was asked for."""
    _libraries["blas"] = _libraries["blas"] if backend is None else backend
    return _libraries["blas"]


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` said."""
    return _attention["cudnn"]


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Generator[dict[str, bool]]:
    """A scope in which attention on a GPU may use these kernels."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield {}
    finally:
        _attention.update(before)
