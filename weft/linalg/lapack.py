"""LAPACK and BLAS routines that NumPy does not offer, from the OpenBLAS of the core.

Arrays go by address. Matrices are batches in rows; LAPACK wants columns, `columns` makes them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
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
    return ctypes.CDLL(path)


def call(name: str, dtype: Any, *arguments: Any) -> None:
    """Run a routine: ints and numbers by reference, arrays by address, letters as characters."""
    routine = getattr(_library(), f"scipy_{_LETTERS[dtype.name]}{name}_")
    routine.restype = None
    letters = sum(isinstance(a, str) for a in arguments)
    routine(*map(_passed, arguments), *[ctypes.c_size_t(1)] * letters)


def _passed(argument: Any) -> Any:
    if isinstance(argument, str):
        return ctypes.c_char_p(argument.encode())
    if isinstance(argument, int):
        return ctypes.byref(ctypes.c_int32(argument))
    return ctypes.c_void_p(argument.ctypes.data)


def letter(name: str, real: str, complex: str, dtype: Any) -> str:
    """`name` with the word that LAPACK has for real or for complex matrices before it."""
    return (complex if dtype.kind == "c" else real) + name


def columns(A: Any) -> Any:
    """A copy of the matrices of A whose columns lie behind each other; transposed, as NumPy sees
    it."""
    import numpy as np

    return np.array(np.swapaxes(A, -1, -2), order="C", copy=True)


def rows(A: Any) -> Any:
    """What `columns` made, as matrices again."""
    import numpy as np

    return np.ascontiguousarray(np.swapaxes(A, -1, -2))


def each(batch: tuple[int, ...], *arrays: Any) -> Iterator[tuple[Any, ...]]:
    """The parts of every array for each element of the batch: views, to be written."""
    import numpy as np

    for at in np.ndindex(*batch):
        yield tuple(a[at] for a in arrays)


def factor_lu(A: Any) -> tuple[Any, Any, Any]:
    """`getrf`: both factors in one matrix, 1-based row swaps, the first zero pivot or 0."""
    import numpy as np

    *batch, m, n = A.shape
    LU, info = columns(A), np.zeros((*batch, 1), "int32")
    pivots = np.zeros((*batch, min(m, n)), "int32")
    if m and n:
        for lu, p, i in each(tuple(batch), LU, pivots, info):
            call("getrf", A.dtype, m, n, lu, m, p, i)
    return rows(LU), pivots, info[..., 0]


def solve_triangular(A: Any, B: Any, upper: bool, unit: bool) -> Any:
    """`trsm`: the X with A X = B; broadcasts."""
    import numpy as np

    n, k = B.shape[-2:]
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    X = np.array(np.broadcast_to(B, (*batch, n, k)), order="C", copy=True)
    if X.size == 0:
        return X
    A = np.broadcast_to(np.ascontiguousarray(A), (*batch, n, n))
    one = np.ones(1, A.dtype)
    # in columns the memory is that of the transposes: Xᵀ Aᵀ = Bᵀ
    for a, x in each(batch, A, X):
        call("trsm", A.dtype, "R", "L" if upper else "U", "N", "U" if unit else "N", k, n, one, a,
             n, x, k)  # fmt: skip
    return X


def factor_qr(A: Any) -> tuple[Any, Any]:
    """`geqrf`: R above Householder's vectors, and their factors."""
    import numpy as np

    *batch, m, n = A.shape
    QR, tau = columns(A), np.zeros((*batch, min(m, n)), A.dtype)
    work, info = np.zeros(max(1, 32 * n), A.dtype), np.zeros(1, "int32")
    if m and n:
        for qr, t in each(tuple(batch), QR, tau):
            call("geqrf", A.dtype, m, n, qr, m, t, work, len(work), info)
    return rows(QR), tau


def factor_ldl(A: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """`sytrf` or `hetrf` of the lower triangles: factors, LAPACK's swaps, the first zero or 0."""
    import numpy as np

    *batch, n, _ = A.shape
    LD, pivots = columns(np.tril(A)), np.zeros((*batch, n), "int32")
    info, work = np.zeros((*batch, 1), "int32"), np.zeros(max(1, 32 * n), A.dtype)
    name = letter("trf", "sy", "he" if hermitian else "sy", A.dtype)
    if n:
        for ld, p, i in each(tuple(batch), LD, pivots, info):
            call(name, A.dtype, "L", n, ld, n, p, work, len(work), i)
    return rows(LD), pivots, info[..., 0]


def solve_ldl(LD: Any, pivots: Any, B: Any, hermitian: bool) -> Any:
    """`sytrs` or `hetrs`: the X with A X = B for the factors of A; broadcasts."""
    import numpy as np

    n, k = B.shape[-2:]
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    X = columns(np.broadcast_to(B, (*batch, n, k)))
    factors = np.broadcast_to(columns(LD), (*batch, n, n))
    swaps = np.broadcast_to(np.ascontiguousarray(pivots), (*batch, n))
    name = letter("trs", "sy", "he" if hermitian else "sy", LD.dtype)
    info = np.zeros(1, "int32")
    if X.size:
        for ld, p, x in each(batch, factors, swaps, X):
            call(name, LD.dtype, "L", n, k, ld, n, p, x, n, info)
    return rows(X)
