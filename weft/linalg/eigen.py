"""Eigenvectors of any square matrix, and its exponential."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft._library_ops import Gradients, library_op, like_first
from weft.linalg.checks import expect_matrix, wants_gradient


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


def _gradient_matrix_exp(g: Gradients) -> Any:
    # Mathias, "A chain rule for matrix functions", 1996: the exponential of [[A, E], [0, A]] has
    # the derivative along E in its corner
    (A,), grad = g.inputs, g.grads[0]
    H = A.mH
    n = A.shape[-1]
    block = weft.cat([weft.cat([H, grad], -1), weft.cat([weft.zeros_like(H), H], -1)], -2)
    # a copy, as leaves take over memory that is weft's, not NumPy's; the slice is PyTorch's node
    return _matrix_exp(block).clone()[..., :n, n:]


# Higham, "The scaling and squaring method for the matrix exponential revisited", 2005: Padé's
# approximation of degree 13, and the norm up to which it holds
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_PADE_NORM = 5.371920351148152


@library_op(
    "linalg_matrix_exp(Tensor self) -> Tensor",
    gradient=_gradient_matrix_exp,
    samples=["f(T(3, 3))", "f(T(2, 2, 2))", "f(T(1, 1))", "f(T(0, 2, 2))"],
    layout=like_first,
)
def _matrix_exp(A: Any) -> Any:
    """The matrix exponential."""
    import numpy as np

    if A.size == 0:
        return A.copy()
    kind = A.dtype
    A = A.astype(np.promote_types(kind, "float64"))  # large powers cancel
    norms = np.abs(A).sum(-2).max(-1)
    with np.errstate(divide="ignore"):
        halvings = np.maximum(np.ceil(np.log2(norms / _PADE_NORM)), 0)
    halvings = np.where(np.isfinite(norms), halvings, 0)
    b, eye = _PADE, np.eye(A.shape[-1], dtype=A.dtype)
    A = A / np.exp2(halvings)[..., None, None].astype(norms.dtype)
    A2 = A @ A
    A4 = A2 @ A2
    A6 = A4 @ A2
    odd = A6 @ (b[13] * A6 + b[11] * A4 + b[9] * A2)
    odd = A @ (odd + b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * eye)
    even = A6 @ (b[12] * A6 + b[10] * A4 + b[8] * A2)
    even = even + b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * eye
    out = np.linalg.solve(even - odd, even + odd)
    for k in range(int(halvings.max())):
        out = np.where((halvings > k)[..., None, None], out @ out, out)
    return out.astype(kind, copy=False)


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
    expect_matrix("linalg.matrix_exp", A, square=True)
    if A.dtype in (weft.float16, weft.bfloat16):
        return _matrix_exp(A.float()).to(A.dtype)
    return _matrix_exp(A)


_matrix_exp.record["call"] = matrix_exp  # type: ignore[attr-defined]
