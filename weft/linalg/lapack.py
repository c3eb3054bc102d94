"""LAPACK and BLAS routines of the core's OpenBLAS that NumPy lacks, or comes to by longer ways.

Arrays go by address. Matrices are batches in rows; LAPACK wants columns, `columns` makes them, but
where a routine does the same to a transpose, it is given the rows as they are.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import weft

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


@cache
def _library() -> Any:
    path = weft._blas_path
    if path is None:
        raise ImportError(
            "[linalg] expected the package scipy-openblas32, found none. Hint: pip install "
            "scipy-openblas32"
        )
    library = ctypes.CDLL(path)
    library.scipy_openblas_set_num_threads(1)  # as the core has it: one pool
    return library


class Each:
    """An array of which every element of a batch has its own part, contiguous."""

    def __init__(self, array: Any, count: int) -> None:
        self.first = array.ctypes.data
        self.step = array.nbytes // count


def call(name: str, dtype: Any, count: int, *arguments: Any) -> None:
    """Run a routine `count` times: ints by reference, letters as characters, arrays by address."""
    if not count:
        return
    routine = getattr(_library(), f"scipy_{_LETTERS[dtype.name]}{name}_")
    routine.restype = None
    passed: list[Any] = []
    moving = []
    for argument in arguments:
        if isinstance(argument, str):
            passed.append(ctypes.c_char_p(argument.encode()))
        elif isinstance(argument, int):
            passed.append(ctypes.byref(ctypes.c_int32(argument)))
        elif isinstance(argument, Each):
            passed.append(ctypes.c_void_p(argument.first))
            moving.append((passed[-1], argument))
        else:
            passed.append(ctypes.c_void_p(argument.ctypes.data))
    # Fortran's routines expect the length of every character behind the arguments
    passed += [ctypes.c_size_t(1)] * sum(isinstance(a, str) for a in arguments)
    for i in range(count):
        for pointer, part in moving:
            pointer.value = part.first + i * part.step
        routine(*passed)


def letter(name: str, real: str, complex: str, dtype: Any) -> str:
    """`name` with the word that LAPACK has for real or for complex matrices before it."""
    if dtype.char not in "fdFD":
        raise NotImplementedError(
            f"[{name}] expected float32, float64 or complex numbers, got {dtype}"
        )
    return (complex if dtype.kind == "c" else real) + name


def _floating(A: Any) -> Any:
    """A, of integers in float64, as NumPy's functions take them."""
    return A.astype("float64") if A.dtype.kind in "biu" else A


def columns(A: Any) -> Any:
    """A copy of the matrices of A whose columns lie behind each other; transposed, as NumPy sees
    it."""
    import numpy as np

    return np.array(np.swapaxes(A, -1, -2), order="C", copy=True)


def rows(A: Any) -> Any:
    """What `columns` made, as matrices again."""
    import numpy as np

    return np.ascontiguousarray(np.swapaxes(A, -1, -2))


def factor_lu(A: Any) -> tuple[Any, Any, Any]:
    """`getrf`: both factors in one matrix, 1-based row swaps, the first zero pivot or 0."""
    import numpy as np

    *batch, m, n = A.shape
    LU, info = columns(A), np.zeros(batch, "int32")
    pivots = np.zeros((*batch, min(m, n)), "int32")
    if LU.size:
        k = info.size
        call("getrf", A.dtype, k, m, n, Each(LU, k), m, Each(pivots, k), Each(info, k))
    return rows(LU), pivots, info


def factor_cholesky(A: Any) -> tuple[Any, Any]:
    """`potrf` of the lower triangles: lower factors, the order of the first minor that fails or 0.

    Of a matrix that fails, the factor of the minors before, and zeros.
    """
    import numpy as np

    A, (*batch, n, _) = _floating(A), A.shape
    # in columns the memory is Aᵀ, the conjugate of A, whose upper factor's transpose is A's lower
    L, info = np.tril(A), np.zeros(batch, "int32")
    if L.size:
        call("potrf", A.dtype, info.size, "U", n, Each(L, info.size), n, Each(info, info.size))
    for at in np.argwhere(info) if info.any() else ():
        L[*at, info[*at] - 1 :, :] = 0
    return L, info


