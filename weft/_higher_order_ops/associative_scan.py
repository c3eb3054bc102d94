"""`associative_scan`: all partial results of an associative function along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft._C import Tensor
from weft.composites.axes import wrap
from weft.func import vmap
from weft.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """x[0], f(x[0], x[1]), f(f(x[0], x[1]), x[2]) ... along `dim`, in about 2 log(n) calls.

    Args:
        combine_fn: the function f of two trees of the form of `xs`, without the dimension. It has
            to be associative: which values it is called with first is not said.
        xs: a tensor, or a tree of tensors of one size along `dim`.
        reverse: from the end on.
        combine_mode: "generic"; "pointwise" is for GPUs.

    Raises: ValueError for another mode, what is no function or no such tree.

    >>> from weft._higher_order_ops.associative_scan import associative_scan
    >>> associative_scan(lambda a, b: a * b, weft.tensor([1., 2., 3.]), 0, combine_mode="generic")
    tensor([1., 2., 6.])
    """
    _expect(combine_fn, combine_mode)
    leaves, form = tree_flatten(xs)
    dims = _scanned(leaves, dim)
    mapped = vmap(combine_fn)

    def combine(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
        made = mapped(tree_unflatten(left, form), tree_unflatten(right, form))
        found, given = tree_flatten(made)
        if given != form:
            raise AssertionError(
                f"[associative_scan] expected combine_fn to give {form}, got {given}"
            )
        return found

    first = [x.movedim(d, 0) for x, d in zip(leaves, dims)]
    first = [x.flip(0) for x in first] if reverse else first
    done = _scan(first, combine)
    done = [x.flip(0) for x in done] if reverse else done
    return tree_unflatten([x.movedim(0, d) for x, d in zip(done, dims)], form)


def _expect(combine_fn: Any, mode: str) -> None:
    if not callable(combine_fn):
        raise ValueError(
            f"[associative_scan] expected a function, got {combine_fn!r} (Combine_fn must be a "
            f"callable, but got {combine_fn})"
        )
    if mode == "pointwise":
        raise ValueError(
            "[associative_scan] expected combine_mode='generic', got 'pointwise' (For "
            "combine_mode='pointwise', all input tensors need to be on CUDA or XPU)"
        )
    if mode != "generic":
        raise ValueError(
            f"[associative_scan] expected combine_mode='generic', got {mode!r} (Combine_mode must "
            f"either 'pointwise' or 'generic', but got {mode})"
        )


def _scanned(leaves: list[Any], dim: int) -> list[int]:
    """The dimension of each leaf, which must be of one size."""
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError("[associative_scan] expected tensors in xs, got none or something else")
    dims = [wrap("associative_scan", dim, x.dim()) for x in leaves]
    sizes = {x.shape[d] for x, d in zip(leaves, dims)}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(
            f"[associative_scan] expected one size above 0 along dim {dim}, got {sorted(sizes)} "
            "(All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0)"
        )
    return dims


def _scan(
    xs: list[Tensor], combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]]
) -> list[Tensor]:
    """The scan along dimension 0: of pairs first, which are the results at odd places; those at
    even ones take one call more (Blelloch, 1990)."""
    count = xs[0].shape[0]
    if count < 2:
        return xs
    pairs = combine([x[: count - 1 : 2] for x in xs], [x[1::2] for x in xs])
    odd = _scan(pairs, combine)
    if count == 2:
        return [weft.cat([x[:1], y]) for x, y in zip(xs, odd)]
    rest = combine([y[: (count - 1) // 2] for y in odd], [x[2::2] for x in xs])
    out = []
    for x, y, z in zip(xs, odd, rest):
        even = weft.cat([x[:1], z])
        woven = weft.stack([even[: len(y)], y], 1).flatten(0, 1)
        out.append(woven if count % 2 == 0 else weft.cat([woven, even[-1:]]))
    return out
