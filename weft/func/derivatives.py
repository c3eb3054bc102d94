"""Derivatives of functions of tensors, and of structures of them. torch.func's semantics.

A transform runs the function on inputs of its own, asks the graph, and hands out results that are
part of the graph around it only where they depend on it; transforms nest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import weft
from weft._C import Tensor
from weft.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp"]

Argnums = int | tuple[int, ...]


def _own(t: Any, who: str) -> Tensor:
    """A fresh input: part of the graph around, if `t` is, and differentiable in any case."""
    if not isinstance(t, Tensor):
        raise ValueError(f"[{who}] expected tensors as inputs, got {type(t).__name__}")
    if not (t.is_floating_point() or t.is_complex()):
        raise RuntimeError(
            f"[{who}] expected inputs of a floating dtype, got {t.dtype} (only Tensors of floating "
            "point dtype can require gradients)"
        )
    if not t.requires_grad:
        return t.detach().requires_grad_()
    # Not a view of `t`: the function may write into it.
    link: Tensor = _Link.apply(t)
    return link


class _Link(weft.autograd.Function):
    """The boundary of a transform: the same values."""

    @staticmethod
    def forward(ctx: Any, t: Tensor) -> Tensor:
        return t.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def _depends(outputs: list[Tensor], own: list[Tensor]) -> bool:
    """Whether the graph of `outputs` reaches past `own`: then results are part of it."""
    ends = {id(t) for t in own if t.is_leaf}
    links = {t.grad_fn for t in own if not t.is_leaf}
    if links:
        return True
    seen = set()
    todo = [t.grad_fn for t in outputs if t.grad_fn is not None]
    if any(t.is_leaf and t.requires_grad and id(t) not in ends for t in outputs):
        return True
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor) and id(leaf) not in ends:
            return True
        todo += [edge[0] for edge in node.next_functions if edge[0] is not None]
    return False


def _gradients(
    outputs: list[Tensor], inputs: list[Tensor], seeds: list[Tensor] | None, track: bool
) -> list[Tensor]:
    """Gradients, zeros for what outputs do not depend on; the graph is kept."""
    with weft.enable_grad():
        wanted = [k for k, t in enumerate(outputs) if t.requires_grad]
        if not wanted:
            return [weft.zeros_like(t) for t in inputs]
        found = weft.autograd.grad(
            [outputs[k] for k in wanted],
            inputs,
            None if seeds is None else [seeds[k] for k in wanted],
            retain_graph=True,
            create_graph=track,
            allow_unused=True,
        )
    return [weft.zeros_like(t) if g is None else g for g, t in zip(found, inputs, strict=True)]


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
        with weft.enable_grad():
            self.own = [_own(t, who) for t in leaves]
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
        with weft.enable_grad():
            output, aux = func(*inputs.args, **kwargs), None
            if has_aux:
                output, aux = _with_aux(output, "grad")
        if not isinstance(output, Tensor):
            raise RuntimeError(
                f"[grad] expected a function that returns a tensor, got {type(output).__name__}"
            )
        if output.dim() != 0:
            raise RuntimeError(
                "[grad] expected a function that returns a scalar tensor, got one with "
                f"{output.dim()} dimensions. Hint: sum() it, or use jacrev"
            )
        track = outer and _depends([output], inputs.own)
        found = inputs.structure(_gradients([output], inputs.own, None, track))
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
    with weft.enable_grad():
        output, aux = func(*inputs.args), None
        if has_aux:
            output, aux = _with_aux(output, "vjp")
    outputs, spec = _tensors_of(output, "vjp")
    track = outer and _depends(outputs, inputs.own)

    def back(cotangents: Any) -> Any:
        seeds, given = tree_flatten(cotangents)
        if given != spec:
            raise RuntimeError(
                f"[vjp] expected cotangents of the output's structure {spec}, got {given}"
            )
        keep = track or any(isinstance(s, Tensor) and s.requires_grad for s in seeds)
        keep = keep and weft.is_grad_enabled()
        return _out(inputs.structure(_gradients(outputs, inputs.own, seeds, keep)), keep)

    result = _out(output, track)
    return (result, back, _out(aux, track)) if has_aux else (result, back)


def _transposed(outputs: list[Tensor], own: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """u and Jᵀu as a function of u: its gradient in the direction v is Jv."""
    with weft.enable_grad():
        seeds = [weft.zeros_like(t).requires_grad_() for t in outputs]
        return seeds, _gradients(outputs, own, seeds, True)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """`func(*primals)` and its derivative in the direction of `tangents`.

    Reverse mode twice: u ↦ Jᵀu is linear, and its gradient in the direction v is Jv.

    Returns (output, tangents of the output), or those and aux.

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
    with weft.enable_grad():
        output, aux = func(*inputs.args), None
        if has_aux:
            output, aux = _with_aux(output, "jvp")
    outputs, spec = _tensors_of(output, "jvp")
    track = outer and (_depends(outputs, inputs.own) or any(t.requires_grad for t in directions))
    seeds, products = _transposed(outputs, inputs.own)
    moved = tree_unflatten(_gradients(products, seeds, directions, track), spec)
    result = (_out(output, track), _out(moved, track))
    return (*result, _out(aux, track)) if has_aux else result


