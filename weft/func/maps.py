"""A function of one example as a function of a batch. torch.func's semantics.

The function runs once, on tensors that stand for a value of each example, and each of its calls is
made for all examples at once (Note [Mapped] in src/mapped/level.h): a call costs hardly more than
for one example. Autobatch's way, a kept call for each example and a merge, costs 150 to 250 ns for
each of them and is there for what differs between examples; measured on per-sample gradients of an
MLP, 256 examples take 0.5 ms this way, and 30 calls kept 256 times alone would take 1.5 ms.

PyTorch's vmap refuses functions that read values, branch on them, or write to what is around them.
Here the run goes on as that of the first example from there on, and the others run after it, one by
one, as a loop would. So a function that does none of that runs once in all, with whatever else it
does in Python; one that does runs once for each example.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.mapping import DRAWS, maps_now
from weft.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["vmap"]


def _spread(dims: Any, tree: Any, who: str) -> list[Any]:
    """A dim, or None, for each leaf of `tree`: `dims` is a prefix of its structure."""
    leaves, spec = tree_flatten(tree)
    if dims is None or isinstance(dims, int):
        return [dims] * len(leaves)
    if spec.type is None or not isinstance(dims, (list, tuple, dict)) or len(dims) != len(tree):
        raise ValueError(
            f"[vmap] expected {who} that fit the structure of the values, got {dims!r}"
        )
    keys = tree if isinstance(tree, dict) else range(len(tree))
    return [d for k in keys for d in _spread(dims[k], tree[k], who)]


def _checked_dims(dims: list[Any], leaves: list[Any]) -> tuple[list[Any], int]:
    """Dims from 0, None where a value is not mapped; the size of the batch."""
    sizes = []
    out: list[Any] = []
    for dim, leaf in zip(dims, leaves, strict=True):
        if dim is None:
            out.append(None)
            continue
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"[vmap] expected a tensor in a place with in_dim {dim}, got {type(leaf).__name__}"
                ". Hint: in_dims None for it"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"[vmap] expected dimensions of the inputs, got another (vmap: Got in_dim={dim} "
                "for "
                f"some input, but that input is a Tensor of dimensionality {leaf.dim()} so "
                "expected "
                f"in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}.)"
            )
        out.append(dim % leaf.dim())
        sizes.append(leaf.shape[dim])
    if not sizes:
        raise ValueError("[vmap] expected at least one mapped tensor, got none")
    if len(set(sizes)) > 1:
        raise ValueError(
            "[vmap] expected as many examples of each, got others (vmap: Expected all tensors to "
            f"have the same size in the mapped dimension, got sizes {sizes} for the mapped "
            "dimension)"
        )
    return out, sizes[0]


class _Batches:
    """The results of some examples: a structure of batches and where each has them."""

    def __init__(self, tree: Any, out_dims: Any) -> None:
        self.leaves, self.spec = tree_flatten(tree)
        for leaf in self.leaves:
            if not isinstance(leaf, Tensor):
                raise ValueError(
                    "[vmap] expected a function that returns tensors, got "
                    f"{type(leaf).__name__} (must only return Tensors)"
                )
        self.dims = _spread(out_dims, tree, "out_dims")
        for leaf, dim in zip(self.leaves, self.dims, strict=True):
            if dim is not None and not -leaf.dim() - 1 <= dim <= leaf.dim():
                raise IndexError(
                    f"[vmap] expected out_dims within {leaf.dim() + 1} dimensions, got {dim}"
                )

    def take(self, wholes: list[Any], size: int) -> None:
        """`wholes`: all examples along dim 0, None for what is the same in all."""
        for k, (leaf, whole, dim) in enumerate(zip(self.leaves, wholes, self.dims, strict=True)):
            if dim is None:
                self.leaves[k] = leaf if whole is None else whole[0]
            elif whole is None:
                self.leaves[k] = weft.stack([leaf] * size, dim)
            else:
                self.leaves[k] = whole.movedim(0, dim) if dim else whole

    def stack(self, results: list[Any]) -> None:
        """`results`: what further examples returned, after the first."""
        rows = [self.leaves, *(tree_flatten(result)[0] for result in results)]
        for k, (column, dim) in enumerate(zip(zip(*rows, strict=True), self.dims, strict=True)):
            if dim is not None:
                self.leaves[k] = weft.stack(column, dim)

    def join(self, others: list[_Batches]) -> None:
        """Those of further examples."""
        for k, dim in enumerate(self.dims):
            if dim is not None and others:
                self.leaves[k] = weft.cat([self.leaves[k], *(o.leaves[k] for o in others)], dim)


class _Mapping:
    """One call of a mapped function: `func` over `dims` of the leaves of its arguments."""

    def __init__(
        self, func: Callable[..., Any], leaves: list[Any], spec: TreeSpec, dims: list[Any],
        draws: str, out_dims: Any,
    ) -> None:  # fmt: skip
        self.func, self.leaves, self.spec, self.dims = func, leaves, spec, dims
        self.draws, self.out_dims = draws, out_dims
        self.state = weft.get_rng_state() if draws == "same" else None

    def _one(self, pick: Callable[[Tensor, int], Tensor]) -> Any:
        if self.state is not None:
            weft.set_rng_state(self.state)
        values = [
            leaf if dim is None else pick(leaf, dim)
            for leaf, dim in zip(self.leaves, self.dims, strict=True)
        ]
        return self.func(*tree_unflatten(values, self.spec))

    def _ones(self, first: int, end: int) -> list[Any]:
        return [self._select(i) for i in range(first, end)]

    def _select(self, i: int) -> Any:
        return self._one(lambda t, dim: t.select(dim, i))

    def one_by_one(self, first: int, count: int) -> _Batches:
        before = weft.get_rng_state() if self.draws == "error" else None
        if count:
            result = self._select(first)
        else:  # on zeros, for the shapes of the results
            result = self._one(lambda t, dim: t.new_zeros(t.shape[:dim] + t.shape[dim + 1 :]))
        if before is not None and not weft.equal(before, weft.get_rng_state()):
            weft.set_rng_state(before)
            raise RuntimeError(
                "[vmap] expected a function without random numbers, got one that draws them "
                "(vmap: called random operation while in randomness error mode). Hint: "
                "randomness='different' or 'same'"
            )
        out = _Batches(result, self.out_dims)
        out.stack(self._ones(first + 1, first + count))
        if not count:
            out.leaves = [
                leaf if dim is None else leaf.narrow(dim, 0, 0)
                for leaf, dim in zip(out.leaves, out.dims, strict=True)
            ]
        return out

    def at_once(self, first: int, count: int) -> _Batches:
        """The function runs for all examples, or for the first one from where it goes alone."""
        level = _C._map_begin(count, DRAWS.index(self.draws))
        wholes: list[Any] = []
        try:
            result = self._one(
                lambda t, dim: _C._map_over(
                    level, t if count == t.shape[dim] else t.narrow(dim, first, count), dim
                )
            )
            out = _Batches(result, self.out_dims)
            wholes = [_C._map_whole(level, leaf) for leaf in out.leaves]
        finally:
            alone = _C._map_end(level)
        if not alone:
            out.take(wholes, count)
        else:
            _C._settle(out.leaves)
            out.stack(self._ones(first + 1, first + count))
        return out


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function that maps `func` over a dimension of its inputs and stacks the results.

    Args:
        func: of one example, to a tensor or a structure of tensors.
        in_dims: which dimension is the batch, for all inputs, or a structure of ints and None
            (the same for all examples) that begins as that of the arguments.
        out_dims: where the batch lies in the results.
        randomness: "error" raises RuntimeError if `func` draws random numbers; "different" draws
            for each example, in one draw for all (PyTorch's numbers), "same" the same for all.
        chunk_size: so many examples at a time, which bounds the memory; all of them if None.

    `func` runs once for all examples; where it reads a value or writes to what is older than the
    call, once for each, in order.

    Raises: ValueError for dims that do not fit, unlike sizes, or results that are no tensors;
    RuntimeError where a value of an example is used after the call without being returned.

    >>> weft.vmap(weft.dot)(weft.ones(3, 2), weft.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in DRAWS:
        raise RuntimeError(
            "[vmap] expected randomness 'error', 'different' or 'same', got "
            f"{randomness!r} (Only allowed values for randomness are 'error', 'different', or "
            "'same'.)"
        )

    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(
            f"[vmap] expected chunk_size None or at least 1, got {chunk_size} (vmap: chunk_size "
            "should be None or greater than 0.)"
        )

    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        if isinstance(in_dims, (list, tuple)) and len(in_dims) != len(args):
            raise ValueError(
                f"[vmap] expected in_dims for {len(args)} positional arguments, got {in_dims!r}"
            )
        dims, size = _checked_dims(_spread(in_dims, args, "in_dims"), leaves)
        call = _Mapping(
            lambda *values: func(*values, **kwargs), leaves, spec, dims, randomness, out_dims
        )
        step = min(chunk_size or size, size)
        if size == 0 or not maps_now():
            out = call.one_by_one(0, size)
        else:
            out = call.at_once(0, step)
            out.join([call.at_once(i, min(step, size - i)) for i in range(step, size, step)])
        return tree_unflatten(out.leaves, out.spec)

    return run
