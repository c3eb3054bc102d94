"""Products of matrices of which one is sparse."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft.base.names import sparse_csr
from weft.sparse import arithmetic
from weft.sparse import tensor as st
from weft.sparse.tensor import SparseTensor

__all__ = ["TABLE", "addmm", "hspmm", "mm", "mm_reduce", "reduced_mm", "sampled_addmm", "smm"]


def _expect_matrices(name: str, a: Tensor, b: Tensor) -> None:
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError(
            f"[{name}] expected matrices (mat1 and mat2 must be matrices), got tensors of "
            f"{a.dim()} and {b.dim()} dimensions"
        )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"[{name}] expected as many columns as rows, got {list(a.shape)} and {list(b.shape)} "
            f"(mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]}); addmm: Argument #3 (dense): Expected dim 0 size "
            f"{a.shape[1]}, got {b.shape[0]})"
        )
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"[{name}] expected operands of one dtype (expected m1 and m2 to have the same dtype), "
            f"got {a.dtype} and {b.dtype}"
        )
    for x in (a, b):
        if isinstance(x, SparseTensor) and x._parts.values.dim() != 1:
            raise RuntimeError(
                f"[{name}] expected a sparse matrix without dense dimensions, got "
                f"{x._parts.values.dim() - 1} (addmm: scalar values expected)"
            )


def _rows_times(x: SparseTensor, dense: Tensor) -> Tensor:
    """`x @ dense`: each element times its row of `dense`, added up in its row."""
    x = st.flat(x)
    rows, cols = st.places(x._parts)
    if dense.dtype.is_floating_point:
        found: Tensor = _C.ops._sparse_product(rows, cols, st.elements(x), dense, x.shape[0])
        return found
    out = weft.zeros(x.shape[0], dense.shape[1], dtype=dense.dtype)
    return out.index_add(0, rows, st.elements(x).unsqueeze(1) * dense.index_select(0, cols))


def _sparse_product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Each element of `a` with those of the row of `b` that its column names."""
    x, y = st.as_coo(st.flat(a)), st.coalesce(st.as_coo(b))
    (rows, cols), (mid, last) = st.places(x._parts), st.places(y._parts)
    counts = weft.bincount(mid, minlength=y.shape[0])
    starts = counts.cumsum(0) - counts
    each = counts[cols]
    source = weft.arange(cols.shape[0]).repeat_interleave(each)
    within = weft.arange(source.shape[0]) - (each.cumsum(0) - each)[source]
    found = starts[cols[source]] + within
    values = st.elements(x)[source] * st.elements(y)[found]
    out = st.coo(weft.stack([rows[source], last[found]]), values, (a.shape[0], b.shape[1]))
    return st.like(a, st.coalesce(out))


def mm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Any:
    """The product of two matrices: dense unless both are sparse."""
    _expect_matrices("mm", input, mat2)
    if isinstance(input, SparseTensor) and isinstance(mat2, SparseTensor):
        result: Any = _sparse_product(input, mat2)
    elif isinstance(input, SparseTensor):
        result = _rows_times(input, mat2)
    else:
        result = _rows_times(arithmetic._t(_sparse(mat2)), input.t()).t()
    return arithmetic._written(out, result)


def reduced_mm(mat1: Tensor, mat2: Tensor, reduce: str) -> Any:
    """The matrix of `reduce` over what `mm` adds up: 0 in a row without elements."""
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("mean", "amax", "amin"):
        raise RuntimeError(
            f"[mm] expected reduce='sum', 'mean', 'amax' or 'amin', got {reduce!r} (reduce type of "
            f"{reduce} has not been enabled)"
        )
    _expect_matrices("mm", mat1, mat2)
    if not isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor):
        raise RuntimeError("[mm] expected a sparse and a dense matrix with reduce, got others")
    x = st.flat(mat1)
    rows, cols = st.places(x._parts)
    parts = st.elements(x).unsqueeze(1) * mat2.index_select(0, cols)
    out = weft.zeros(x.shape[0], mat2.shape[1], dtype=parts.dtype)
    return out.index_reduce(0, rows, parts, reduce, include_self=False)


def _sparse(x: Tensor) -> SparseTensor:
    assert isinstance(x, SparseTensor)
    return x


def _mv(input: Tensor, vec: Tensor, *, out: Any = None) -> Any:
    if input.dim() != 2 or vec.dim() != 1 or isinstance(vec, SparseTensor):
        raise RuntimeError(
            f"[mv] expected a sparse matrix and a dense vector, got {list(input.shape)} and "
            f"{list(vec.shape)}"
        )
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"[mv] expected a vector of {input.shape[1]}, got {vec.shape[0]} (mv: expected "
            f"self.size(-1) == vec.size(-1))"
        )
    return arithmetic._written(out, mm(input, vec.unsqueeze(1)).squeeze(1))


