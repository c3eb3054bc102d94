"""`SparseTensor`: a tensor that keeps the places of its elements beside their values.

Note [Sparse tensors]
A sparse tensor is an object of a class of Tensor, whose calls its `__torch_function__` answers from
a table (weft/sparse/table.py): a function over indices and values, which are ordinary tensors. What
is not in the table raises. To the core and its graph it is a shell of the same shape and dtype
(Note [Sparse gradients] in src/autograd/sparse.h), so `requires_grad`, `grad`, hooks and passes are
those of any tensor.

Two functions lead from one to the other, each the other's gradient: `elements(x)` gives the values
as a dense tensor of the graph, whose gradient is a sparse tensor of the same places;
`build(parts, values, shape)` makes a sparse tensor, of whose gradient, sparse or dense, it takes
what lies at its places. Gradients of everything between are those of dense ops. A position that
occurs twice stands for a sum: the gradient of each of its values is that of the sum, once, so what
wants a gradient is coalesced before `elements` is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import weft
from weft import _C, Tensor
from weft.base.modes import DisableTorchFunctionSubclass
from weft.base.names import layout, sparse_coo, sparse_csc, sparse_csr

__all__ = [
    "COMPRESSED", "Parts", "SparseTensor", "at", "build", "coalesce", "elements", "keys",
    "parts_of", "places", "shell", "with_values",
]  # fmt: skip


class Compression(NamedTuple):
    """A layout whose elements lie line after line."""

    dim: int  #: along which the lines follow each other
    compressed: str  #: what says where each line begins
    plain: str  #: where in its line an element is
    words: str  #: PyTorch's for the layout


COMPRESSED = {
    sparse_csr: Compression(0, "crow_indices", "col_indices", "SparseCsr"),
    sparse_csc: Compression(1, "ccol_indices", "row_indices", "SparseCsc"),
}


class Parts(NamedTuple):
    """What a sparse tensor consists of. `values` is in no graph."""

    layout: layout
    indices: Tensor | None  # COO: int64 [sparse_dim, nnz]
    compressed: Tensor | None  # CSR: [rows + 1], CSC: [columns + 1]
    plain: Tensor | None  # CSR and CSC: [nnz]
    values: Tensor  # [nnz, *dense sizes]
    coalesced: bool  # each place once, in row-major order

    @property
    def sparse_dim(self) -> int:
        """How many dimensions the indices tell; 2 of CSR and CSC."""
        return 2 if self.indices is None else self.indices.shape[0]

    def with_values(self, values: Tensor) -> Parts:
        """Other values at the same places."""
        return self._replace(values=values.detach())

    def same_places(self, other: Parts) -> bool:
        """Whether the indices are the very same tensors."""
        kept = (self.indices, self.compressed, self.plain)
        others = (other.indices, other.compressed, other.plain)
        return self.layout is other.layout and all(a is b for a, b in zip(kept, others))


class SparseTensor(Tensor):
    """A tensor of layout `weft.sparse_coo`, `weft.sparse_csr` or `weft.sparse_csc`; functions of
    `weft` make them.

    >>> import weft
    >>> x = weft.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> x.layout, x.to_dense().tolist()
    (torch.sparse_coo, [[0.0, 0.0, 3.0], [4.0, 0.0, 0.0]])
    """

    _parts: Parts
    _lends_memory = False

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from weft.sparse.table import answer

        return answer(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from weft.sparse.text import text_of

        return text_of(self)

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        from weft.sparse.files import reduced

        return reduced(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        if id(self) in memo:
            known: SparseTensor = memo[id(self)]
            return known
        if raw(lambda: self.grad_fn) is not None:
            raise RuntimeError(
                "[deepcopy] expected a leaf (only Tensors created explicitly by the user (graph "
                "leaves) support the deepcopy protocol at the moment), got one that was computed. "
                "Hint: detach() or clone() it"
            )
        out = memo[id(self)] = copied(self)
        raw(lambda: out.requires_grad_(self.requires_grad))
        return out

    def __copy__(self) -> SparseTensor:
        out = shell(self._parts, self.shape)
        raw(lambda: out.requires_grad_(self.requires_grad))
        return out


def raw(f: Callable[[], Any]) -> Any:
    """`f`, in which calls take sparse tensors for their shells."""
    with DisableTorchFunctionSubclass():
        return f()


def shell(parts: Parts, shape: Sequence[int]) -> SparseTensor:
    """A new sparse tensor outside of the graph."""
    core = _C._sparse_shell(parts.values.dtype, tuple(shape))
    out: SparseTensor = raw(lambda: Tensor._make_subclass(SparseTensor, core))
    out._parts = parts
    return out


def parts_of(x: Any) -> Parts:
    """Its parts. Raises TypeError for a tensor that is not sparse."""
    if not isinstance(x, SparseTensor):
        kind = type(x).__name__
        raise TypeError(f"[sparse] expected a sparse tensor, got a dense one of class {kind}")
    return x._parts


def places(parts: Parts) -> Tensor:
    """Where the elements lie: int64 `[sparse_dim, nnz]`, of each layout."""
    if parts.indices is not None:
        return parts.indices
    assert parts.compressed is not None and parts.plain is not None
    begin = parts.compressed.long()
    lines = weft.arange(begin.shape[0] - 1).repeat_interleave(begin[1:] - begin[:-1])
    pair = [lines, parts.plain.long()]
    return weft.stack(pair if COMPRESSED[parts.layout].dim == 0 else pair[::-1])


def keys(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """One number per place, in row-major order."""
    out = weft.zeros(indices.shape[1], dtype=_C.int64)
    for d, size in enumerate(sizes):
        out = out * size + indices[d]
    return out


def unravelled(flat: Tensor, sizes: Sequence[int]) -> Tensor:
    """The places that have these keys."""
    rows = []
    for size in reversed(sizes):
        rows.append(flat % size if size else flat)
        flat = flat // size if size else flat
    return weft.stack(rows[::-1]) if rows else weft.zeros(0, flat.shape[0], dtype=_C.int64)


def at(g: Tensor, parts: Parts, shape: Sequence[int]) -> Tensor:
    """The values of `g`, sparse or dense, at the places of `parts`; recorded."""
    indices = places(parts)
    if not isinstance(g, SparseTensor):
        if parts.sparse_dim == 0:
            return g.expand(indices.shape[1], *g.shape)
        return g[tuple(indices)]
    if g._parts.same_places(parts):
        return elements(g)
    g = g if g._parts.coalesced else as_coo(coalesce(g))
    sizes = tuple(shape)[: parts.sparse_dim]
    if g._parts.sparse_dim != parts.sparse_dim:
        raise RuntimeError(
            f"[sparse] expected {parts.sparse_dim} sparse dimensions, got {g._parts.sparse_dim}"
        )
    have, want = keys(places(g._parts), sizes), keys(indices, sizes)
    values = elements(g)
    if not have.shape[0]:
        return values.new_zeros((want.shape[0], *values.shape[1:]))
    where = weft.searchsorted(have, want).clamp(max=have.shape[0] - 1)
    found = (have[where] == want).view(-1, *[1] * (values.dim() - 1))
    return weft.where(found, values[where], weft.zeros((), dtype=values.dtype))


class _Values(weft.autograd.Function):
    """From a sparse tensor to its values."""

    @staticmethod
    def forward(ctx: Any, x: SparseTensor) -> Tensor:
        ctx.parts, ctx.shape = x._parts, tuple(x.shape)
        ctx.set_materialize_grads(False)
        return x._parts.values.detach()

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> Any:
        return None if g is None else build(ctx.parts, g, ctx.shape)


class _Build(weft.autograd.Function):
    """From values to a sparse tensor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, parts: Parts, shape: Any) -> SparseTensor:
        ctx.parts, ctx.shape = parts, shape
        ctx.set_materialize_grads(False)
        return shell(parts.with_values(values), shape)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> Any:
        return (None if g is None else at(g, ctx.parts, ctx.shape)), None, None


