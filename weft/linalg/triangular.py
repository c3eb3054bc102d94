"""Triangular systems, which the gradients of decompositions solve too."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft._library_ops import Gradients, layout_of, library_op
from weft.linalg import lapack
from weft.linalg.checks import expect_like, expect_matrix


def _gradient_triangular(g: Gradients) -> Any:
    (A, _), X, grad = g.inputs, g.outputs[0], g.grads[0]
    o = g.options
    gB = _triangular(A.mH, grad, upper=not o["upper"], unitriangular=o["unitriangular"])
    gA = -(gB @ X.mH)
    k = int(o["unitriangular"])
    return (gA.triu(k) if o["upper"] else gA.tril(-k)), gB


def solution_of(A: Tensor, B: Tensor) -> tuple[Any, Any]:
    """Shape and dtype of the X with A X = B."""
    return (*weft.broadcast_shapes(A.shape[:-2], B.shape[:-2]), *B.shape[-2:]), B.dtype


def _layout_triangular(A: Tensor, B: Tensor, **options: Any) -> Any:
    return layout_of(solution_of(A, B))


@library_op(
    "linalg_solve_triangular(Tensor A, Tensor B, *, bool upper, "
    "bool unitriangular=False) -> Tensor",
    gradient=_gradient_triangular,
    saves=["A", "result"],
    layout=_layout_triangular,
)
def _triangular(A: Any, B: Any, upper: bool, unitriangular: bool = False) -> Any:
    """The X with A X = B for a triangular A."""
    return lapack.solve_triangular(A, B, upper, unitriangular)


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
    expect_matrix("linalg.solve_triangular", A, square=True)
    expect_matrix("linalg.solve_triangular", B)
    expect_like("linalg.solve_triangular", A, B)
    if A.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"[linalg.solve_triangular] expected sizes that fit, got {tuple(A.shape)} and "
            f"{tuple(B.shape)} (Incompatible shapes of A and B)"
        )
    if left:
        return _triangular(A, B, upper=upper, unitriangular=unitriangular)
    return _triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT
