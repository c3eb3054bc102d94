"""Derivatives of functions of tensors, and of structures of them. torch.func's semantics.

A transform runs the function on inputs of its own, asks the graph, and hands out results that are
part of the graph around it only where they depend on it; transforms nest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import weft
from weft._C import Tensor
from weft.autograd._transposed import depends, gradients, own, transposed
from weft.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp"]

Argnums = int | tuple[int, ...]


def _places(argnums: Argnums, count: int, who: str) -> list[int]:
    """Positions from 0 of the arguments to differentiate."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not numbers:
        raise RuntimeError(f"[{who}] expected at least one argument to differentiate, got none")
    for k in numbers:
        if not isinstance(k, int):
            raise RuntimeError(f"[{who}] expected argnums as an int or a tuple, got {argnums!r}")
        if not -count <= k < count:
            raise RuntimeError(
                f"[{who}] expected argnums within the {count} positional inputs, got {k}"
            )
    places = [k % count for k in numbers]
    if len(set(places)) != len(places):
        raise RuntimeError(f"[{who}] expected argnums without duplicates, got {argnums}")
    return places


class _Inputs:
    """The arguments of a call with fresh tensors in the places to differentiate."""

    def __init__(self, args: tuple[Any, ...], argnums: Argnums, who: str) -> None:
        self.places = _places(argnums, len(args), who)
        self.single = isinstance(argnums, int)
        leaves, self.spec = tree_flatten(tuple(args[k] for k in self.places))
        with weft.inference_mode(False):
            self.own = [own(t, who) for t in leaves]
        self.args = list(args)
        for k, value in zip(self.places, tree_unflatten(self.own, self.spec), strict=True):
            self.args[k] = value

    def structure(self, values: list[Tensor]) -> Any:
        """Values in the places of `own`, as argnums say."""
        tree = tree_unflatten(values, self.spec)
        return tree[0] if self.single else tree


def _out(tree: Any, track: bool) -> Any:
    """Results as the graph around shall see them."""
    return tree if track else tree_map(lambda t: t.detach() if isinstance(t, Tensor) else t, tree)


def _with_aux(result: Any, who: str) -> tuple[Any, Any]:
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"[{who}] expected (output, aux) of the function with has_aux=True, got "
            f"{type(result).__name__}"
        )
    return result


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient of a scalar `func`, and its value.

    Args: as `grad`. Returns (gradient, value), or (gradient, (value, aux)).

    >>> weft.func.grad_and_value(lambda x: (x ** 2).sum())(weft.tensor([1., 3.]))
    (tensor([2., 6.]), tensor(10.))
    """

    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        outer = weft.is_grad_enabled()
        inputs = _Inputs(args, argnums, "grad")
        with weft.inference_mode(False):
            output, aux = func(*inputs.args, **kwargs), None
            if has_aux:
                output, aux = _with_aux(output, "grad")
        if not isinstance(output, Tensor):
            raise RuntimeError(
                f"[grad] expected a function that returns a tensor, got {type(output).__name__}"
            )
        if output.dim() != 0:
            raise RuntimeError(
                "[grad] expected another function, got f (grad_and_value(f)(*args): Expected "
                "f(*args) "
                f"to return a scalar Tensor, got tensor with {output.dim()} dims. Maybe you "
                "wanted to "
                "use the vjp or jacrev APIs instead?)"
            )
        track = outer and depends([output], inputs.own)
        found = inputs.structure(gradients([output], inputs.own, None, track))
        value = _out(output, track)
        return _out(found, track), (value, _out(aux, track)) if has_aux else value

    return run


def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient of a scalar `func`.

    Args:
        func: of tensors and structures of them (dicts, lists, tuples), to a tensor of dimension 0.
        argnums: which positional arguments to differentiate for; a tuple gives a tuple.
        has_aux: `func` returns (value, aux), and the result is (gradient, aux).

    Raises: RuntimeError if `func` returns anything else, or argnums do not fit.

    >>> weft.func.grad(weft.sin)(weft.tensor(0.))
    tensor(1.)
    >>> weft.func.grad(weft.func.grad(lambda x: x ** 3))(weft.tensor(2.))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return run


def _tensors_of(output: Any, who: str) -> tuple[list[Tensor], TreeSpec]:
    leaves, spec = tree_flatten(output)
    for t in leaves:
        if not isinstance(t, Tensor):
            raise RuntimeError(
                f"[{who}] expected a function that returns tensors, got {type(t).__name__}"
            )
    return leaves, spec


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`func(*primals)` and the function that multiplies its Jacobian from the left.

    Returns (output, vjp_fn), or (output, vjp_fn, aux). `vjp_fn(cotangents)` takes the output's
    structure and gives a tuple, one for each primal.

    >>> out, back = weft.func.vjp(lambda x: x ** 2, weft.tensor([1., 3.]))
    >>> back(weft.ones(2))
    (tensor([2., 6.]),)
    """
    outer = weft.is_grad_enabled()
    inputs = _Inputs(primals, tuple(range(len(primals))), "vjp")
    with weft.inference_mode(False):
        output, aux = func(*inputs.args), None
        if has_aux:
            output, aux = _with_aux(output, "vjp")
    outputs, spec = _tensors_of(output, "vjp")
    track = outer and depends(outputs, inputs.own)

    def back(cotangents: Any) -> Any:
        seeds, given = tree_flatten(cotangents)
        if given != spec:
            raise RuntimeError(
                f"[vjp] expected cotangents of the output's structure {spec}, got {given}"
            )
        keep = track or any(isinstance(s, Tensor) and s.requires_grad for s in seeds)
        keep = keep and weft.is_grad_enabled()
        return _out(inputs.structure(gradients(outputs, inputs.own, seeds, keep)), keep)

    result = _out(output, track)
    return (result, back, _out(aux, track)) if has_aux else (result, back)


