"""Triangular systems."""

from __future__ import annotations

from weft import _C, Tensor


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The X with A X = B for a triangular A; the other triangle is not read.

    Args:
        A: (..., n, n).
        B: (..., n, k), or (..., k, n) with `left=False`.
        upper: which triangle.
        left: solve X A = B if false.
        unitriangular: the diagonal is taken to be 1.

    Raises:
        RuntimeError: not square, shapes that do not fit.

    >>> weft.linalg.solve_triangular(weft.eye(2) * 2, weft.ones(2, 1), upper=True)
    tensor([[0.5000],
            [0.5000]])
    """
    return _C.ops.linalg_solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular)
