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


def columns(A: Any) -> Any:
    """A copy of the matrices of A whose columns lie behind each other; transposed, as NumPy sees
    it."""
    import numpy as np

    return np.array(np.swapaxes(A, -1, -2), order="C", copy=True)


def rows(A: Any) -> Any:
    """What `columns` made, as matrices again."""
    import numpy as np

    return np.ascontiguousarray(np.swapaxes(A, -1, -2))


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