def _rows(outputs: list[Tensor], own: list[Tensor], track: bool) -> list[list[Tensor]]:
    """Jacobians [output][input] of shape output.shape + input.shape, a row at a time."""
    jacobians = []
    for output in outputs:
        flat = output.reshape(-1)
        rows = [_gradients([flat[i]], own, None, track) for i in range(flat.numel())]
        jacobians.append([
            weft.stack([row[k] for row in rows]).reshape(*output.shape, *t.shape)
            if rows else t.new_zeros(*output.shape, *t.shape)
            for k, t in enumerate(own)
        ])  # fmt: skip
    return jacobians


def _columns(outputs: list[Tensor], own: list[Tensor], track: bool) -> list[list[Tensor]]:
    """The same, a column at a time."""
    seeds, products = _transposed(outputs, own)
    jacobians: list[list[Tensor]] = [[] for _ in outputs]
    for k, t in enumerate(own):
        columns = []
        for i in range(t.numel()):
            unit = weft.zeros(t.numel(), dtype=t.dtype)
            unit[i] = 1
            columns.append(_gradients([products[k]], seeds, [unit.reshape(t.shape)], track))
        for j, output in enumerate(outputs):
            shape = (*output.shape, *t.shape)
            stacked = [column[j] for column in columns]
            jacobians[j].append(
                weft.stack(stacked, -1).reshape(shape) if stacked else t.new_zeros(shape)
            )
    return jacobians


def _jacobian(
    func: Callable[..., Any], argnums: Argnums, has_aux: bool, who: str, make: Any
) -> Callable[..., Any]:
    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        outer = weft.is_grad_enabled()
        inputs = _Inputs(args, argnums, who)
        with weft.enable_grad():
            output, aux = func(*inputs.args, **kwargs), None
            if has_aux:
                output, aux = _with_aux(output, who)
            outputs, spec = _tensors_of(output, who)
            track = outer and _depends(outputs, inputs.own)
            found = [inputs.structure(row) for row in make(outputs, inputs.own, track)]
        result = _out(tree_unflatten(found, spec), track)
        return (result, _out(aux, track)) if has_aux else result

    return run


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False,
    chunk_size: int | None = None, _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """The function that gives the Jacobian of `func`, by reverse mode: one pass per output.

    Args: as `grad`; `chunk_size` is taken and changes nothing, rows come one at a time.
    Returns the output's structure of the inputs' structures, of shape output.shape + input.shape.

    >>> weft.func.jacrev(lambda x: x ** 2)(weft.tensor([1., 3.]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    return _jacobian(func, argnums, has_aux, "jacrev", _rows)


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
    randomness: str = "error",
) -> Callable[..., Any]:  # fmt: skip
    """The same a column at a time: one pass per input element, better for tall Jacobians."""
    return _jacobian(func, argnums, has_aux, "jacfwd", _columns)


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The function that gives the second derivatives of `func`.

    >>> weft.func.hessian(lambda x: (x ** 3).sum())(weft.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
