"""Custom functions in a batch: their forwards merge, and so do their backwards.

In an example a Function's forward runs like any other code: its calls are kept, outside of the
graph. What it returns becomes a part of the graph by one more kept call for each use of a Function,
`_tie` (Note [Ties] in src/ops/tie.cpp). These calls merge: a batch of them is one node, whose
backward is `_backward` here. It runs the users' backwards in a deferred scope, so that their calls
merge too, and joins their gradients.

`tie` refuses what only the node of a single use can do: outputs that are arguments or views of
them, arguments written in place, complex numbers, an output that ctx keeps as an attribute, more
inputs with a gradient than a set of a call's inputs counts. That is tied at once, on values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import weft
from weft import _C
from weft._C import Tensor

_numbers = itertools.count(1)
_BYTES = 8
_MOST_INPUTS = 64  # of one call, as InputSet (src/ops/op.h) counts them


class Use(bytearray):
    """One use of a Function. Its memory is its number: as an operand of `_tie` it lives as long as
    that call waits, then the node has it."""

    ctx: Any
    function: type[Any]
    backward: Callable[..., Any]
    #: of each argument of forward: shape and dtype if it wants a gradient, None if not, False if it
    #: is no tensor
    arguments: tuple[Any, ...]
    #: of each output: shape, dtype and whether it is tied; None if it is no tensor
    outputs: tuple[Any, ...]
    #: of each tied output: how many elements it has
    sizes: tuple[int, ...]
    #: as `save_for_backward` got them: None, the number of a tied output, or a tensor and its alias
    saved: tuple[Any, ...]


_uses: WeakValueDictionary[int, Use] = WeakValueDictionary()


def _is_tied(out: Any, constant: Sequence[Tensor]) -> bool:
    return (
        isinstance(out, Tensor)
        and out.dtype.is_floating_point
        and all(out is not c for c in constant)
    )


def _can_merge(ctx: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> bool:
    tensors = [a for a in args if isinstance(a, Tensor)]
    results = [o for o in outputs if isinstance(o, Tensor)]
    kept = [v for v in vars(ctx).values() if isinstance(v, Tensor)]
    return (
        not ctx._dirty
        and any(_C._is_pending(o) for o in results)
        and len({id(o) for o in results}) == len(results)
        and not any(t.dtype.is_complex for t in (*tensors, *results))
        and not any(o.requires_grad or any(o is t for t in kept) for o in results)
        and not any(_C._same_root(o, a) for o in results for a in tensors)
    )


def _alias(t: Tensor) -> Tensor:
    """A view of a value that waits: it stays this value whatever is written into `t`."""
    with weft.enable_grad():
        return t.view_as(t)


def tie(
    function: type[Any],
    ctx: Any,
    backward: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    outputs: tuple[Any, ...],
) -> tuple[Any, ...] | None:
    """The outputs of forward as parts of the graph, when the batch has run; None: tie them now."""
    if not _can_merge(ctx, args, outputs):
        return None
    wanted = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
    tied = [o for o in outputs if _is_tied(o, ctx._constant)]
    if not (weft.is_grad_enabled() and wanted and tied):
        return outputs
    if len(wanted) > _MOST_INPUTS:  # which of them are leaves could not be told
        return None
    use = Use(next(_numbers).to_bytes(_BYTES, "little"))
    use.ctx, use.function, use.backward = ctx, function, backward
    use.arguments = tuple([
        (tuple(a.shape), a.dtype) if isinstance(a, Tensor) and a.requires_grad
        else None if isinstance(a, Tensor) else False
        for a in args
    ])  # fmt: skip
    use.outputs = tuple(
        [
            (tuple(o.shape), o.dtype, any(o is t for t in tied)) if isinstance(o, Tensor) else None
            for o in outputs
        ]
    )
    use.sizes = tuple([o.numel() for o in tied])
    places = {id(o): k for k, o in enumerate(tied)}
    use.saved = tuple([
        None if t is None else places[id(t)] if id(t) in places
        else (t, _alias(t)) if _C._is_pending(t) else (t, t)
        for t in ctx._to_save
    ])  # fmt: skip
    read = [s[0] for s in use.saved if isinstance(s, tuple)]
    _uses[int.from_bytes(use, "little")] = use
    made = _C.ops._tie(
        [*wanted, *tied, _C._sharing(use), *read], inputs=len(wanted), results=len(tied), node=name
    )
    if not _C._is_pending(made[0]):  # the last example, which runs its calls at once by now
        return None
    handed = iter(made)
    return tuple([next(handed) if id(o) in places else o for o in outputs])


def _make(
    inputs: tuple[Tensor, ...], results: tuple[Tensor, ...], numbers: Tensor, name: str, shared: int
) -> Any:
    """The node of a batch of ties: its results. Called when the batch runs."""
    from weft.autograd.function import FunctionCtx

    told = bytes(numbers.reshape(-1).tolist())
    ctx: Any = FunctionCtx()
    ctx.uses = [
        _uses[int.from_bytes(told[at : at + _BYTES], "little")]
        for at in range(0, len(told), _BYTES)
    ]
    ctx.name, ctx.shared = name, [bool(shared >> i & 1) for i in range(len(inputs))]
    saved = [s for use in ctx.uses for s in use.saved if s is not None]
    with_values = [s[0] for s in saved if isinstance(s, tuple) and s[0] is s[1]]
    read = {s for s in saved if isinstance(s, int)}
    kept = [block if k in read else None for k, block in enumerate(results)]
    keep = (*kept, *with_values) if saved else ()
    return _C._record_function(ctx, _backward, name, inputs, results, keep, (), (), False)


def _pieces(blocks: Sequence[Any], uses: list[Use]) -> list[list[Any]]:
    """What of each block of results, or of their gradients, belongs to each use."""
    start, out = [0] * len(blocks), []
    blocks = [block if block is None else _C._in_place_of(block) for block in blocks]
    for use in uses:
        shapes = [o[0] for o in use.outputs if o is not None and o[2]]
        mine = []
        for k, (block, shape, size) in enumerate(zip(blocks, shapes, use.sizes, strict=True)):
            mine.append(None if block is None else block[start[k] : start[k] + size].view(shape))
            start[k] += size
        out.append(mine)
    return out


def _values(
    ctx: Any, use: Use, results: list[Any], grads: list[Any], with_values: Any
) -> tuple[Any, ...]:
    """What `ctx.saved_tensors` gives. Raises RuntimeError if one was written in place since and
    gradients flow here: in the batch they may be zeros where a loop has none."""
    out = []
    for saved in use.saved:
        if saved is None or isinstance(saved, int):
            out.append(saved if saved is None else results[saved])
            continue
        tensor, alias = saved
        if tensor is alias:
            out.append(next(with_values))
            continue
        line = _C._written(tensor)
        if line and any(g is not None and bool(g.any()) for g in grads):
            raise RuntimeError(
                "[backward] expected the saved value unchanged (one of the variables needed for "
                "gradient computation has been modified by an inplace operation): a "
                f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape "
                f"{list(tensor.shape)}, which {ctx.name} saved, got another version\n"
                f"  saved at {ctx.site}\n  overwritten at {line}\n"
                "  Hint: write out of place there, or clone() the tensor before"
            )
        out.append(alias)
    return tuple(out)


def _given(use: Use, grads: list[Any]) -> tuple[Any, ...]:
    """What backward gets for each output of forward."""
    given, tied = [], iter(grads)
    for out in use.outputs:
        grad = next(tied) if out is not None and out[2] else None
        if grad is None and out is not None and use.ctx.materialize_grads:
            grad = weft.zeros(out[0], dtype=out[1])
        given.append(grad)
    return tuple(given)


def _run(name: str, uses: list[Use], grads: list[list[Any]]) -> list[list[Any]]:
    """The gradients of the arguments that want one, for each use; the latest first as in a loop."""
    if not uses:
        return []
    together = getattr(uses[0].function, "backward_together", None)
    if together and all(use.function is uses[0].function for use in uses):
        given = [_given(use, mine) for use, mine in zip(uses, grads, strict=True)]
        found = together([use.ctx for use in uses], given)
    else:
        found = [
            use.backward(use.ctx, *_given(use, mine))
            for use, mine in zip(reversed(uses), reversed(grads), strict=True)
        ][::-1]
    return [
        _C._gradients(f if isinstance(f, tuple) else (f,), name, use.arguments)
        for f, use in zip(found, uses, strict=True)
    ]


def _backward(ctx: Any, *blocks: Any) -> Any:
    """The backward of all uses in the batch."""
    uses = ctx.uses
    saved = ctx.saved_tensors
    with_values = iter(saved[len(blocks) :])
    with weft.deferred():
        results = _pieces(saved[: len(blocks)], uses) if saved else [[]] * len(uses)
        grads = _pieces(blocks, uses)
        values = [
            _values(ctx, use, mine, given, with_values)
            for use, mine, given in zip(uses, results, grads, strict=True)
        ]
        for use, mine in zip(uses, values, strict=True):
            use.ctx._values = mine
        # The loop's pass does not come to the others.
        reached = ctx._reached([use.sizes for use in uses])
        try:
            run = iter(
                _run(
                    ctx.name,
                    [*itertools.compress(uses, reached)],
                    [*itertools.compress(grads, reached)],
                )
            )
            found = [next(run) if comes else [None] * len(ctx.shared) for comes in reached]
        finally:
            for use in uses:
                use.ctx._values = None
        return tuple([
            _joined([f[k] for f in found], uses, k, shared)
            for k, shared in enumerate(ctx.shared)
        ])  # fmt: skip


def _joined(grads: list[Any], uses: list[Use], k: int, shared: bool) -> Any:
    """The gradient of input k: of a leaf the sum, else one block."""
    there = [g for g in grads if g is not None]
    if not there:
        return None
    if shared:
        return there[0] if len(there) == 1 else weft.stack(there).sum(0)
    likes = [[a for a in use.arguments if isinstance(a, tuple)][k] for use in uses]
    return weft.cat([
        (weft.zeros(shape, dtype=dtype) if g is None else g).reshape(-1)
        for g, (shape, dtype) in zip(grads, likes, strict=True)
    ])  # fmt: skip


_C._set_tie(_make)
