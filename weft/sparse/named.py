"""The functions of `weft.sparse`, and its types by the dtypes' names."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft.base import checks as _checks
from weft.sparse import create, products, reductions
from weft.sparse.tensor import SparseTensor

__all__ = [
    "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor", "addmm", "dsmm", "hsmm", "hspmm", "log_softmax", "mm",
    "saddmm", "sampled_addmm", "smm", "softmax", "spmm", "sum",
]  # fmt: skip

softmax, log_softmax, sum = reductions.softmax, reductions.log_softmax, reductions.sum
sampled_addmm = products.sampled_addmm


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Any:
    """The product of two matrices of which one at least is sparse: dense unless both are.

    Args:
        mat1: `(n, k)`.
        mat2: `(k, m)`.
        reduce: what becomes of the products of a row with a column: `"sum"`, and where only `mat1`
            is sparse also `"mean"`, `"amax"` and `"amin"`, over its elements.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, or another `reduce`.

    >>> import weft
    >>> a = weft.eye(2).to_sparse().requires_grad_()
    >>> weft.sparse.mm(a, weft.tensor([[1.0], [2.0]])).sum().backward()
    >>> a.grad.coalesce().values()
    tensor([1., 2.])
    """
    return weft.mm(mat1, mat2) if reduce == "sum" else products.reduced_mm(mat1, mat2, reduce)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * mat + alpha * (mat1 @ mat2)`, as `weft.addmm`; `mat1` may be sparse.

    Args:
        mat: `(n, m)`, dense unless both others are sparse.
        mat1: `(n, k)`.
        mat2: `(k, m)`.
        beta, alpha: numbers.

    Raises:
        RuntimeError: shapes or dtypes that do not fit.

    >>> weft.sparse.addmm(weft.ones(2, 1), weft.eye(2).to_sparse(), weft.ones(2, 1), alpha=3)
    tensor([[4.],
            [4.]])
    """
    return weft.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def spmm(input: Tensor, mat2: Tensor) -> Any:
    """`mm` by its older name.

    [n, m] @ [m, k] give [n, k].

    >>> weft.spmm(weft.eye(2).to_sparse(), weft.ones(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return weft.mm(input, mat2)


def hspmm(mat1: Tensor, mat2: Tensor, *, out: Any = None) -> Any:
    """The product of a sparse and a dense matrix, with the rows that have elements.

    [n, m] @ [m, k] give [n, k].

    Raises:
        RuntimeError: shapes or dtypes that do not fit.

    >>> weft.hspmm(weft.eye(2).to_sparse(), weft.ones(2, 2)).to_dense()
    tensor([[1., 1.],
            [1., 1.]])
    """
    return products.hspmm(mat1, mat2, out=out)


def smm(input: Tensor, mat: Tensor) -> Any:
    """The product of a sparse and a dense matrix, as a sparse tensor.

    [n, m] @ [m, k] give [n, k].

    Raises:
        RuntimeError: shapes or dtypes that do not fit.

    >>> weft.smm(weft.eye(2).to_sparse(), weft.ones(2, 2)).to_dense()
    tensor([[1., 1.],
            [1., 1.]])
    """
    return products.smm(input, mat)


def saddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`addmm` by its older name.

    [n, k] and [n, m] @ [m, k] give [n, k].

    >>> weft.saddmm(weft.ones(2, 2), weft.eye(2).to_sparse(), weft.ones(2, 2))
    tensor([[2., 2.],
            [2., 2.]])
    """
    return weft.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


dsmm, hsmm = spmm, hspmm


def _typed(name: str, dtype: Any) -> Any:
    """The type `sparse.FloatTensor`, by its older way to be called."""

    class Kind(type):
        def __instancecheck__(cls, thing: Any) -> bool:
            return isinstance(thing, SparseTensor) and thing.dtype is dtype

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if not args:
                return create.sparse_coo_tensor((0,), dtype=dtype)
            if all(isinstance(a, int) for a in args):
                return create.sparse_coo_tensor(args, dtype=dtype)
            return create.sparse_coo_tensor(*args, dtype=dtype, **kwargs)

    known = str(dtype).replace("torch.", "weft.")
    doc = f"""Sparse tensors of {known}: `{name}(indices, values, size)` makes one.

    `{name}()` and `{name}(*size)` make one without elements; `isinstance` asks for both, layout and
    dtype.

    Args:
        indices: int64 of shape (sparse_dim, n).
        values: `{known}` of shape (n, *dense sizes).
        size: the shape; by default as large as the indices need.

    Raises:
        RuntimeError: shapes that do not fit, indices outside of `size`.

    >>> x = weft.sparse.{name}(weft.tensor([[0, 2]]), weft.tensor([3, 4]).to({known}), (3,))
    >>> x.to_dense().tolist() == [3, 0, 4], isinstance(x, weft.sparse.{name})
    (True, True)
    """
    return Kind(name, (), {"__doc__": doc, "__module__": "weft.sparse", "dtype": dtype})


BFloat16Tensor = _typed("BFloat16Tensor", _C.bfloat16)
ByteTensor = _typed("ByteTensor", _C.uint8)
CharTensor = _typed("CharTensor", _C.int8)
DoubleTensor = _typed("DoubleTensor", _C.float64)
FloatTensor = _typed("FloatTensor", _C.float32)
HalfTensor = _typed("HalfTensor", _C.float16)
IntTensor = _typed("IntTensor", _C.int32)
LongTensor = _typed("LongTensor", _C.int64)
ShortTensor = _typed("ShortTensor", _C.int16)

_checks.install(__name__)
