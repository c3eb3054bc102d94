"""Sparse tensors: indices and values in place of all elements; COO and CSR.

>>> import weft
>>> x = weft.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
>>> weft.sparse.mm(x, weft.ones(3, 1))
tensor([[3.],
        [4.]])

The functions that take them are the tables of this package's modules (weft/sparse/table.py); others
raise NotImplementedError.
"""

from weft.sparse import gradients as _gradients  # noqa: F401
from weft.sparse import table as _table  # noqa: F401
from weft.sparse.create import check_sparse_tensor_invariants, spdiags
from weft.sparse.named import (
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    addmm,
    log_softmax,
    mm,
    sampled_addmm,
    softmax,
    sum,
)

__all__ = [
    "BFloat16Tensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "addmm",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]
