"""What the functions of `weft.linalg` ask of their arguments."""

from __future__ import annotations

import weft
from weft import Tensor


class LinAlgError(RuntimeError):
    """A matrix that has no inverse or factor, or an iteration that does not converge."""


def expect_matrix(who: str, A: Tensor, square: bool = False) -> None:
    """Raise a RuntimeError unless `A` is a floating or complex (square) matrix or a batch."""
    if not isinstance(A, Tensor):
        raise TypeError(f"[{who}] expected a tensor, got {type(A).__name__}")
    if A.dim() < 2:
        raise RuntimeError(
            f"[{who}] expected matrices, got {tuple(A.shape)} ({who}: The input tensor A must "
            "have at "
            "least 2 dimensions.)"
        )
    if square and A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"[{who}] expected square matrices, got others ({who}: A must be batches of square "
            f"matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices)"
        )
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(f"[{who}] expected a floating or complex tensor, got {A.dtype}")


def expect_like(who: str, A: Tensor, B: Tensor) -> None:
    """Raise a RuntimeError unless both have one dtype."""
    if A.dtype != B.dtype:
        raise RuntimeError(f"[{who}] expected one dtype, got {A.dtype} and {B.dtype}")


def any_failed(info: Tensor) -> bool:
    """Whether LAPACK says so of a matrix; what is on the meta device is taken to be regular, as in
    PyTorch."""
    return not info.is_meta and bool((info != 0).any())


def raise_if_singular(who: str, info: Tensor) -> None:
    """Raise an error of PyTorch's type where `info`, the place of a zero pivot, is not 0."""
    if any_failed(info):
        flat = info.reshape(-1)
        at = int(flat.nonzero()[0, 0])
        where = f"(Batch element {at}): " if info.dim() else ""
        told = (
            f"U[{int(flat[at])},{int(flat[at])}] is zero and using it on lu_solve would result "
            "in a division by zero."
        )
        raise RuntimeError(
            f"[{who}] expected an invertible matrix, got a singular one ({who}: {where}{told})"
        )


def wants_gradient(A: Tensor) -> bool:
    """Whether values have to come with the vectors, by which their gradient is known."""
    return weft.is_grad_enabled() and A.requires_grad
