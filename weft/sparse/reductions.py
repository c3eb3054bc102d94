"""Sums, norms and softmax of sparse tensors, and whether two are alike."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft.sparse import arithmetic
from weft.sparse import tensor as st
from weft.sparse.tensor import SparseTensor, parts_of

__all__ = ["TABLE", "log_softmax", "softmax", "sum"]


def sum(input: SparseTensor, dim: Any = None, dtype: Any = None) -> Any:
    """The sum over all places, dense; or over those of some dimensions, dense if no sparse is left.

    Args:
        input: a sparse tensor of any shape, layout and dtype.
        dim: a dimension or several, which the result is without; None: all.
        dtype: what values are converted to before.

    Raises:
        TypeError: a tensor that is not sparse.
        IndexError: a dim that it has not.

    >>> x = weft.tensor([[0, 1, 2], [0, 3, 0]]).to_sparse()
    >>> weft.sparse.sum(x), weft.sparse.sum(x, 0).to_dense()
    (tensor(6), tensor([0, 4, 2]))
    """
    parts_of(input)
    x = st.as_coo(st.flat(input))
    values = st.elements(x)
    if dtype is not None:
        values = values.to(dtype)
    if dim is None:
        return values.sum()
    dims = sorted({arithmetic._dim(d, x) for d in ([dim] if isinstance(dim, int) else dim)})
    k = x._parts.sparse_dim
    inner = [d - k + 1 for d in dims if d >= k]
    if inner:
        values = values.sum(inner)
    kept = [d for d in range(k) if d not in dims]
    if not kept:
        return values.sum(0)
    shape = [s for d, s in enumerate(x.shape) if d not in dims]
    indices = st.places(x._parts)
    if len(kept) == k:
        return st.coo(indices, values, shape, x._parts.coalesced)
    return st.coalesce(st.coo(indices[weft.tensor(kept, dtype=_C.int64)], values, shape))


def _sum(
    x: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    result = sum(x, dim, dtype)
    if keepdim and dim is not None:
        dims = sorted({arithmetic._dim(d, x) for d in ([dim] if isinstance(dim, int) else dim)})
        for d in dims:
            result = result.unsqueeze(d)
    return arithmetic._written(out, result)


def _groups(x: SparseTensor, dim: int) -> tuple[Tensor, int]:
    """For each element the number of its line along a sparse `dim`, and how many there are."""
    indices, k = st.places(x._parts), x._parts.sparse_dim
    kept = [d for d in range(k) if d != dim]
    flat = st.keys(indices[weft.tensor(kept, dtype=_C.int64)], [x.shape[d] for d in kept])
    found, group = weft.unique(flat, return_inverse=True)
    return group, found.shape[0]


def _log_softmax_values(values: Tensor, group: Tensor, count: int) -> Tensor:
    """The log-softmax over the elements of each group."""
    if not values.shape[0]:
        return values
    places = group.view(-1, *[1] * (values.dim() - 1)).expand(values.shape)
    low = values.new_full((count, *values.shape[1:]), float("-inf"))
    top = low.scatter_reduce(0, places, values.detach(), "amax")[group]
    shifted = values - top
    sums = weft.zeros_like(low).index_add(0, group, shifted.exp())
    return shifted - sums.log()[group]


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The log-softmax along `dim` over the elements that are there; others count as -inf.

    Args:
        input: a sparse tensor of any shape.
        dim: a dimension.
        dtype: what values are converted to before.

    Returns: a COO tensor of input's shape, with elements at the same places.

    Raises:
        TypeError: a tensor that is not sparse.
        IndexError: a dim that it has not.
        RuntimeError: a dtype that is not floating.

    >>> x = weft.tensor([[1.0, 1.0, 0.0], [0.0, 5.0, 0.0]]).to_sparse()
    >>> weft.sparse.log_softmax(x, dim=1).values()
    tensor([-0.6931, -0.6931,  0.0000])
    """
    parts_of(input)
    x = st.coalesce(st.as_coo(input))
    d, k = arithmetic._dim(dim, x), x._parts.sparse_dim
    values = st.elements(x)
    if dtype is not None:
        values = values.to(dtype)
    if not values.is_floating_point():
        raise RuntimeError(
            f"[softmax] expected a floating dtype, got {values.dtype} (softmax_backend not "
            "implemented for integers)"
        )
    if d >= k:
        return st.with_values(x, values.log_softmax(d - k + 1))
    group, count = _groups(x, d)
    return st.with_values(x, _log_softmax_values(values, group, count))


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The softmax along `dim` over the elements that are there; others count as -inf.

    Args:
        input: a sparse tensor of any shape.
        dim: a dimension.
        dtype: what values are converted to before.

    Returns: a COO tensor of input's shape, with elements at the same places.

    Raises:
        TypeError: a tensor that is not sparse.
        IndexError: a dim that it has not.
        RuntimeError: a dtype that is not floating.

    >>> x = weft.eye(2).to_sparse()
    >>> weft.sparse.softmax(x, dim=1).values()
    tensor([1., 1.])
    """
    x = log_softmax(input, dim, dtype=dtype)
    return st.with_values(x, st.elements(x).exp())


def _norm(x: SparseTensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, **k: Any) -> Any:
    if dim not in (None, (), []) or k.get("out") is not None:
        raise NotImplementedError(
            "[norm] expected the norm over all elements, got a dim (norm_sparse currently only "
            "supports full reductions, so 'dim' must be empty or contain all dimensions of input)"
        )
    order = 2 if p in ("fro", None) else p
    values = st.elements(st.coalesce(x))
    return weft.linalg.vector_norm(values, order, dtype=k.get("dtype"))


def _vector_norm(x: SparseTensor, ord: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    return _norm(x, ord, dim, keepdim)


def _alike(name: str) -> Any:
    """A comparison of two sparse tensors, which may lie at other places: that of their elements."""

    def run(a: Tensor, b: Tensor, *args: Any, **kwargs: Any) -> bool:
        if not (isinstance(a, SparseTensor) and isinstance(b, SparseTensor)):
            raise RuntimeError(f"[{name}] expected two sparse tensors, got a dense one")
        if tuple(a.shape) != tuple(b.shape):
            if name == "equal":
                return False
            raise RuntimeError(f"[{name}] expected one shape, got {a.shape} and {b.shape}")
        x, y = st.coalesce(st.as_coo(a)), st.coalesce(st.as_coo(b))
        if x._parts.sparse_dim != y._parts.sparse_dim:
            raise RuntimeError(f"[{name}] expected as many sparse dimensions, got two numbers")
        sizes = tuple(x.shape)[: x._parts.sparse_dim]
        joined = weft.cat([st.places(x._parts), st.places(y._parts)], 1)
        places = st.unravelled(weft.unique(st.keys(joined, sizes)), sizes)
        both = x._parts._replace(indices=places, coalesced=True)
        mine, other = st.at(x, both, x.shape), st.at(y, both, x.shape)
        return bool(getattr(weft, name)(mine, other, *args, **kwargs))

    return run


TABLE: dict[str, Any] = {
    "sum": _sum,
    "_sparse_sum": sum,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "norm": _norm,
    "linalg_vector_norm": _vector_norm,
    "vector_norm": _vector_norm,
    "equal": _alike("equal"),
    "allclose": _alike("allclose"),
}
