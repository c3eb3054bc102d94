"""Linear algebra: `weft.linalg`. Ops of the core over OpenBLAS's LAPACK, batched, with gradients.

Matrices are the last two dimensions; those before are batches.

>>> import weft
>>> A = weft.tensor([[2., 0.], [0., 4.]])
>>> weft.linalg.solve(A, weft.tensor([2., 4.]))
tensor([1., 1.])
"""

from weft.base import checks as _checks
from weft.base.forms import with_out as _with_out
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
from weft.linalg.eigen import eig, eigvals, matrix_exp
from weft.linalg.factors import (
    ldl_factor,
    ldl_factor_ex,
    ldl_solve,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
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
from weft.linalg.reflections import householder_product
from weft.linalg.systems import (
    det,
    inv,
    inv_ex,
    lstsq,
    pinv,
    slogdet,
    solve,
    solve_ex,
    tensorinv,
    tensorsolve,
)
from weft.linalg.triangular import solve_triangular

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
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

for _name in __all__:
    if _name not in ("LinAlgError", "diagonal", "matmul"):
        globals()[_name] = _with_out(f"linalg.{_name}", globals()[_name])

_checks.install(__name__, "linalg.", ("weft.",))
