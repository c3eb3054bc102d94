"""Sparse tensors asked for what they are, and made into others with the same values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import _C, Tensor
from weft.base.names import layout, sparse_coo, sparse_csc, sparse_csr, strided
from weft.sparse import tensor as st
from weft.sparse.tensor import Parts, SparseTensor, parts_of, raw

__all__ = ["TABLE"]


def _coo_only(name: str, x: SparseTensor) -> Parts:
    parts = parts_of(x)
    if parts.layout is not sparse_coo:
        raise RuntimeError(
            f"[{name}] expected a COO tensor, got {parts.layout} ({name} expected sparse "
            f"coordinate tensor layout but got {st.COMPRESSED[parts.layout].words})"
        )
    return parts


def _compressed_only(name: str, wanted: layout, field: str) -> Any:
    """The question for a part of a matrix in CSR or CSC."""

    def ask(x: SparseTensor) -> Any:
        parts = parts_of(x)
        if parts.layout is not wanted:
            lines = "column" if st.COMPRESSED[wanted].dim else "row"
            known = st.COMPRESSED.get(parts.layout)
            raise RuntimeError(
                f"[{name}] expected a tensor of {wanted}, got {parts.layout} ({name} expected "
                f"sparse {lines} compressed tensor layout but got "
                f"{known.words if known else 'Sparse'})"
            )
        return getattr(parts, field)

    return ask


def _expect_coalesced(name: str, parts: Parts) -> None:
    if not parts.coalesced and parts.layout is sparse_coo:
        raise RuntimeError(
            f"[{name}] expected a coalesced tensor, got one that is not (Cannot get {name} on an "
            "uncoalesced tensor, please call .coalesce() first)"
        )


def _indices(x: SparseTensor) -> Tensor:
    parts = _coo_only("indices", x)
    _expect_coalesced("indices", parts)
    return _raw_indices(x)


def _raw_indices(x: SparseTensor) -> Tensor:
    indices = _coo_only("_indices", x).indices
    assert indices is not None
    return indices


def _values(x: SparseTensor) -> Tensor:
    _expect_coalesced("values", parts_of(x))
    return st.elements(x)


def _coalesce(x: SparseTensor) -> SparseTensor:
    _coo_only("coalesce", x)
    return st.coalesce(x)


def _mark_coalesced(x: SparseTensor, coalesced: bool) -> SparseTensor:
    x._parts = _coo_only("_coalesced_", x)._replace(coalesced=bool(coalesced))
    return x


def _nnz(x: SparseTensor) -> int:
    return int(parts_of(x).values.shape[0])


def _dense_dim(x: SparseTensor) -> int:
    return int(parts_of(x).values.dim()) - 1


# ---- other layouts


def _to_dense(x: SparseTensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    out = st.dense(x) if masked_grad is not False else _ToDense.apply(x)
    return out if dtype is None else out.to(dtype)


class _ToDense(weft.autograd.Function):
    """All elements; the gradient is dense as it comes."""

    @staticmethod
    def forward(ctx: Any, x: SparseTensor) -> Tensor:
        return st.dense(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def _to_layout(x: SparseTensor, wanted: layout) -> Any:
    if wanted is strided:
        return st.dense(x)
    if wanted is not sparse_coo and wanted not in st.COMPRESSED:
        raise NotImplementedError(
            "[to_sparse] expected layout torch.sparse_coo, torch.sparse_csr or torch.sparse_csc, "
            f"got {wanted}"
        )
    return st.in_layout(x, wanted)


def _to_sparse(
    x: SparseTensor,
    sparse_dim: Any = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Any:
    if blocksize is not None:
        raise NotImplementedError("[to_sparse] expected no blocksize: there are no blocked layouts")
    if isinstance(sparse_dim, int) and sparse_dim != parts_of(x).sparse_dim:
        raise RuntimeError(
            f"[to_sparse] expected {parts_of(x).sparse_dim} sparse dimensions, got {sparse_dim} "
            "(to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self."
            "sparse_dim() is not supported)"
        )
    if dense_dim is not None and dense_dim != _dense_dim(x):
        raise RuntimeError(f"[to_sparse] expected dense_dim {_dense_dim(x)}, got {dense_dim}")
    return _to_layout(x, sparse_coo if layout is None else layout)


def _to_compressed(name: str, wanted: layout) -> Any:
    def convert(x: SparseTensor, dense_dim: int | None = None) -> SparseTensor:
        if dense_dim is not None and dense_dim != _dense_dim(x):
            raise RuntimeError(f"[{name}] expected dense_dim {_dense_dim(x)}, got {dense_dim}")
        return st.as_compressed(x, wanted)

    return convert


def _sparse_mask(dense: Tensor, mask: SparseTensor) -> SparseTensor:
    """What `dense` has at the places of `mask`."""
    parts = parts_of(mask)
    if tuple(dense.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"[sparse_mask] expected one shape (sparse_mask(): operands have incompatible sizes; "
            f"self has size {list(dense.shape)} but mask has size {list(mask.shape)}), got two"
        )
    if isinstance(dense, SparseTensor):
        dense = st.as_coo(dense)
    values = st.at(dense, parts, tuple(mask.shape))
    return st.build(parts, values, mask.shape)


# ---- copies


def _clone(x: SparseTensor, *, memory_format: Any = None) -> SparseTensor:
    once = x._parts.coalesced or x._parts.indices is None
    return st.with_values(x, st.elements(x).clone()) if once else _clone_flat(x)


def _clone_flat(x: SparseTensor) -> SparseTensor:
    """An uncoalesced one keeps its places; its gradient is that of the copy."""
    copy: SparseTensor = _Same.apply(x)
    return copy


class _Same(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: SparseTensor) -> SparseTensor:
        return st.copied(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def _detach(x: SparseTensor) -> SparseTensor:
    return st.shell(x._parts, x.shape)


def _detach_in_place(x: SparseTensor) -> SparseTensor:
    raw(lambda: x.detach_())
    return x


def _to(x: SparseTensor, *args: Any, copy: bool = False, **kwargs: Any) -> SparseTensor:
    """Other dtypes of the values; there is one device."""
    other = args[0] if args else kwargs.get("other")
    if isinstance(other, SparseTensor):
        args, kwargs = (other.dtype, *args[1:]), {}
    values = st.elements(st.flat(x))
    converted = values.to(*args, **kwargs)
    if converted.dtype is x._parts.values.dtype:
        return _clone(x) if copy else x
    return st.with_values(st.flat(x), converted)


def _converter(name: str) -> Any:
    kind = getattr(_C, {"float": "float32", "double": "float64", "half": "float16",
                        "long": "int64", "int": "int32", "short": "int16", "char": "int8",
                        "byte": "uint8", "cfloat": "complex64",
                        "cdouble": "complex128"}.get(name, name))  # fmt: skip
    return lambda x, **kwargs: _to(x, kind)


def _copy_in_place(x: Any, source: Any, non_blocking: bool = False) -> Any:
    if not isinstance(x, SparseTensor) or not isinstance(source, SparseTensor):
        raise RuntimeError(
            "[copy_] expected two sparse tensors, got a dense one (copy_() between dense and "
            "sparse Tensors is not implemented! Found self type = "
            f"{x.type()} and src type = {source.type()})"
        )
    if tuple(x.shape) != tuple(source.shape):
        raise RuntimeError(
            f"[copy_] expected a source of shape {list(x.shape)}, got {list(source.shape)}"
        )
    return write(x, st.like(x, st.as_coo(source)))


def write(x: SparseTensor, result: SparseTensor) -> SparseTensor:
    """`x` takes the places and values of `result`. Raises where that would have to be recorded."""
    shell_wants = raw(lambda: x.requires_grad) or raw(lambda: result.requires_grad)
    if shell_wants and _C.is_grad_enabled():
        raise RuntimeError(
            "[sparse] expected an in-place operation outside of the graph, got one on a sparse "
            "tensor that requires grad. Hint: use the operation that gives a new tensor"
        )
    values = result._parts.values.to(x._parts.values.dtype)
    if result._parts.same_places(x._parts):
        x._parts.values.copy_(values)
    else:
        x._parts = result._parts._replace(values=values)
    return x


def _zero_in_place(x: SparseTensor) -> SparseTensor:
    return write(x, _empty(x.shape, x._parts))


def _empty(shape: Sequence[int], like: Parts, dtype: Any = None) -> SparseTensor:
    """A tensor without elements, in the layout of `like`."""
    values = like.values.new_empty((0, *like.values.shape[1:]), dtype=dtype or like.values.dtype)
    none = weft.zeros(like.sparse_dim, 0, dtype=_C.int64)
    out = st.coo(none, values, shape, True)
    return st.in_layout(out, like.layout)


def _zeros_like(x: SparseTensor, *, dtype: Any = None, **kwargs: Any) -> SparseTensor:
    wanted = kwargs.pop("layout", None)
    requires_grad = bool(kwargs.pop("requires_grad", False))
    out: Any = _empty(x.shape, parts_of(x), dtype)
    out = out if wanted is None else _to_layout(out, wanted)
    if requires_grad:
        out.requires_grad_()
    return out  # type: ignore[no-any-return]


def _sparse_resize(x: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Any:
    """Another size, which may only grow while there are elements."""
    parts = _coo_only("sparse_resize_", x)
    same = (sparse_dim, dense_dim) == (parts.sparse_dim, parts.values.dim() - 1)
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"[sparse_resize_] expected sparse_dim + dense_dim sizes ('len(size) == sparse_dim + "
            f"dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {sparse_dim}, "
            f"dense_dim = {dense_dim}), got {list(size)}"
        )
    grows = same and all(a >= b for a, b in zip(size, x.shape, strict=True))
    dense_same = same and list(size[sparse_dim:]) == list(x.shape[sparse_dim:])
    if parts.values.shape[0] and not (grows and dense_same):
        raise RuntimeError(
            "[sparse_resize_] expected a size that holds all elements, got a smaller one or other "
            "dimensions (shrinking the size of sparse dimensions (from "
            f"{list(x.shape)} to {list(size)}) on a non-empty sparse tensor is not supported)"
        )
    values = parts.values
    if not parts.values.shape[0]:
        values = values.new_zeros((0, *size[sparse_dim:]))
        parts = parts._replace(indices=weft.zeros(sparse_dim, 0, dtype=_C.int64), values=values)
    other = st.shell(parts, size)
    raw(lambda: Tensor.set_(x, other))
    x._parts = parts
    return x


def _contiguous(x: SparseTensor, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "[contiguous] expected a dense tensor, got a sparse one (unsupported memory format option "
        "Contiguous)"
    )


def _no_memory(name: str, sentence: str, kind: type[Exception]) -> Any:
    def refuse(x: Any, *args: Any, **kwargs: Any) -> Any:
        raise kind(f"[{name}] expected a dense tensor, got a sparse one ({sentence})")

    return refuse


def _type(x: SparseTensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    if dtype is not None:
        return _to(x, weft.empty(0).type(dtype).dtype if isinstance(dtype, str) else dtype)
    return "torch.sparse." + x._parts.values.type().removeprefix("torch.")


_NO_NUMPY = "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first."
_NO_POINTER = "Cannot access data pointer of Tensor that doesn't have storage"
_NO_STORAGE = "Cannot access storage of SparseTensorImpl"

TABLE: dict[str, Any] = {
    "layout": lambda x: parts_of(x).layout,
    "is_sparse": lambda x: parts_of(x).layout is sparse_coo,
    "is_sparse_csr": lambda x: parts_of(x).layout is sparse_csr,
    "sparse_dim": lambda x: parts_of(x).sparse_dim,
    "dense_dim": _dense_dim,
    "_dimI": lambda x: parts_of(x).sparse_dim,
    "_dimV": _dense_dim,
    "_nnz": _nnz,
    "indices": _indices,
    "_indices": _raw_indices,
    "values": _values,
    "_values": lambda x: parts_of(x).values,
    "is_coalesced": lambda x: _coo_only("is_coalesced", x).coalesced,
    "_coalesced_": _mark_coalesced,
    "coalesce": _coalesce,
    **{
        name: _compressed_only(name, kind, field)
        for kind, known in st.COMPRESSED.items()
        for name, field in ((known.compressed, "compressed"), (known.plain, "plain"))
    },
    "to_dense": _to_dense,
    "to_sparse": _to_sparse,
    "to_sparse_coo": st.as_coo,
    "to_sparse_csr": _to_compressed("to_sparse_csr", sparse_csr),
    "to_sparse_csc": _to_compressed("to_sparse_csc", sparse_csc),
    "sparse_mask": _sparse_mask,
    "sparse_resize_": _sparse_resize,
    "clone": _clone,
    "detach": _detach,
    "detach_": _detach_in_place,
    "data": _detach,
    "to": _to,
    "cpu": lambda x, **kwargs: x,
    "copy_": _copy_in_place,
    "zero_": _zero_in_place,
    "zeros_like": _zeros_like,
    "empty_like": _zeros_like,
    "is_contiguous": lambda x, **kwargs: False,
    "contiguous": _contiguous,
    "type": _type,
    "numpy": _no_memory("numpy", _NO_NUMPY, TypeError),
    "__array__": _no_memory("numpy", _NO_NUMPY, TypeError),
    "__dlpack__": _no_memory("dlpack", _NO_POINTER, BufferError),
    "tolist": _no_memory("tolist", _NO_POINTER, RuntimeError),
    "data_ptr": _no_memory("data_ptr", _NO_POINTER, RuntimeError),
    "storage": _no_memory("storage", _NO_STORAGE, NotImplementedError),
    "untyped_storage": _no_memory("untyped_storage", _NO_STORAGE, NotImplementedError),
    **{
        name: _converter(name)
        for name in ("float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte",
                     "bool", "cfloat", "cdouble")
    },
}  # fmt: skip
