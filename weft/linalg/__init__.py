"""Linear algebra: `weft.linalg`. LAPACK by NumPy, gradients over weft's ops.

Matrices are the last two dimensions; those before are batches.

>>> import weft
>>> A = weft.tensor([[2., 0.], [0., 4.]])
>>> weft.linalg.solve(A, weft.tensor([2., 4.]))
tensor([1., 1.])
"""

from weft.linalg.checks import LinAlgError
from weft.linalg.decompositions import (
    cholesky,
    cholesky_ex,
    eigh,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from weft.linalg.products import (
    cond,
    cross,
    diagonal,
    matmul,
    matrix_norm,
    matrix_power,
    matrix_rank,
    multi_dot,
    norm,
    vander,
    vecdot,
    vector_norm,
)
from weft.linalg.systems import (
    det,
    inv,
    inv_ex,
    lstsq,
    pinv,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "inv_ex",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