class _Coalesce(weft.autograd.Function):
    """The same tensor with each place once: its gradient is that of the result."""

    @staticmethod
    def forward(ctx: Any, x: SparseTensor) -> SparseTensor:
        ctx.set_materialize_grads(False)
        return shell(_coalesced(x._parts, tuple(x.shape)), x.shape)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> Any:
        return g


def _coalesced(parts: Parts, shape: Sequence[int]) -> Parts:
    """Each place once, in row-major order."""
    assert parts.indices is not None
    count = parts.indices.shape[1]
    if parts.coalesced or count < 2:
        return parts._replace(coalesced=True)
    sizes = tuple(shape)[: parts.sparse_dim]
    found, inverse = weft.unique(keys(parts.indices, sizes), return_inverse=True)
    values = parts.values
    wide = values.to(_C.uint8) if values.dtype is _C.bool else values
    sums = weft.zeros(found.shape[0], *values.shape[1:], dtype=wide.dtype)
    sums = sums.index_add(0, inverse, wide).to(values.dtype)
    return parts._replace(indices=unravelled(found, sizes), values=sums, coalesced=True)


def coalesce(x: SparseTensor) -> SparseTensor:
    """`x` if each of its places occurs once, in the order of its layout; else a tensor of which
    that holds."""
    if x._parts.coalesced or x._parts.layout is sparse_csc:
        return x
    out: SparseTensor = _Coalesce.apply(x)
    return out


