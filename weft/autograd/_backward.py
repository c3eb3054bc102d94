"""backward and grad over several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from weft import _C
from weft._C import Tensor
from weft.autograd.graph import GradientEdge
from weft.base.mapping import DRAWS, maps_now
from weft.base.modes import TRACE

_Tensors = Tensor | GradientEdge | Sequence[Tensor | GradientEdge]


def as_tuple(tensors: Any) -> tuple[Any, ...]:
    """One tensor, gradient edge or None as a tuple; other sequences as they are."""
    one = tensors is None or isinstance(tensors, (Tensor, GradientEdge))
    return (tensors,) if one else tuple(tensors)


def _gradients(tensors: tuple[Tensor, ...], given: Any, who: str) -> tuple[Any, ...]:
    grads = (None,) * len(tensors) if given is None else as_tuple(given)
    if len(grads) != len(tensors):
        raise RuntimeError(
            f"[{who}] expected {len(tensors)} gradients, one for each output, got {len(grads)}"
        )
    return grads


def _rows_at_once(
    roots: tuple[Any, ...], wanted: tuple[Any, ...], grads: tuple[Any, ...], create_graph: bool,
    allow_unused: Any,
) -> tuple[Tensor | None, ...] | None:  # fmt: skip
    """The gradients for all rows of `grads` by one pass; None if one must go row by row."""
    sizes = {g.shape[0] for g in grads if g is not None and g.dim()}
    if len(sizes) != 1 or 0 in sizes or not maps_now():
        return None
    (count,) = sizes
    level = _C._map_begin(count, DRAWS.index("same"))
    try:
        seeds = tuple(None if g is None else _C._map_over(level, g, 0) for g in grads)
        found = _C._backward(
            roots, seeds, True, bool(create_graph), wanted, bool(allow_unused), False
        )
        rows = [None if g is None else _C._map_whole(level, g) for g in found]
    finally:
        alone = _C._map_end(level)
    if alone:
        return None
    return tuple(
        None if g is None else g.expand(count, *g.shape).contiguous() if row is None else row
        for g, row in zip(found, rows, strict=True)
    )


def backward(
    tensors: _Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: _Tensors | None = None,
) -> None:
    """Adds the gradient of the sum of `tensors` to `.grad` of every leaf they were made from.

    `grad_tensors`: one per tensor, of its shape; None for scalars. A `GradientEdge` may stand for a
    tensor, here and in `inputs`.

    >>> x = weft.ones(2, requires_grad=True)
    >>> weft.autograd.backward([x.sum(), (3 * x).sum()])
    >>> x.grad
    tensor([4., 4.])
    """
    roots = as_tuple(tensors)
    chosen = None if inputs is None else as_tuple(inputs)
    if chosen is not None and not chosen:
        raise RuntimeError(
            "[backward] expected inputs to name at least one tensor, got an empty "
            "sequence (`inputs` argument to `backward()` cannot be empty.)"
        )
    keep = create_graph if retain_graph is None else retain_graph
    _C._backward(
        roots,
        _gradients(roots, grad_tensors, "backward"),
        bool(keep),
        bool(create_graph),
        chosen,
        True,
        True,
    )


@overload
def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: Any = ...,
    retain_graph: bool | None = ...,
    create_graph: bool = ...,
    only_inputs: bool = ...,
    allow_unused: Literal[False] | None = ...,
    is_grads_batched: bool = ...,
    materialize_grads: bool = ...,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: Any = ...,
    retain_graph: bool | None = ...,
    create_graph: bool = ...,
    only_inputs: bool = ...,
    allow_unused: bool | None = ...,
    is_grads_batched: bool = ...,
    materialize_grads: bool = ...,
) -> tuple[Tensor | None, ...]: ...
def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs` with respect to `inputs`, as a tuple; `.grad` stays.

    `allow_unused`: inputs the outputs do not depend on give None instead of an error;
    `materialize_grads`: they give zeros; `is_grads_batched`: `grad_outputs` hold several gradients,
    along dim 0, and so do the results. A `GradientEdge` may stand for a tensor on both sides.

    Each gradient has its input's shape and dtype; `grad_outputs` have their outputs' shapes.

    >>> x = weft.tensor(3., requires_grad=True)
    >>> weft.autograd.grad(x ** 2, x)
    (tensor(6.),)
    """
    import weft

    if _C._mode() & TRACE and (recording := _C._recording()) is not None:
        how = (grad_outputs, retain_graph, create_graph, only_inputs, allow_unused)
        more = (is_grads_batched, materialize_grads)
        found: tuple[Tensor | None, ...] = recording.whole(grad, (outputs, inputs, *how, *more), {})
        return found
    roots, wanted = as_tuple(outputs), as_tuple(inputs)
    if not wanted:
        raise RuntimeError(
            "[grad] expected inputs to name at least one tensor, got an empty sequence "
            "(`inputs` argument to `grad()` cannot be empty.)"
        )
    if materialize_grads and any(isinstance(x, GradientEdge) for x in wanted):
        raise RuntimeError(
            "[grad] expected tensors as inputs with materialize_grads, got a GradientEdge"
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "[grad] expected allow_unused True or unset with materialize_grads, got False"
        )
    grads = _gradients(roots, grad_outputs, "grad")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        unused = allow_unused or materialize_grads
        at_once = _rows_at_once(roots, wanted, grads, create_graph, unused)
        if at_once is not None:
            return at_once

        def row(i: int) -> tuple[Tensor | None, ...]:
            return grad(
                roots,
                wanted,
                tuple(None if g is None else g[i] for g in grads),
                True,
                create_graph,
                allow_unused=allow_unused,
                materialize_grads=materialize_grads,
            )

        rows = [row(i) for i in range(next(g for g in grads if g is not None).shape[0])]
        return tuple(
            None if column[0] is None else weft.stack(column) for column in zip(*rows, strict=True)
        )
    found = _C._backward(
        roots,
        grads,
        bool(keep),
        bool(create_graph),
        wanted,
        bool(allow_unused or materialize_grads),
        False,
    )
    if materialize_grads:
        return tuple(
            weft.zeros_like(x, requires_grad=create_graph) if g is None else g
            for g, x in zip(found, wanted, strict=True)
        )
    return found
