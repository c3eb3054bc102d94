"""Systems of equations, inverses and determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import weft
from weft import _C, Tensor
from weft._library_ops import Gradients, layout_of, library_op
from weft.base.checks import also_named
from weft.linalg import lapack
from weft.linalg.checks import expect_like, expect_matrix, eye_like, raise_if_singular
from weft.linalg.decompositions import svd
from weft.linalg.triangular import solution_of
from weft.linalg.triangular import solve_triangular as solve_triangular
from weft.return_types import printed_as_pytorchs


@printed_as_pytorchs
class linalg_slogdet(NamedTuple):  # noqa: N801
    """The results of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


@printed_as_pytorchs
class linalg_inv_ex(NamedTuple):  # noqa: N801
    """The results of `inv_ex`."""

    inverse: Tensor
    info: Tensor


@printed_as_pytorchs
class linalg_solve_ex(NamedTuple):  # noqa: N801
    """The results of `solve_ex`."""

    result: Tensor
    info: Tensor


@printed_as_pytorchs
class linalg_lstsq(NamedTuple):  # noqa: N801
    """The results of `lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _numpy_solve(A: Any, B: Any) -> Any:
    """A⁻¹ B and for each matrix the 1-based column of a zero pivot, or 0."""
    import numpy as np

    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    info = np.zeros(A.shape[:-2], "int32")
    try:
        return np.linalg.solve(A, B), info
    except np.linalg.LinAlgError:
        X = np.full(batch + B.shape[-2:], np.nan, B.dtype)
    for at in np.ndindex(*A.shape[:-2]):
        info[at] = _zero_pivot(A[at])
    singular = np.broadcast_to(info, batch)
    As, Bs = np.broadcast_to(A, batch + A.shape[-2:]), np.broadcast_to(B, X.shape)
    for at in np.ndindex(*batch):
        if not singular[at]:
            X[at] = np.linalg.solve(As[at], Bs[at])
    return X, info


def _zero_pivot(A: Any) -> int:
    """The 1-based column in which Gaussian elimination finds only zeros, or 0."""
    import numpy as np

    A = A.copy()
    for k in range(len(A)):
        p = k + int(np.abs(A[k:, k]).argmax())
        if A[p, k] == 0:
            return k + 1
        A[[k, p]] = A[[p, k]]
        A[k + 1 :, k:] -= np.outer(A[k + 1 :, k] / A[k, k], A[k, k:])
    return 0


def _gradient_solve(g: Gradients) -> Any:
    (A, _), X, grad = g.inputs, g.outputs[0], g.grads[0]
    if grad is None:
        return None, None
    gB = _solve(A.mH, grad)[0]
    return -(gB @ X.mH), gB


def _layout_solve(A: Tensor, B: Tensor) -> Any:
    return layout_of(solution_of(A, B), (A.shape[:-2], weft.int32))


@library_op(
    "linalg_solve_ex(Tensor A, Tensor B) -> (Tensor result, Tensor info)",
    autocast=True,
    gradient=_gradient_solve,
    saves=["A", "result"],
    samples=["f(T(3, 3), T(3, 2))[0]", "f(T(2, 3, 3), T(2, 3, 1))[0]"],
    results=linalg_solve_ex,
    layout=_layout_solve,
)
def _solve(A: Any, B: Any) -> Any:
    """The X with A X = B, and for each matrix where it is singular, or 0."""
    return _numpy_solve(A, B)


def _is_vectors(A: Tensor, B: Tensor) -> bool:
    return B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1])


def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> linalg_solve_ex:
    """As `solve`, with the places where `A` is singular: `(result, info)`.

    A [..., n, n] and B [..., n, k] or [..., n] give X of B's shape, and `info` [...] of int32.

    >>> weft.linalg.solve_ex(weft.tensor([[2.0]]), weft.tensor([[4.0]])).result
    tensor([[2.]])
    """
    expect_matrix("linalg.solve", A, square=True)
    expect_like("linalg.solve", A, B)
    vectors = _is_vectors(A, B)
    if vectors and not left:
        raise RuntimeError(
            "[linalg.solve] expected matrices with left=False, got vectors (Vector broadcasting of "
            "the left hand side is not supported for left=False.)"
        )
    B = B.unsqueeze(-1) if vectors else B
    if B.dim() < 2 or A.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            "[linalg.solve] expected sizes that fit, got others (linalg.solve: Incompatible "
            "shapes of "
            f"A and B for the equation {'AX' if left else 'XA'} = B "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2] if B.dim() > 1 else 1}x{B.shape[-1]}))"
        )
    X, info = _solve(A, B) if left else _solve(A.mT, B.mT)
    if check_errors:
        raise_if_singular("linalg.solve", info)
    X = X if left else X.mT
    return linalg_solve_ex(_C.ops._relaid(X, X.shape[:-1]) if vectors else X, info)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X with A X = B; with `left=False`, with X A = B.

    Args:
        A: invertible, (..., n, n).
        B: (..., n, k), or vectors: (n,) or A's shape without its last dimension.

    Raises:
        RuntimeError: not square, shapes that do not fit, unlike dtypes.
        LinAlgError: a singular matrix.

    >>> weft.linalg.solve(weft.tensor([[2., 0.], [0., 4.]]), weft.tensor([2., 4.]))
    tensor([1., 1.])
    """
    return solve_ex(A, B, left=left, check_errors=True)[0]


