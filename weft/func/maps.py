"""A function of one example as a function of a batch. torch.func's semantics.

The function runs for one example after the other and the results are stacked: right for any
function, also one that reads values or branches on them, which PyTorch's vmap refuses. For speed
over many small examples there is `weft.autobatch`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import weft
from weft._C import Tensor
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
                f"[vmap] expected in_dims within the {leaf.dim()} dimensions of a tensor, got {dim}"
            )
        out.append(dim % leaf.dim())
        sizes.append(leaf.shape[dim])
    if not sizes:
        raise ValueError("[vmap] expected at least one mapped tensor, got none")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"[vmap] expected one size in the mapped dimensions, got {sizes} (Expected all tensors "
            "to have the same size in the mapped dimension)"
        )
    return out, sizes[0]


def _stacked(results: list[Any], out_dims: Any, empty: bool) -> Any:
    """The results of the examples as one structure of batches."""
    columns = []
    spec: TreeSpec | None = None
    for result in results:
        leaves, shape = tree_flatten(result)
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise ValueError(
                    "[vmap] expected a function that returns tensors, got "
                    f"{type(leaf).__name__} (must only return Tensors)"
                )
        spec = shape
        columns.append(leaves)
    assert spec is not None
    dims = _spread(out_dims, tree_unflatten(columns[0], spec), "out_dims")
    batches = []
    for k, dim in enumerate(dims):
        if dim is None:
            batches.append(columns[0][k])
            continue
        one = columns[0][k]
        if not -one.dim() - 1 <= dim <= one.dim():
            raise IndexError(
                f"[vmap] expected out_dims within {one.dim() + 1} dimensions, got {dim}"
            )
        batch = weft.stack([column[k] for column in columns], dim)
        batches.append(batch.narrow(dim, 0, 0) if empty else batch)
    return tree_unflatten(batches, spec)


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
            anew for each example, "same" the same for all.
        chunk_size: taken, changes nothing: examples run one at a time.

    Raises: ValueError for dims that do not fit, unlike sizes, or results that are no tensors.

    >>> weft.vmap(weft.dot)(weft.ones(3, 2), weft.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "[vmap] expected randomness 'error', 'different' or 'same', got "
            f"{randomness!r} (Only allowed values for randomness are 'error', 'different', or "
            "'same'.)"
        )

    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        if isinstance(in_dims, (list, tuple)) and len(in_dims) != len(args):
            raise ValueError(
                f"[vmap] expected in_dims for {len(args)} positional arguments, got {in_dims!r}"
            )
        dims, size = _checked_dims(_spread(in_dims, args, "in_dims"), leaves)
        before = weft.get_rng_state()
        results = []
        for i in range(max(size, 1)):
            if randomness == "same":
                weft.set_rng_state(before)
            # An empty batch runs once, on zeros, for the shapes of its results.
            example = [
                leaf if dim is None
                else leaf.select(dim, i) if size
                else leaf.new_zeros(leaf.shape[:dim] + leaf.shape[dim + 1 :])
                for leaf, dim in zip(leaves, dims, strict=True)
            ]  # fmt: skip
            results.append(func(*tree_unflatten(example, spec), **kwargs))
            if randomness == "error" and i == 0 and not weft.equal(before, weft.get_rng_state()):
                weft.set_rng_state(before)
                raise RuntimeError(
                    "[vmap] expected a function without random numbers, got one that draws them "
                    "(vmap: called random operation while in randomness error mode). Hint: "
                    "randomness='different' or 'same'"
                )
        return _stacked(results, out_dims, not size)

    return run