def inverse(A: Any) -> tuple[Any, Any]:
    """`getrf` and `getri`: inverses, the first zero pivot or 0; nan where there is none."""
    import numpy as np

    A, (*batch, n, _) = _floating(A), A.shape
    X, info = np.array(A, order="C", copy=True), np.zeros(batch, "int32")
    pivots, work = np.zeros((*batch, n), "int32"), np.zeros(64 * n, A.dtype)
    if X.size:
        k = info.size
        parts, swaps, failed = Each(X, k), Each(pivots, k), Each(info, k)
        call("getrf", A.dtype, k, n, n, parts, n, swaps, failed)
        call("getri", A.dtype, k, n, parts, n, swaps, work, len(work), failed)
    X += 0  # no zero of getri's is negative
    for at in np.argwhere(info) if info.any() else ():  # of the transpose
        X[*at] = np.nan
        info[*at] = factor_lu(A[*at])[2] or n
    return X, info


def solve_triangular(A: Any, B: Any, upper: bool, unit: bool) -> Any:
    """`trsm`: the X with A X = B; broadcasts."""
    import numpy as np

    n, k = B.shape[-2:]
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    X = np.array(np.broadcast_to(B, (*batch, n, k)), order="C", copy=True)
    if X.size == 0:
        return X
    count = X.size // (n * k)
    shared = A.size == n * n
    A = np.ascontiguousarray(A if shared else np.broadcast_to(A, (*batch, n, n)))
    # in columns the memory is that of the transposes: Xᵀ Aᵀ = Bᵀ
    call("trsm", A.dtype, count, "R", "L" if upper else "U", "N", "U" if unit else "N", k, n,
         np.ones(1, A.dtype), A if shared else Each(A, count), n, Each(X, count), k)  # fmt: skip
    return X


def factor_qr(A: Any) -> tuple[Any, Any]:
    """`geqrf`: R above Householder's vectors, and their factors."""
    import numpy as np

    *batch, m, n = A.shape
    QR, tau = columns(A), np.zeros((*batch, min(m, n)), A.dtype)
    work, info = np.zeros(max(1, 32 * n), A.dtype), np.zeros(1, "int32")
    if QR.size:
        k = QR.size // (m * n)
        call("geqrf", A.dtype, k, m, n, Each(QR, k), m, Each(tau, k), work, len(work), info)
    return rows(QR), tau


def factor_ldl(A: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """`sytrf` or `hetrf` of the lower triangles: factors, LAPACK's swaps, the first zero or 0."""
    import numpy as np

    *batch, n, _ = A.shape
    LD, pivots = columns(np.tril(A)), np.zeros((*batch, n), "int32")
    info, work = np.zeros(batch, "int32"), np.zeros(max(1, 32 * n), A.dtype)
    name = letter("trf", "sy", "he" if hermitian else "sy", A.dtype)
    if LD.size:
        k = info.size
        call(name, A.dtype, k, "L", n, Each(LD, k), n, Each(pivots, k), work, len(work),
             Each(info, k))  # fmt: skip
    return rows(LD), pivots, info


def solve_ldl(LD: Any, pivots: Any, B: Any, hermitian: bool) -> Any:
    """`sytrs` or `hetrs`: the X with A X = B for the factors of A; broadcasts."""
    import numpy as np

    n, k = B.shape[-2:]
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    X = columns(np.broadcast_to(B, (*batch, n, k)))
    if X.size == 0:
        return rows(X)
    factors = columns(np.broadcast_to(LD, (*batch, n, n)))
    swaps = np.ascontiguousarray(np.broadcast_to(pivots, (*batch, n)))
    name = letter("trs", "sy", "he" if hermitian else "sy", LD.dtype)
    count, info = X.size // (n * k), np.zeros(1, "int32")
    call(name, LD.dtype, count, "L", n, k, Each(factors, count), n, Each(swaps, count),
         Each(X, count), n, info)  # fmt: skip
    return rows(X)
