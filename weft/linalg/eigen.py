"""Eigenvectors of any square matrix, and its exponential."""

from __future__ import annotations

import weft
from weft import _C, Tensor
from weft.linalg.checks import wants_gradient


def eig(A: Tensor) -> _C._eigenvalues_eigenvectors:
    """Eigenvalues and eigenvectors of square matrices: `(eigenvalues, eigenvectors)`, complex.

    Args:
        A: (..., n, n), real or complex.

    Raises:
        RuntimeError: not square, not floating, not finite.

    Gradients need distinct eigenvalues, and a loss that does not see the vectors' phases.

    >>> weft.linalg.eig(weft.tensor([[0., 1.], [-1., 0.]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    return _C.ops.linalg_eig(A)


def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of square matrices, complex; see `eig`.

    [..., n, n] gives [..., n], complex.

    >>> weft.linalg.eigvals(weft.diag(weft.tensor([1.0, 2.0]))).real
    tensor([1., 2.])
    """
    return _C.ops.linalg_eig(A, compute_v=wants_gradient(A))[0]


def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices, 1 + A + A²/2 + ...

    Args:
        A: (..., n, n), real or complex.

    Raises:
        RuntimeError: not square, not floating.

    >>> weft.linalg.matrix_exp(weft.tensor([[0., 1.], [0., 0.]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    if A.dtype in (weft.float16, weft.bfloat16):
        return _C.ops.linalg_matrix_exp(A.float()).to(A.dtype)
    return _C.ops.linalg_matrix_exp(A)
