"""Sparse tensors made from indices and values, or from dense tensors."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import weft
from weft import _C, Tensor
from weft.base import checks as _checks
from weft.base.device import expect_cpu
from weft.base.names import layout as layout_type
from weft.base.names import sparse_coo, sparse_csc, sparse_csr, strided
from weft.base.warn import warn_once
from weft.sparse import tensor as st
from weft.sparse.tensor import Parts, SparseTensor, raw

__all__ = [
    "check_sparse_tensor_invariants", "of_dense", "sparse_compressed_tensor", "sparse_coo_tensor",
    "sparse_csc_tensor", "sparse_csr_tensor", "spdiags",
]  # fmt: skip

#: Whether they are checked; None: the program has not said.
_STRICT: ContextVar[bool | None] = ContextVar("sparse invariants", default=None)


def _is_strict(asked: bool | None) -> bool:
    """What a call asked for, or else the program; where neither did, a warning says so, once."""
    chosen = _STRICT.get() if asked is None else asked
    if chosen is None:
        warn_once(
            "Sparse invariant checks are implicitly disabled. Indices are checked, the order of "
            "places is not. To silence this warning, explicitly opt in or out. See "
            "`torch.sparse.check_sparse_tensor_invariants.__doc__` for guidance."
        )
    return bool(chosen)


class check_sparse_tensor_invariants:  # noqa: N801
    """Whether the order of places is checked too: each row's of CSR, that of `is_coalesced=True`.

    That indices lie within the size is always checked. A context manager and a decorator, or
    switched by `enable` and `disable`.

    >>> import weft
    >>> with weft.sparse.check_sparse_tensor_invariants():
    ...     weft.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    @staticmethod
    def is_enabled() -> bool:
        """Whether it is on."""
        return bool(_STRICT.get())

    @staticmethod
    def enable() -> None:
        """From now on."""
        _STRICT.set(True)

    @staticmethod
    def disable() -> None:
        """No more."""
        _STRICT.set(False)

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self._before: list[bool | None] = []

    def __enter__(self) -> None:
        self._before.append(_STRICT.get())
        _STRICT.set(self.state)

    def __exit__(self, *exc: object) -> None:
        _STRICT.set(self._before.pop())

    def __call__(self, function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return run


def _fail(who: str, expected: str, got: Any, sentence: str) -> Any:
    raise RuntimeError(f"[{who}] expected {expected}, got {got} ({sentence})")


def _as_values(values: Any, dtype: Any) -> Tensor:
    out = values if isinstance(values, Tensor) else weft.tensor(values)
    out = out if dtype is None else out.to(dtype)
    return out.reshape(1) if out.dim() == 0 else out


def _as_indices(who: str, indices: Any) -> Tensor:
    out = indices if isinstance(indices, Tensor) else weft.tensor(indices)
    if out.is_floating_point() and out.numel():
        who_got = f"indices of {out.dtype}"
        if isinstance(indices, Tensor):
            _fail(who, "integers", who_got, "indices must be an int64 tensor")
    return out.detach().long().clone()


def _expect_within(indices: Tensor, size: Sequence[int]) -> None:
    if not indices.shape[1]:
        return
    for d in range(indices.shape[0]):
        low, high = int(indices[d].min()), int(indices[d].max())
        if low < 0:
            _fail("sparse_coo_tensor", "indices from 0 on", low,
                  f"found negative index {low} for dim {d}")  # fmt: skip
        if high >= size[d]:
            _fail("sparse_coo_tensor", f"indices below {size[d]}", high,
                  f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found "
                  f"index {high}")  # fmt: skip


def _inferred(indices: Tensor, values: Tensor) -> list[int]:
    """The least size that holds all places."""
    if not indices.shape[1]:
        return [0] * indices.shape[0] + list(values.shape[1:])
    _expect_within(indices, [int(s) + 1 for s in indices.amax(1).tolist()])
    return [int(s) + 1 for s in indices.amax(1).tolist()] + list(values.shape[1:])


def _expect_coo(indices: Tensor, values: Tensor, size: Sequence[int] | None) -> None:
    if indices.dim() != 2:
        _fail("sparse_coo_tensor", "indices of 2 dimensions", indices.dim(),
              f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")  # fmt: skip
    if indices.shape[1] != values.shape[0]:
        _fail("sparse_coo_tensor", "a value for each index", f"{indices.shape[1]} indices and "
              f"{values.shape[0]} values", "indices and values must have same nnz, but got nnz from"
              f" indices: {indices.shape[1]}, nnz from values: {values.shape[0]}")  # fmt: skip
    if size is None:
        return
    dense_dim = values.dim() - 1
    if len(size) != indices.shape[0] + dense_dim:
        _fail("sparse_coo_tensor", "a size for each dimension", list(size),
              f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
              f"sparse_dim = {indices.shape[0]}, dense_dim = {dense_dim}")  # fmt: skip
    if any(s < 0 for s in size):
        _fail("sparse_coo_tensor", "sizes from 0 on", list(size),
              "Trying to create tensor with negative dimension")  # fmt: skip
    if list(size[indices.shape[0] :]) != list(values.shape[1:]):
        _fail("sparse_coo_tensor", f"values of dense sizes {list(size[indices.shape[0] :])}",
              list(values.shape[1:]), "values has incorrect size")  # fmt: skip
    _expect_within(indices, size)


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Any:
    """A sparse tensor of these values at these places; one that occurs twice has their sum.

    Args:
        indices: int64 `[sparse_dim, nnz]`, or the size of a tensor without elements, which `size`
            alone says too.
        values: `[nnz, *dense sizes]`, one for each place; in the graph, it gets gradients.
        size: of the whole; the least that holds all places if it is not given.
        dtype: of the values.
        device: the CPU.
        pin_memory: false.
        requires_grad: whether the tensor, as a leaf, wants a gradient.
        check_invariants: whether a claim of `is_coalesced` is checked.
        is_coalesced: true where each place occurs once, in row-major order.

    Raises:
        RuntimeError: shapes that do not fit, or a place outside of the size.

    >>> import weft
    >>> weft.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    tensor(indices=tensor([[0, 1],
                           [2, 0]]),
           values=tensor([3., 4.]),
           size=(2, 3), nnz=2, layout=torch.sparse_coo)
    """
    expect_cpu(device)
    if pin_memory:
        weft.empty(0).pin_memory()
    strict = _is_strict(check_invariants)
    if values is None:
        if (indices is None) == (size is None):
            raise TypeError(
                "[sparse_coo_tensor] expected indices and values, or a size, got neither "
                "(sparse_coo_tensor() received an invalid combination of arguments)"
            )
        shape = list(size if indices is None else indices)
        none = weft.zeros(len(shape), 0, dtype=_C.int64)
        return _leaf(st.coo(none, weft.empty(0, dtype=dtype), shape, True), requires_grad)
    kept, places = _as_values(values, dtype), _as_indices("sparse_coo_tensor", indices)
    if not places.numel() and places.dim() == 1 and isinstance(indices, (list, tuple)):
        places = places.reshape(0, kept.shape[0]) if size is not None and not size else places
    if places.dim() == 1 and size is not None and len(size) != places.shape[0] + kept.dim() - 1:
        _fail("sparse_coo_tensor", "indices of 2 dimensions", 1,
              f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
              f"sparse_dim = {places.shape[0]}, dense_dim = {kept.dim() - 1}")  # fmt: skip
    _expect_coo(places, kept, size)
    shape = _inferred(places, kept) if size is None else [int(s) for s in size]
    claimed = bool(is_coalesced)
    if strict and claimed:
        flat = st.keys(places, shape)
        if bool((flat[1:] <= flat[:-1]).any()):
            _fail("sparse_coo_tensor", "places in order, each once", "others",
                  "cannot set is_coalesced to true if indices correspond to uncoalesced COO "
                  "tensor")  # fmt: skip
    parts = Parts(sparse_coo, places, None, None, kept.detach(), claimed)
    return _finished(st.build(parts, kept, shape), requires_grad)


def _finished(out: SparseTensor, requires_grad: bool) -> SparseTensor:
    """With `requires_grad` a leaf of its own, as PyTorch's is."""
    if requires_grad:
        return _leaf(st.shell(out._parts, out.shape), True)
    return out


def _leaf(out: SparseTensor, requires_grad: bool) -> SparseTensor:
    if requires_grad:
        raw(lambda: out.requires_grad_())
    return out


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:
    """A matrix whose rows lie after each other.

    Args:
        crow_indices: `[rows + 1]`, where each row begins; it ends with the number of elements.
        col_indices: `[nnz]`, the column of each element.
        values: `[nnz, *dense sizes]`.
        size: of the matrix; as many columns as are used if it is not given.
        dtype: of the values.
        device: the CPU.
        pin_memory: false.
        requires_grad: whether the matrix, as a leaf, wants a gradient.
        check_invariants: whether the columns of each row have to rise.

    Raises:
        RuntimeError: parts that do not fit each other or the size.

    >>> import weft
    >>> weft.sparse_csr_tensor([0, 1, 2], [1, 0], [5.0, 6.0]).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    return _compressed_tensor(
        sparse_csr, crow_indices, col_indices, values, size, dtype, device, pin_memory,
        requires_grad, check_invariants,
    )  # fmt: skip


def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:
    """A matrix whose columns lie after each other.

    Args:
        ccol_indices: `[columns + 1]`, where each column begins; it ends with the number of
            elements.
        row_indices: `[nnz]`, the row of each element.
        values: `[nnz, *dense sizes]`.
        size: of the matrix; as many rows as are used if it is not given.
        dtype, device, pin_memory, requires_grad: as of `sparse_csr_tensor`.
        check_invariants: whether the rows of each column have to rise.

    Raises:
        RuntimeError: parts that do not fit each other or the size.

    >>> import weft
    >>> weft.sparse_csc_tensor([0, 1, 2], [1, 0], [5.0, 6.0]).to_dense()
    tensor([[0., 6.],
            [5., 0.]])
    """
    return _compressed_tensor(
        sparse_csc, ccol_indices, row_indices, values, size, dtype, device, pin_memory,
        requires_grad, check_invariants,
    )  # fmt: skip


def _compressed_tensor(
    layout: layout_type, compressed_indices: Any, plain_indices: Any, values: Any, size: Any,
    dtype: Any, device: Any, pin_memory: bool, requires_grad: bool, check_invariants: Any,
) -> Any:  # fmt: skip
    expect_cpu(device)
    if pin_memory:
        weft.empty(0).pin_memory()
    dim, first, second, _ = st.COMPRESSED[layout]
    begin = _index_vector(layout, first, compressed_indices)
    plain = _index_vector(layout, second, plain_indices)
    kept = _as_values(values, dtype)
    if size is None:
        across = int(plain.max()) + 1 if plain.numel() else 0
        matrix = [max(begin.shape[0] - 1, 0), across]
        size = [*(matrix if dim == 0 else matrix[::-1]), *kept.shape[1:]]
    shape = [int(s) for s in size]
    _expect_compressed(layout, begin, plain, kept, shape, _is_strict(check_invariants))
    parts = Parts(layout, None, begin, plain, kept.detach(), dim == 0)
    return _finished(st.build(parts, kept, shape), requires_grad)


def _named(layout: layout_type) -> str:
    return f"{str(layout).removeprefix('torch.')}_tensor"


def _index_vector(layout: layout_type, name: str, indices: Any) -> Tensor:
    out = indices if isinstance(indices, Tensor) else weft.tensor(indices, dtype=_C.int64)
    _, first, second, _ = st.COMPRESSED[layout]
    who = _named(layout)
    if out.dtype not in (_C.int64, _C.int32):
        _fail(who, f"{name} of int64 or int32", out.dtype,
              f"{first} and {second} must be an int32 or int64 type, but got: "
              f"{out.dtype}")  # fmt: skip
    if out.dim() != 1:
        if out.dim() > 1:
            raise NotImplementedError(
                f"[{who}] expected {name} of 1 dimension, got {out.dim()}: there are no batches of "
                "matrices"
            )
        _fail(who, f"{name} of 1 dimension", out.dim(),
              f"{first} must have dimensionality >= 1")  # fmt: skip
    return out.detach().clone()


def _expect_compressed(
    layout: layout_type, begin: Tensor, plain: Tensor, values: Tensor, size: Sequence[int],
    strict: bool,
) -> None:  # fmt: skip
    who, nnz, (dim, first, second, _) = _named(layout), plain.shape[0], st.COMPRESSED[layout]
    if len(size) != 1 + values.dim():
        _fail(who, f"a size of {1 + values.dim()} dimensions", list(size),
              f"size of a {['CSR', 'CSC'][dim]} tensor must have 2 dimensions besides the dense "
              "ones")  # fmt: skip
    lines, across = ("rows", "columns") if dim == 0 else ("columns", "rows")
    count, length = size[dim], size[1 - dim]
    sizes = ("nrows", "ncols") if dim == 0 else ("ncols", "nrows")
    if begin.shape[0] != count + 1:
        _fail(who, f"{first} of {count + 1}", begin.shape[0],
              f"{first}.shape[-1] must be equal to the number of {lines} + 1")  # fmt: skip
    if values.shape[0] != nnz or list(values.shape[1:]) != list(size[2:]):
        _fail(who, f"a value for each of {second}", f"{nnz} and {list(values.shape)}",
              f"{second}.shape[-1] must be equal to values.shape[0]")  # fmt: skip
    steps = begin[1:] - begin[:-1]
    if int(begin[0]) != 0:
        _fail(who, f"0 first in {first}", int(begin[0]),
              f"`{first}[..., 0] == 0` is not satisfied.")  # fmt: skip
    if int(begin[-1]) != nnz:
        _fail(who, f"{nnz} last in {first}", int(begin[-1]),
              f"`{first}[..., -1] == nnz` is not satisfied.")  # fmt: skip
    if steps.numel() and not 0 <= int(steps.min()) <= int(steps.max()) <= length:
        _fail(who, f"{lines} of 0 to {length} elements", steps.tolist(),
              f"`0 <= {first}[..., 1:] - {first}[..., :-1] <= {sizes[1]}` is not "
              "satisfied.")  # fmt: skip
    if nnz and not (int(plain.min()) >= 0 and int(plain.max()) < length):
        _fail(who, f"{across} below {length}", plain.tolist(),
              f"`0 <= {second} < {sizes[1]}` is not satisfied.")  # fmt: skip
    if strict and nnz > 1:
        line = weft.arange(count).repeat_interleave(steps.long())
        same = line[1:] == line[:-1]
        if bool((same & (plain[1:] <= plain[:-1])).any()):
            _fail(who, f"{across} that rise in each of the {lines}", plain.tolist(),
                  f"`{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., "
                  f"{sizes[0]} are sorted and distinct along the last dimension values` is not "
                  "satisfied.")  # fmt: skip


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    layout: Any = None,
    **kwargs: Any,
) -> Any:
    """`sparse_csr_tensor` or `sparse_csc_tensor`, by the layout.

    Raises:
        NotImplementedError: another layout than `weft.sparse_csr` and `weft.sparse_csc`.

    >>> import weft
    >>> weft.sparse_compressed_tensor([0, 1], [0], [2.0], layout=weft.sparse_csr).layout
    torch.sparse_csr
    """
    made = {sparse_csr: sparse_csr_tensor, sparse_csc: sparse_csc_tensor}.get(layout)
    if made is None:
        raise NotImplementedError(
            "[sparse_compressed_tensor] expected layout torch.sparse_csr or torch.sparse_csc, got "
            f"{layout}"
        )
    return made(compressed_indices, plain_indices, values, size, **kwargs)


def of_dense(x: Tensor, sparse_dim: int | None, layout: layout_type, dense_dim: int | None) -> Any:
    """What of a dense tensor is not zero: `to_sparse`."""
    if layout is strided:
        raise RuntimeError("[to_sparse] expected a sparse layout, got torch.strided")
    if layout is not sparse_coo and layout not in st.COMPRESSED:
        raise NotImplementedError(
            "[to_sparse] expected layout torch.sparse_coo, torch.sparse_csr or torch.sparse_csc, "
            f"got {layout}"
        )
    n = x.dim()
    if dense_dim is not None:
        sparse_dim = n - dense_dim
    k = n if sparse_dim is None else sparse_dim
    if layout in st.COMPRESSED and (k != 2 or n < 2):
        _fail(f"to_{str(layout).removeprefix('torch.')}", "a matrix", f"{n} dimensions",
              "Only tensors with two dimensions can be converted to the "
              f"{st.COMPRESSED[layout].words} layout")  # fmt: skip
    if not (0 < k <= n or k == n == 0):
        _fail("to_sparse", f"sparse_dim from 1 to {n}", k,
              f"sparse_dim argument for to_sparse() must be in >0 and <= dim, got {k}")  # fmt: skip
    kept = x.detach() != 0
    for _ in range(n - k):
        kept = kept.any(-1)
    places = kept.nonzero().t().contiguous()
    values = x[tuple(places)] if k else x.reshape(1)[kept.reshape(1)]
    if not k:
        places = weft.zeros(0, values.shape[0], dtype=_C.int64)
    return st.in_layout(st.coo(places, values, x.shape, True), layout)


def spdiags(diagonals: Tensor, offsets: Any, shape: Any, layout: Any = None) -> Any:
    """A sparse matrix whose diagonals are rows of a tensor.

    Args:
        diagonals: `[n, m]`, or `[m]` for one; a diagonal's element in column j is its j-th.
        offsets: of the diagonals, above the main one if they are positive.
        shape: of the matrix.
        layout: `weft.sparse_coo`, which is the default, `weft.sparse_csr` or `weft.sparse_csc`.

    Raises:
        RuntimeError: offsets that occur twice or do not fit, or a shape that is no matrix's.

    >>> import weft
    >>> d = weft.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> weft.sparse.spdiags(d, weft.tensor([0, 1]), (2, 2)).to_dense()
    tensor([[1., 4.],
            [0., 2.]])
    """
    rows = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    shifts = weft.as_tensor(offsets).reshape(-1).long()
    if rows.dim() != 2:
        _fail("spdiags", "diagonals of 1 or 2 dimensions", rows.dim(), "Diagonals must be vector or"
              " matrix")  # fmt: skip
    if len(shape) != 2:
        _fail("spdiags", "a shape of 2 sizes", list(shape), "Output shape must be 2d")
    if shifts.shape[0] != rows.shape[0]:
        _fail(
            "spdiags",
            f"{rows.shape[0]} offsets",
            shifts.shape[0],
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({shifts.shape[0]})",
        )
    if weft.unique(shifts).shape[0] != shifts.shape[0]:
        _fail("spdiags", "each offset once", shifts.tolist(), "Offset tensor contains duplicate "
              "values")  # fmt: skip
    if layout not in (None, sparse_coo, *st.COMPRESSED):
        _fail("spdiags", "a layout that there is", layout, "Only output layouts (Sparse, SparseCsc,"
              f" SparseCsr) are supported, got {layout}")  # fmt: skip
    cols = weft.arange(rows.shape[1]).expand(rows.shape)
    at = cols - shifts.unsqueeze(1)
    inside = (at >= 0) & (at < shape[0]) & (cols < shape[1])
    indices = weft.stack([at[inside], cols[inside]])
    out = st.coo(indices, rows[inside], shape, False)
    return out if layout is None else st.in_layout(out, layout)


_checks.install(__name__)