def _gradient_inv(g: Gradients) -> Any:
    Y, grad = g.outputs[0], g.grads[0]
    return None if grad is None else -(Y.mH @ grad @ Y.mH)


def _layout_inv(A: Tensor) -> Any:
    return layout_of((A.shape, A.dtype), (A.shape[:-2], weft.int32))


@library_op(
    "linalg_inv_ex(Tensor A) -> (Tensor inverse, Tensor info)",
    autocast=True,
    gradient=_gradient_inv,
    saves=["inverse"],
    samples=["f(T(3, 3))[0]", "f(T(2, 2, 2))[0]", "f(T(0, 3, 3))[0]"],
    results=linalg_inv_ex,
    layout=_layout_inv,
)
def _inv(A: Any) -> Any:
    """The inverse, and for each matrix where it is singular, or 0."""

    return lapack.inverse(A)


def inv_ex(A: Tensor, *, check_errors: bool = False) -> linalg_inv_ex:
    """As `inv`, with the places where `A` is singular: `(inverse, info)`.

    A [..., n, n] gives the inverse [..., n, n], and `info` [...] of int32.

    >>> weft.linalg.inv_ex(weft.tensor([[0.0]])).info
    tensor(1, dtype=torch.int32)
    """
    expect_matrix("linalg.inv", A, square=True)
    out = _inv(A)
    if check_errors:
        raise_if_singular("linalg.inv", out[1])
    return out