def _matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    if input.dim() == 2 and other.dim() == 1:
        return _mv(input, other, out=out)
    if input.dim() == 1 and other.dim() == 2:
        return _mv(arithmetic._t(other), input, out=out)
    if input.dim() != 2 or other.dim() != 2:
        raise NotImplementedError(
            f"[matmul] expected matrices or a vector where one is sparse, got {list(input.shape)} "
            f"and {list(other.shape)}"
        )
    return mm(input, other, out=out)


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)`."""
    product = mm(mat1, mat2)
    product = product if alpha == 1 else arithmetic._scaled(product, alpha)
    if not isinstance(product, SparseTensor) and isinstance(input, SparseTensor):
        raise RuntimeError(
            "[addmm] expected a dense input with a dense product, got a sparse one (addmm: "
            "expected self to be dense)"
        )
    if beta == 0:
        return arithmetic._written(out, product)
    shown = input if beta == 1 else arithmetic._scaled(input, beta)
    if isinstance(product, SparseTensor):
        return arithmetic._written(out, arithmetic._add(shown, product))
    return arithmetic._written(out, shown + product)


def sampled_addmm(
    input: SparseTensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Any = 1.0,
    alpha: Any = 1.0,
    out: Any = None,
) -> Any:
    """`alpha * (mat1 @ mat2)` at the places of `input`, plus `beta * input`.

    Args:
        input: `(n, m)`, of layout CSR.
        mat1: `(n, k)`, dense.
        mat2: `(k, m)`, dense.
        beta, alpha: numbers.
        out: what the result is written into.

    Returns: CSR, with the places of `input`.

    Raises:
        RuntimeError: another layout, or shapes that do not fit.

    >>> x = weft.eye(2).to_sparse_csr()
    >>> weft.sparse.sampled_addmm(x, weft.ones(2, 3), weft.ones(3, 2)).values()
    tensor([4., 4.])
    """
    if not isinstance(input, SparseTensor) or input._parts.layout is not sparse_csr:
        raise RuntimeError(
            "[sampled_addmm] expected a CSR input (sampled_addmm: Expected self to be a sparse CSR "
            "tensor), got another layout"
        )
    if mat1.dim() != 2 or mat2.dim() != 2 or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"[sampled_addmm] expected two matrices that can be multiplied, got "
            f"{list(mat1.shape)} and {list(mat2.shape)}"
        )
    if (mat1.shape[0], mat2.shape[1]) != tuple(input.shape):
        raise RuntimeError(
            f"[sampled_addmm] expected an input of the product's shape, got {list(input.shape)} for"
            f" {[mat1.shape[0], mat2.shape[1]]} (sampled_addmm: self.shape[-2:] must match the "
            "product)"
        )
    rows, cols = st.places(input._parts)
    if mat1.dtype.is_floating_point:
        product = _C.ops._sparse_dots(rows, cols, mat1, mat2.t())
    else:
        product = (mat1.index_select(0, rows) * mat2.t().index_select(0, cols)).sum(1)
    values = alpha * product
    if beta != 0:
        values = values + beta * st.elements(input)
    return arithmetic._written(out, st.with_values(input, values))


def hspmm(mat1: Tensor, mat2: Tensor, *, out: Any = None) -> Any:
    """The rows of the product that have elements: one sparse and one dense dimension."""
    _expect_matrices("hspmm", mat1, mat2)
    st.parts_of(mat1)
    x = st.coalesce(st.as_coo(_sparse(mat1)))
    rows, cols = st.places(x._parts)
    products = st.elements(x).unsqueeze(1) * mat2.index_select(0, cols)
    shape = (mat1.shape[0], mat2.shape[1])
    return arithmetic._written(out, st.coalesce(st.coo(rows.unsqueeze(0), products, shape)))


def _addmm_in_place(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return arithmetic._in_place(addmm)(x, mat1, mat2, beta=beta, alpha=alpha)


def mm_reduce(mat1: Tensor, mat2: Tensor, reduce: str) -> Any:
    """As `sparse.mm`; and no places of what was largest, which only PyTorch's backward reads."""
    product = weft.sparse.mm(mat1, mat2, reduce)
    return product, weft.empty(0, dtype=weft.int64)


def smm(input: Tensor, mat: Tensor) -> Any:
    """The product as a sparse tensor."""
    return mm(input, mat).to_sparse()


TABLE: dict[str, Any] = {
    "mm": mm,
    "mv": _mv,
    "matmul": _matmul,
    "__rmatmul__": lambda x, other: _matmul(other, x),
    "addmm": addmm,
    "addmm_": _addmm_in_place,
    "hspmm": hspmm,
    "smm": smm,
    "sparse_sampled_addmm": sampled_addmm,
    "_sparse_addmm": addmm,
    "_sparse_mm_reduce_impl": mm_reduce,
}