def _transposed(outputs: list[Tensor], inputs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """u and Jᵀu as a function of u, zeros for what outputs do not depend on."""
    seeds, found = transposed(outputs, inputs)
    with weft.inference_mode(False):
        zeros = (weft.zeros_like(t) if g is None else g for g, t in zip(found, inputs, strict=True))
        return seeds, list(zeros)


def _expect_dependent(outputs: list[Tensor], inputs: list[Tensor]) -> None:
    for out in outputs:
        found: Sequence[Tensor | None] = [None]
        if out.requires_grad:
            found = weft.autograd.grad(
                out, inputs, weft.zeros_like(out), retain_graph=True, allow_unused=True
            )
        if all(g is None for g in found):
            raise RuntimeError(
                "[jvp] expected outputs that depend on the primals, got one that does not (The "
                "output of f is independent of the inputs. This is not allowed with strict=True.)"
            )


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """`func(*primals)` and its derivative in the direction of `tangents`.

    Reverse mode twice: u ↦ Jᵀu is linear, and its gradient in the direction v is Jv.

    Returns (output, tangents of the output), or those and aux. With `strict` an output that does
    not depend on the primals is a RuntimeError; else its tangent is zero.

    >>> weft.func.jvp(lambda x: x ** 2, (weft.tensor(3.),), (weft.tensor(1.),))
    (tensor(9.), tensor(6.))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError(
            f"[jvp] expected tuples of primals and tangents, got {type(primals).__name__} and "
            f"{type(tangents).__name__}"
        )
    outer = weft.is_grad_enabled()
    inputs = _Inputs(primals, tuple(range(len(primals))), "jvp")
    directions, given = tree_flatten(tangents)
    if given != inputs.spec:
        raise RuntimeError(
            f"[jvp] expected tangents of the primals' structure {inputs.spec}, got {given}"
        )
    with weft.inference_mode(False):
        output, aux = func(*inputs.args), None
        if has_aux:
            output, aux = _with_aux(output, "jvp")
    outputs, spec = _tensors_of(output, "jvp")
    if strict:
        _expect_dependent(outputs, inputs.own)
    track = outer and (depends(outputs, inputs.own) or any(t.requires_grad for t in directions))
    seeds, products = _transposed(outputs, inputs.own)
    moved = tree_unflatten(gradients(products, seeds, directions, track), spec)
    result = (_out(output, track), _out(moved, track))
    return (*result, _out(aux, track)) if has_aux else result


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`func(*primals)`, and a function from tangents of the primals to tangents of the output.

    `func` runs once, whatever the number of tangents, and what its graph holds is held as long as
    the function. Tangents have the structure, shapes and dtypes of the primals.

    Raises: RuntimeError: tangents of another structure, shape or dtype.

    >>> output, along = weft.func.linearize(lambda x: x ** 2, weft.tensor(3.))
    >>> output, along(weft.tensor(1.)), along(weft.tensor(2.))
    (tensor(9.), tensor(6.), tensor(12.))
    """
    inputs = _Inputs(primals, tuple(range(len(primals))), "linearize")
    with weft.inference_mode(False):
        output = func(*inputs.args)
    outputs, spec = _tensors_of(output, "linearize")
    seeds, products = _transposed(outputs, inputs.own)

    def along(*tangents: Any) -> Any:
        directions, given = tree_flatten(tangents)
        if given != inputs.spec:
            raise RuntimeError(
                f"[linearize] expected tangents of the primals' structure, got others (Expected "
                f"the tangents {given} to have the same argspec as the primals {inputs.spec})"
            )
        for primal, direction in zip(inputs.own, directions, strict=True):
            if (primal.shape, primal.dtype) != (direction.shape, direction.dtype):
                raise RuntimeError(
                    f"[linearize] expected a tangent of {primal.dtype} {list(primal.shape)}, got "
                    f"{direction.dtype} {list(direction.shape)}"
                )
        return tree_unflatten(gradients(products, seeds, directions, False), spec)

    return _out(output, False), along


def _units(t: Tensor, first: int, end: int) -> Tensor:
    """Of the unit vectors of `t`'s space those from `first` to `end`, along dim 0."""
    rows = weft.zeros(end - first, t.numel(), dtype=t.dtype, device=t.device)
    rows.diagonal(first).fill_(1)
    return rows.reshape(-1, *t.shape)


def _of_units(
    outputs: list[Tensor], k: int, inputs: list[Tensor], track: bool, chunk: int | None
) -> list[Tensor]:
    """The gradients of each element of `outputs[k]`, along dim 0."""
    output, count = outputs[k], outputs[k].numel()
    if not count or not output.requires_grad:
        return [t.new_zeros(count, *t.shape) for t in inputs]
    step = chunk or count
    with weft.inference_mode(False):
        parts = [
            weft.autograd.grad(
                [output], inputs, [_units(output, i, min(i + step, count))], retain_graph=True,
                create_graph=track, allow_unused=True, is_grads_batched=True,
            )
            for i in range(0, count, step)
        ]  # fmt: skip
        columns = list(zip(*parts, strict=True))
        return [
            t.new_zeros(count, *t.shape) if c[0] is None
            else c[0] if len(c) == 1
            else weft.cat(c)
            for c, t in zip(columns, inputs, strict=True)
        ]  # fmt: skip


def _rows(
    outputs: list[Tensor], own: list[Tensor], track: bool, chunk: int | None
) -> list[list[Tensor]]:
    """Jacobians [output][input] of shape output.shape + input.shape, a row for each element."""
    return [
        [
            rows.reshape((*output.shape, *t.shape))
            for rows, t in zip(_of_units(outputs, k, own, track, chunk), own, strict=True)
        ]
        for k, output in enumerate(outputs)
    ]


def _columns(
    outputs: list[Tensor], own: list[Tensor], track: bool, chunk: int | None
) -> list[list[Tensor]]:
    """The same, a column for each element of the inputs."""
    seeds, products = _transposed(outputs, own)
    by_input = [_of_units(products, k, seeds, track, chunk) for k in range(len(own))]
    return [
        [
            columns[j].movedim(0, -1).reshape((*output.shape, *t.shape))
            for columns, t in zip(by_input, own, strict=True)
        ]
        for j, output in enumerate(outputs)
    ]


def _jacobian(
    func: Callable[..., Any], argnums: Argnums, has_aux: bool, who: str, make: Any,
    chunk: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        outer = weft.is_grad_enabled()
        inputs = _Inputs(args, argnums, who)
        with weft.inference_mode(False):
            output, aux = func(*inputs.args, **kwargs), None
            if has_aux:
                output, aux = _with_aux(output, who)
            outputs, spec = _tensors_of(output, who)
            track = outer and depends(outputs, inputs.own)
            found = [inputs.structure(row) for row in make(outputs, inputs.own, track, chunk)]
        result = _out(tree_unflatten(found, spec), track)
        return (result, _out(aux, track)) if has_aux else result

    return run


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False,
    chunk_size: int | None = None, _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """The function that gives the Jacobian of `func`, by reverse mode: a row per output element.

    Args: as `grad`; `chunk_size`: so many rows by one backward pass, which bounds its memory; all
    of them if None.
    Returns the output's structure of the inputs' structures, of shape output.shape + input.shape.

    >>> weft.func.jacrev(lambda x: x ** 2)(weft.tensor([1., 3.]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    return _jacobian(func, argnums, has_aux, "jacrev", _rows, chunk_size)


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
    randomness: str = "error",
) -> Callable[..., Any]:  # fmt: skip
    """The same by columns, one per input element: better for tall Jacobians.

    >>> weft.func.jacfwd(lambda x: x**2)(weft.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return _jacobian(func, argnums, has_aux, "jacfwd", _columns)


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The function that gives the second derivatives of `func`.

    >>> weft.func.hessian(lambda x: (x ** 3).sum())(weft.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