def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices, (..., n, n).

    Raises:
        RuntimeError: not square, not floating.
        LinAlgError: a singular matrix.

    >>> weft.linalg.inv(weft.tensor([[2.]]))
    tensor([[0.5000]])
    """
    return inv_ex(A, check_errors=True)[0]


def _gradient_det(g: Gradients) -> Any:
    (A,), d, grad = g.inputs, g.outputs[0], g.grads[0]
    with weft.no_grad():
        values = svd(A, False)[1]
        least = A.shape[-1] * weft.finfo(A.dtype).eps
        known = values.numel() > 0 and not values.is_meta
        singular = known and bool((values[..., -1] <= values[..., 0] * least).any())
    if A.shape[-1] == 1:
        return grad.unsqueeze(-1).unsqueeze(-1).expand(A.shape)
    if not singular:
        return (grad * d.conj()).unsqueeze(-1).unsqueeze(-1) * _inv(A.mH)[0]
    # a singular matrix has cofactors too: from the products of all singular values but one
    U, S, Vh = svd(A)
    n = S.shape[-1]
    others = (
        S.unsqueeze(-2)
        .expand(*S.shape, n)
        .masked_fill(weft.eye(n, dtype=weft.bool, device=S.device), 1)
    )
    turn = ((_det(U) * _det(Vh)).conj() * grad).unsqueeze(-1)
    return U @ weft.diag_embed(others.prod(-1) * turn) @ Vh


def _layout_det(A: Tensor) -> Any:
    return layout_of((A.shape[:-2], A.dtype))


@library_op(
    "linalg_det(Tensor A) -> Tensor",
    gradient=_gradient_det,
    saves=["A", "result"],
    samples=["f(T(3, 3))", "f(T(2, 2, 2))", "f(T(1, 1))"],
    onnx="Det(A)",
    layout=_layout_det,
)
def _det(A: Any) -> Any:
    """The determinant."""
    import numpy as np

    return np.linalg.det(A)


def det(A: Tensor) -> Tensor:
    """The determinant of square matrices, (..., n, n).

    Raises:
        RuntimeError: not square, not floating.

    >>> weft.linalg.det(weft.tensor([[2., 0.], [0., 4.]]))
    tensor(8.)
    """
    expect_matrix("linalg.det", A, square=True)
    return _det(A)


def _gradient_slogdet(g: Gradients) -> Any:
    (A,), sign, (g_sign, grad) = g.inputs, g.outputs[0], g.grads
    if grad is None and not A.is_complex():
        return None  # the sign of a real determinant is constant
    if grad is None:
        grad = weft.zeros(g.outputs[1].shape, dtype=g.outputs[1].dtype)
    if A.is_complex() and g_sign is not None:
        grad = weft.complex(grad, -(g_sign.conj() * sign).imag)
    return grad.unsqueeze(-1).unsqueeze(-1) * inv(A.mH)


def _layout_slogdet(A: Tensor) -> Any:
    return layout_of((A.shape[:-2], A.dtype), (A.shape[:-2], A.dtype.to_real()))


@library_op(
    "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    gradient=_gradient_slogdet,
    saves=["A", "sign"],
    samples=["f(T(3, 3))[1]", "f(T(2, 2, 2))[1]"],
    results=linalg_slogdet,
    onnx="(Sign(Det(A)), Log(Abs(Det(A))))",
    layout=_layout_slogdet,
)
def _slogdet(A: Any) -> Any:
    """Sign and logarithm of the determinant."""
    import numpy as np

    return tuple(np.linalg.slogdet(A))


def slogdet(A: Tensor) -> linalg_slogdet:
    """The determinant as its sign and the logarithm of its magnitude: `(sign, logabsdet)`.

    [..., n, n] gives two tensors [...].

    Raises:
        RuntimeError: not square, not floating.

    >>> weft.linalg.slogdet(weft.eye(3)).logabsdet
    tensor(0.)
    """
    expect_matrix("linalg.slogdet", A, square=True)
    return _slogdet(A)


def _gradient_pinv(g: Gradients) -> Any:
    # Golub and Pereyra, "The differentiation of pseudo-inverses", 1973
    (A,), P, grad = g.inputs, g.outputs[0], g.grads[0]
    left = weft.eye(A.shape[-2], dtype=A.dtype, device=A.device) - A @ P
    right = eye_like(A) - P @ A
    return -(P.mH @ grad @ P.mH) + left @ grad.mH @ (P @ P.mH) + (P.mH @ P) @ grad.mH @ right


def _layout_pinv(A: Tensor, **options: Any) -> Any:
    return layout_of(((*A.shape[:-2], A.shape[-1], A.shape[-2]), A.dtype))


@library_op(
    "linalg_pinv(Tensor A, *, float rtol, float atol=0.0, bool hermitian=False) -> Tensor",
    autocast=True,
    gradient=_gradient_pinv,
    saves=["A", "result"],
    layout=_layout_pinv,
)
def _pinv(A: Any, rtol: float, atol: float = 0.0, hermitian: bool = False) -> Any:
    """The pseudo-inverse."""
    import numpy as np

    if 0 in A.shape[-2:]:
        return np.zeros((*A.shape[:-2], A.shape[-1], A.shape[-2]), A.dtype)
    if hermitian:
        A = np.tril(A) + np.swapaxes(np.tril(A, -1), -1, -2).conj()
    U, S, Vh = np.linalg.svd(A, full_matrices=False)
    least = np.maximum(atol, rtol * S.max(-1, keepdims=True))
    keep = S > least
    inverse = np.where(keep, 1 / np.where(keep, S, 1), 0).astype(A.dtype)
    return np.swapaxes(Vh, -1, -2).conj() @ (inverse[..., None] * np.swapaxes(U, -1, -2).conj())


def _pinv_each(A: Tensor, rtol: Any, atol: Any, hermitian: bool) -> Tensor:
    """The same with tolerances of each matrix: one by one."""
    rtol, atol = weft.as_tensor(rtol), weft.as_tensor(atol)
    batch = weft.broadcast_shapes(A.shape[:-2], rtol.shape, atol.shape)
    whole = A.expand(*batch, *A.shape[-2:])
    if not whole.numel():
        return whole.mT.clone()
    matrices = whole.reshape(-1, *A.shape[-2:]).unbind()
    tolerances = (t.expand(batch).flatten().tolist() for t in (rtol, atol))
    parts = [
        _pinv(a, rtol=r, atol=t, hermitian=hermitian) for a, r, t in zip(matrices, *tolerances)
    ]
    return weft.stack(parts).reshape(whole.mT.shape)


def pinv(
    A: Tensor,
    rcond: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """The pseudo-inverse (Moore and Penrose), (..., n, m) of (..., m, n).

    Args:
        A: the matrices; with `hermitian` symmetric, of which the lower triangle is read.
        atol, rtol: singular values at most max(atol, rtol * greatest) count as 0. By default rtol
            is max(m, n) times the machine's precision if atol is not given, else 0. Tensors
            broadcast with the batch of matrices.
        rcond: an older name of `rtol`.

    Raises:
        RuntimeError: no matrix, not floating.

    >>> weft.linalg.pinv(weft.tensor([[2.], [0.]]))
    tensor([[0.5000, 0.0000]])
    """
    expect_matrix("linalg.pinv", A, square=hermitian)
    rtol = rcond if rtol is None else rtol
    least = max(A.shape[-2:]) * weft.finfo(A.dtype).eps
    if isinstance(rtol, Tensor) or isinstance(atol, Tensor):
        atol = 0.0 if atol is None else atol
        if rtol is None:
            rtol = weft.where(weft.as_tensor(atol) > 0, 0.0, least)
        return _pinv_each(A, rtol, atol, hermitian)
    if rtol is None:
        rtol = 0.0 if atol else least
    return _pinv(A, rtol=float(rtol), atol=float(atol or 0.0), hermitian=hermitian)


@also_named(b="B")
def lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> linalg_lstsq:
    """The X that makes A X - B least: `(solution, residuals, rank, singular_values)`.

    Args:
        A: (..., m, n).
        B: (..., m, k), or vectors.
        rcond: see `pinv`'s `rtol`; not for the drivers `"gels"`.
        driver: `"gelsy"` (default), `"gels"`, `"gelsd"` or `"gelss"`, which say what is returned:
            only the last two return singular values, `"gels"` no rank, `"gelsy"` no residuals.

    Raises:
        RuntimeError: shapes that do not fit, an unknown driver.

    >>> weft.linalg.lstsq(weft.tensor([[1.], [0.]]), weft.tensor([[2.], [3.]])).solution
    tensor([[2.]])
    """
    expect_matrix("linalg.lstsq", A)
    expect_like("linalg.lstsq", A, B)
    driver = "gelsy" if driver is None else driver
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            "[linalg.lstsq] expected driver 'gels', 'gelsy', 'gelsd' or 'gelss', got "
            f"{driver!r} (parameter `driver` should be one of (gels, gelsy, gelsd, gelss))"
        )
    if not 0 <= A.dim() - B.dim() <= 1:
        raise RuntimeError(
            f"[linalg.lstsq] expected as many dimensions of B as of A or one less, got {B.dim()} "
            f"and {A.dim()} (input.dim() must be greater or equal to other.dim())"
        )
    vectors = B.dim() < A.dim()
    B = B.unsqueeze(-1) if vectors else B
    if A.shape[-2] != B.shape[-2]:
        raise RuntimeError(
            f"[linalg.lstsq] expected as many rows in both, got {A.shape[-2]} and {B.shape[-2]} "
            "(input.size(-2) should match other.size(-2))"
        )
    m, n = A.shape[-2:]
    rtol = max(m, n) * weft.finfo(A.dtype).eps if rcond is None or driver == "gels" else rcond
    X = _pinv(A, rtol=float(rtol)) @ B
    with weft.no_grad():
        values = svd(A, False)[1]
        greatest = values[..., :1] if values.shape[-1] else values
        rank = (values > greatest * rtol).sum(-1)
        full = rank.numel() > 0 and bool((rank == n).all())
    residuals = A.reshape(-1)[:0].real.clone()
    if m > n and full and driver != "gelsy":
        residuals = (A @ X - B).abs().square().sum(-2)
    return linalg_lstsq(
        X.squeeze(-1) if vectors else X,
        residuals,
        weft.zeros(0, dtype=weft.int64) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else weft.zeros(0, dtype=A.dtype),
    )


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of the product over the first `ind` dimensions; see NumPy's.

    Raises:
        RuntimeError: `ind` is not positive, or the two halves are of unlike size.

    >>> weft.linalg.tensorinv(2 * weft.eye(4).view(4, 2, 2), ind=1).shape
    torch.Size([2, 2, 4])
    """
    if ind <= 0:
        raise RuntimeError(
            f"[linalg.tensorinv] expected a positive ind, got {ind} (Expected a strictly positive "
            "integer for 'ind')"
        )
    if ind > A.dim():
        raise RuntimeError(
            f"[linalg.tensorinv] expected at most {A.dim()} as ind, got {ind} (invalid slice)"
        )
    first, rest = A.shape[:ind], A.shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise RuntimeError(
            f"[linalg.tensorinv] expected two halves of one size, got {tuple(first)} and "
            f"{tuple(rest)}"
        )
    return inv(A.reshape(math.prod(first), math.prod(rest))).reshape(*rest, *first)


@also_named(other="B")
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """The X with tensordot(A, X, X.dim()) = B; `dims` of A are moved to its end first.

    Raises:
        RuntimeError: sizes that do not fit.

    >>> weft.linalg.tensorsolve(weft.eye(4).view(2, 2, 2, 2), weft.ones(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    if dims is not None:
        if not all(-A.dim() <= k < A.dim() for k in dims):
            raise IndexError(
                f"[linalg.tensorsolve] expected dims in [{-A.dim()}, {A.dim() - 1}], got {dims}"
            )
        order = [d for d in range(A.dim()) if d not in {k % A.dim() for k in dims}]
        A = A.permute(*order, *(k % A.dim() for k in dims))
    rest = A.shape[B.dim() :]
    if math.prod(rest) != B.numel() or A.numel() != B.numel() ** 2:
        raise RuntimeError(
            f"[linalg.tensorsolve] expected a square system, got {tuple(A.shape)} and "
            f"{tuple(B.shape)}"
        )
    return solve(A.reshape(B.numel(), -1), B.reshape(-1)).reshape(rest)
