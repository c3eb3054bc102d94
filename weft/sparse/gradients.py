"""Sparse gradients: what the graph asks of them (src/python/sparse.cpp), and what makes them."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft.sparse import tensor as st
from weft.sparse.tensor import SparseTensor

__all__ = ["accumulate", "add", "dense", "embedding", "values"]


def add(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two gradients: of sparse ones all places of both, with a dense one dense."""
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        a, b = st.as_coo(a), st.as_coo(b)
        if a._parts.same_places(b._parts):
            return st.with_values(a, st.elements(a) + st.elements(b))
        indices = weft.cat([st.places(a._parts), st.places(b._parts)], 1)
        return st.coo(indices, weft.cat([st.elements(a), st.elements(b)]), a.shape)
    return dense(a) + dense(b)


def accumulate(old: Tensor | None, grad: Tensor) -> Tensor:
    """What `.grad` is after `grad` came; a dense one is written in place, as its holders expect."""
    recorded = _C.is_grad_enabled()
    if old is None:
        return grad if recorded and isinstance(grad, SparseTensor) else st.copied(_sparse(grad))
    if recorded:
        return add(old, grad)
    if not isinstance(old, SparseTensor):
        part = st.as_coo(_sparse(grad))
        old.index_put_(tuple(st.places(part._parts)), part._parts.values, accumulate=True)
        return old
    total = add(old, grad)
    if isinstance(total, SparseTensor):
        old._parts = total._parts
        return old
    return total


def _sparse(grad: Tensor) -> SparseTensor:
    assert isinstance(grad, SparseTensor)
    return grad


def values(t: SparseTensor) -> Tensor:
    """Its values, outside of the graph."""
    return t._parts.values


def dense(t: Tensor) -> Tensor:
    """A gradient with all of its elements."""
    return st.dense(t) if isinstance(t, SparseTensor) else t


class Embedding(weft.autograd.Function):
    """Rows of a table, whose gradient is those rows: one per occurrence, uncoalesced."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, input: Tensor, padding: int, by_count: bool) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.padding, ctx.by_count, ctx.shape = padding, by_count, tuple(weight.shape)
        ctx.save_for_backward(input)
        return _C.embedding(weight, input)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> Any:
        if g is None:
            return None, None, None, None
        (input,) = ctx.saved_tensors
        places, rows = input.reshape(-1).long(), g.reshape(-1, ctx.shape[1])
        if ctx.padding >= 0:
            kept = places != ctx.padding
            places, rows = places[kept], rows[kept]
        return st.coo(places.unsqueeze(0), rows, ctx.shape), None, None, None


def embedding(weight: Tensor, input: Tensor, padding_idx: int, by_count: bool) -> Tensor:
    """`embedding(sparse=True)`: the gradient of `weight` is a sparse tensor.

    Raises:
        RuntimeError: `by_count` (scale_grad_by_freq), which PyTorch has for dense gradients only.
    """
    if by_count:
        raise RuntimeError(
            "[embedding] expected scale_grad_by_freq=False, got True (embedding_backward: "
            "scale_grad_by_freq not supported with sparse gradients)"
        )
    out: Tensor = Embedding.apply(weight, input, padding_idx, by_count)
    return out
