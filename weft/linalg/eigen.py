"""Eigenvectors of any square matrix, and its exponential."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft import Tensor
from weft._library_ops import Gradients, layout_of, library_op, like_first
from weft.linalg.checks import expect_matrix, expect_phase_free, wants_gradient
from weft.linalg.systems import solve
from weft.return_types import printed_as_pytorchs


@printed_as_pytorchs
class linalg_eig(NamedTuple):  # noqa: N801
    """The results of `eig`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _gradient_eig(g: Gradients) -> Any:
    # Boeddeker et al., "On the computation of complex-valued gradients with application to
    # statistically optimum beamforming", 2017; columns of V have norm 1
    (A,), (values, V), (g_values, gV) = g.inputs, g.outputs, g.grads
    if g_values is None and gV is None:
        return None
    inner = weft.diag_embed(weft.zeros_like(values) if g_values is None else g_values)
    if gV is not None:
        P = V.mH @ gV
        expect_phase_free("linalg.eig", P)
        diagonal = weft.eye(values.shape[-1], dtype=weft.bool, device=values.device)
        P = P - V.mH @ (V * P.diagonal(0, -2, -1).real.unsqueeze(-2))
        gaps = (values.unsqueeze(-2) - values.unsqueeze(-1)).conj().masked_fill(diagonal, 1)
        inner = inner + (P / gaps).masked_fill(diagonal, 0)
    out = solve(V.mH, inner @ V.mH)
    return out if A.is_complex() else out.real


def _layout_eig(A: Tensor, compute_v: bool) -> Any:
    kind = A.dtype.to_complex()
    return layout_of((A.shape[:-1], kind), (A.shape if compute_v else (0,), kind))


@library_op(
    "linalg_eig(Tensor self, *, bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
    autocast=True,
    gradient=_gradient_eig,
    saves=["eigenvalues", "eigenvectors"],
    results=linalg_eig,
    layout=_layout_eig,
)
def _eig(A: Any, compute_v: bool = True) -> Any:
    """Eigenvalues and, with `compute_v`, eigenvectors, complex."""
    import numpy as np

    kind = "complex64" if A.dtype.name in ("float32", "complex64") else "complex128"
    if not compute_v:
        return np.linalg.eigvals(A).astype(kind), np.zeros((0,), kind)
    values, vectors = np.linalg.eig(A)
    return values.astype(kind), vectors.astype(kind)


def eig(A: Tensor) -> linalg_eig:
    """Eigenvalues and eigenvectors of square matrices: `(eigenvalues, eigenvectors)`, complex.

    Args:
        A: (..., n, n), real or complex.

    Raises:
        RuntimeError: not square, not floating, not finite.

    Gradients need distinct eigenvalues, and a loss that does not see the vectors' phases.

    >>> weft.linalg.eig(weft.tensor([[0., 1.], [-1., 0.]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    _expect_finite_square("linalg.eig", A)
    return _eig(A)


def _expect_finite_square(who: str, A: Tensor) -> None:
    expect_matrix(who, A, square=True)
    if not A.is_meta and not bool(A.detach().isfinite().all()):
        raise RuntimeError(
            "[linalg.eig] expected finite numbers, got infinite ones or nan (torch.linalg.eig: "
            "input tensor should not contain infs or NaNs.)"
        )


def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of square matrices, complex; see `eig`.

    [..., n, n] gives [..., n], complex.

    >>> weft.linalg.eigvals(weft.diag(weft.tensor([1.0, 2.0]))).real
    tensor([1., 2.])
    """
    _expect_finite_square("linalg.eigvals", A)
    return _eig(A, compute_v=wants_gradient(A))[0]


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
