"""What the functions of `weft.linalg` ask of their arguments."""

from __future__ import annotations

import weft
from weft import Tensor


class LinAlgError(RuntimeError):
    """A matrix that has no inverse or factor, or an iteration that does not converge."""


def expect_matrix(who: str, A: Tensor, square: bool = False) -> None:
    """Raise a RuntimeError unless `A` is a floating (square) matrix or a batch of them."""
    if not isinstance(A, Tensor):
        raise TypeError(f"[{who}] expected a tensor, got {type(A).__name__}")
    if A.dim() < 2:
        raise RuntimeError(
            f"[{who}] expected at least 2 dimensions, got {tuple(A.shape)} (The input tensor A "
            "must have at least 2 dimensions.)"
        )
    if square and A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"[{who}] expected square matrices, got {A.shape[-2]} by {A.shape[-1]} (A must be "
            "batches of square matrices)"
        )
    if not A.is_floating_point():
        raise RuntimeError(f"[{who}] expected a floating tensor, got {A.dtype}")


def expect_like(who: str, A: Tensor, B: Tensor) -> None:
    """Raise a RuntimeError unless both have one dtype."""
    if A.dtype != B.dtype:
        raise RuntimeError(f"[{who}] expected one dtype, got {A.dtype} and {B.dtype}")


def eye_like(A: Tensor) -> Tensor:
    """The identity of A's last dimension."""
    return weft.eye(A.shape[-1], dtype=A.dtype)


def info_dtype() -> str:
    """The dtype of the places where a matrix is singular: PyTorch's int32 where there is one."""
    return "int32" if hasattr(weft, "int32") else "int64"