def elements(x: SparseTensor) -> Tensor:
    """The values in the graph, `[nnz, *dense sizes]`; of a tensor whose places may be used."""
    out: Tensor = _Values.apply(x)
    return out


def flat(x: SparseTensor) -> SparseTensor:
    """`x` as linear functions take it: coalesced if it wants a gradient."""
    return coalesce(x) if _C.is_grad_enabled() and raw(lambda: x.requires_grad) else x


def build(parts: Parts, values: Tensor, shape: Sequence[int]) -> SparseTensor:
    """A sparse tensor of these values, which may be in the graph, at the places of `parts`."""
    out: SparseTensor = _Build.apply(values, parts, tuple(shape))
    return out


def with_values(x: SparseTensor, values: Tensor) -> SparseTensor:
    """Other values at the places of `x`."""
    return build(x._parts, values, x.shape)


def copied(x: SparseTensor) -> SparseTensor:
    """A leaf of its own memory."""
    return shell(x._parts.with_values(x._parts.values.clone()), x.shape)


def coo(
    indices: Tensor, values: Tensor, shape: Sequence[int], coalesced: bool | None = None
) -> SparseTensor:
    """A COO tensor; the arguments are right. It is coalesced as said, else if it has one place."""
    if coalesced is None:
        coalesced = indices.shape[1] < 2
    parts = Parts(sparse_coo, indices, None, None, values.detach(), coalesced)
    return build(parts, values, shape)


def as_coo(x: SparseTensor) -> SparseTensor:
    """`x` in COO, its values in the graph."""
    if x._parts.layout is sparse_coo:
        return x
    indices, values = places(x._parts), elements(x)
    if x._parts.layout is sparse_csc:
        order = keys(indices, tuple(x.shape)[:2]).argsort()
        indices, values = indices[:, order], values[order]
    return coo(indices, values, x.shape, True)


def as_compressed(x: SparseTensor, wanted: layout) -> SparseTensor:
    """The matrix `x` in CSR or CSC."""
    if x._parts.layout is wanted:
        return x
    x, (dim, _, _, words) = as_coo(coalesce(x)), COMPRESSED[wanted]
    if x._parts.sparse_dim != 2:
        raise RuntimeError(
            f"[to_{str(wanted).removeprefix('torch.')}] expected a matrix (Only tensors with two "
            f"sparse dimensions can be converted to the {words} layout), got "
            f"{x._parts.sparse_dim} sparse dimensions"
        )
    indices, values = places(x._parts), elements(x)
    if dim == 1:  # the rows stay in order within each column
        order = indices[1].argsort(stable=True)
        indices, values = indices[:, order], values[order]
    counts = weft.bincount(indices[dim], minlength=x.shape[dim])
    begin = weft.cat([weft.zeros(1, dtype=_C.int64), counts.cumsum(0)])
    plain = indices[1 - dim].contiguous()
    return build(Parts(wanted, None, begin, plain, values.detach(), dim == 0), values, x.shape)


def turned(x: SparseTensor) -> SparseTensor:
    """The transpose of a matrix in CSR or CSC, in the other one: rows are columns."""
    other = sparse_csc if x._parts.layout is sparse_csr else sparse_csr
    parts = x._parts._replace(layout=other, coalesced=other is sparse_csr)
    return build(parts, elements(x), (x.shape[1], x.shape[0], *x.shape[2:]))


def in_layout(x: SparseTensor, wanted: layout) -> SparseTensor:
    """`x` in COO, CSR or CSC."""
    return as_compressed(x, wanted) if wanted in COMPRESSED else as_coo(x)


def like(x: SparseTensor, out: SparseTensor) -> SparseTensor:
    """`out`, in the layout of `x` where that is compressed."""
    return in_layout(out, x._parts.layout) if x._parts.layout in COMPRESSED else out


def dense(x: SparseTensor) -> Tensor:
    """All elements."""
    x = flat(x)
    values, sparse_dim = elements(x), x._parts.sparse_dim
    kept = values.to(_C.uint8) if values.dtype is _C.bool else values
    if sparse_dim == 0:
        return kept.sum(0).to(values.dtype)
    zeros = weft.zeros(tuple(x.shape), dtype=kept.dtype)
    out = zeros.index_put(tuple(places(x._parts)), kept, accumulate=True)
    return out.to(values.dtype)
