"""Jacobians, Hessians and their products with vectors, of functions of tensors.

`func` takes one tensor or several and returns one or several; results have the structure of the
inputs. They are in the graph only with `create_graph`. With `strict` an output that does not depend
on an input is an error; otherwise its derivative is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.autograd._backward import grad
from weft.autograd._transposed import transposed
from weft.base import checks as _checks
from weft.base.modes import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]


def _as_tuple(value: Any, what: str, who: str) -> tuple[bool, Tensors]:
    """Whether it was several, and all of them."""
    several = isinstance(value, tuple)
    out = value if several else (value,)
    for i, t in enumerate(out):
        if not isinstance(t, Tensor):
            where = f"Value {i} of the {what}" if several else f"the given {what}"
            raise TypeError(
                f"[{who}] expected a tensor or a tuple of tensors as the {what}, got "
                f"{type(t).__name__} (The {what} given to {who} must be either a Tensor or a tuple "
                f"of Tensors but {where} has type {type(t)}.)"
            )
    return several, out


def _fresh(inputs: Tensors, create_graph: bool) -> Tensors:
    """The inputs as tensors that the function's graph begins with."""
    return tuple(
        t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_()
        for t in inputs
    )


def _called(who: str, func: Callable[..., Any], inputs: Tensors, strict: bool) -> Any:
    several, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", who)
    for i, out in enumerate(outputs):
        if strict and not out.requires_grad:
            raise RuntimeError(
                f"[{who}] expected outputs that depend on the inputs, got one that does not "
                f"(Output {i} of the user-provided function does not require gradients. The "
                "outputs must be computed in a differentiable manner from the input when running "
                "in strict mode.)"
            )
    return several, outputs


def _vector(who: str, v: Any, like: Tensors, of: str) -> Tensors:
    """The vector, one tensor for each of `like`."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"[{who}] expected a vector v for several {of}, got None (The vector v can only be "
                f"None if the {of} of the user-provided function is a single Tensor with a single "
                "element.)"
            )
        return (weft.ones_like(like[0]),)
    _, vectors = _as_tuple(v, "v", who)
    if len(vectors) != len(like):
        raise RuntimeError(
            f"[{who}] expected {len(like)} tensors in v, got {len(vectors)} (v is a tuple of "
            "invalid length)"
        )
    for a, b in zip(vectors, like):
        if a.shape != b.shape:
            raise RuntimeError(
                f"[{who}] expected a vector of shape {tuple(b.shape)}, got {tuple(a.shape)} (v has "
                "invalid size)"
            )
    return vectors


def _grads(
    who: str, outputs: Sequence[Tensor], inputs: Tensors, v: Sequence[Tensor], *,
    create_graph: bool, strict: bool = False, retain: bool | None = None,
) -> Tensors:  # fmt: skip
    """Gradients, zeros where there is none."""
    pairs = [(o, w) for o, w in zip(outputs, v) if o.requires_grad]
    found: Any = [None] * len(inputs)
    if pairs:
        found = grad(
            [o for o, _ in pairs], inputs, [w for _, w in pairs], create_graph=create_graph,
            retain_graph=retain, allow_unused=True,
        )  # fmt: skip
    for i, g in enumerate(found):
        if strict and g is None:
            raise RuntimeError(
                f"[{who}] expected outputs that depend on every input, got one independent of "
                f"input {i} (The output of the user-provided function is independent of input {i}. "
                "This is not allowed in strict mode.)"
            )
    return tuple(weft.zeros_like(t) if g is None else g for g, t in zip(found, inputs))


def _given(several: bool, values: Tensors, create_graph: bool) -> Any:
    values = values if create_graph else tuple(t.detach() for t in values)
    return values if several else values[0]


@enable_grad()
def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """`(func(inputs), vᵀ J)` for the Jacobian J; v has the outputs' shapes.

    >>> weft.autograd.functional.vjp(lambda x: x.exp().sum(), weft.zeros(2))
    (tensor(2.), tensor([1., 1.]))
    """
    several, given = _as_tuple(inputs, "inputs", "vjp")
    leaves = _fresh(given, create_graph)
    many, outputs = _called("vjp", func, leaves, strict)
    v = _vector("vjp", v, outputs, "output")
    found = _grads("vjp", outputs, leaves, v, create_graph=create_graph, strict=strict)
    return _given(many, outputs, create_graph), _given(several, found, create_graph)


@enable_grad()
def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """`(func(inputs), J v)` for the Jacobian J; v has the inputs' shapes. Two backward passes.

    >>> weft.autograd.functional.jvp(lambda x: x * x, weft.tensor([3.0]), weft.tensor([1.0]))
    (tensor([9.]), tensor([6.]))
    """
    _, given = _as_tuple(inputs, "inputs", "jvp")
    v = _vector("jvp", v, given, "input")
    leaves = _fresh(given, create_graph)
    many, outputs = _called("jvp", func, leaves, strict)
    # the product is linear in them, but at 0 its parts may have no derivative: log(abs(0))
    probes = tuple(weft.ones_like(o).requires_grad_() for o in outputs)
    turned = _grads("jvp", outputs, leaves, probes, create_graph=True, strict=strict)
    found = _grads("jvp", turned, probes, v, create_graph=create_graph)
    return _given(many, outputs, create_graph), _given(many, found, create_graph)


def _all_rows(out: Tensor, inputs: Tensors, create_graph: bool) -> Tensors:
    """The derivatives of every element of `out`, by one backward pass."""
    units = weft.eye(out.numel(), dtype=out.dtype, device=out.device).reshape(-1, *out.shape)
    found = grad(
        out, inputs, units, retain_graph=True, create_graph=create_graph, allow_unused=True,
        is_grads_batched=True,
    )  # fmt: skip
    return tuple(
        t.new_zeros((*out.shape, *t.shape)) if g is None else g.reshape((*out.shape, *t.shape))
        for g, t in zip(found, inputs, strict=True)
    )


def _jacobian_forward(
    func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool, vectorize: bool
) -> Any:
    for name, given in (("create_graph", create_graph), ("strict", strict)):
        if given:
            raise (NotImplementedError if name == "create_graph" else RuntimeError)(
                f"[jacobian] expected {name}=False with strategy 'forward-mode', got True "
                f"(torch.autograd.functional.jacobian: `{name}=True` and "
                '`strategy="forward-mode"` are not supported together (yet). Please either set '
                f'`{name}=False` or `strategy="reverse-mode"`.)'
            )
    if not vectorize:
        raise NotImplementedError(
            "[jacobian] expected vectorize=True with strategy 'forward-mode', got False (Computing "
            "Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`.)"
        )
    several, given_inputs = _as_tuple(inputs, "inputs", "jacobian")
    leaves = _fresh(given_inputs, False)
    many, outputs = _called("jacobian", func, leaves, False)
    rows = []
    seeds, turned = transposed(list(outputs), list(leaves))
    for out, seed in zip(outputs, seeds, strict=True):
        row = []
        for t, product in zip(leaves, turned, strict=True):
            if product is None or not product.numel() or not product.requires_grad:
                row.append(t.new_zeros((*out.shape, *t.shape)))
                continue
            columns = _all_rows(product, (seed,), False)[0]
            row.append(columns.movedim(tuple(range(t.dim())), tuple(range(-t.dim(), 0))))
        rows.append(_given(several, tuple(row), False))
    return tuple(rows) if many else rows[0]


@enable_grad()
def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of every output element by every input element.

    Args:
        func, inputs, create_graph, strict: see the module.
        vectorize: all elements of an output by one backward pass, not with `strict`.
        strategy: `"forward-mode"` computes by columns, one for each input element, with `vectorize`
            alone.

    Returns: of shape output + input; a tuple for several inputs, of tuples for several outputs.

    >>> weft.autograd.functional.jacobian(lambda x: x * x, weft.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            f"[jacobian] expected strategy 'reverse-mode' or 'forward-mode', got {strategy!r} "
            '(Expected strategy to be either "forward-mode" or "reverse-mode".)'
        )
    if strategy == "forward-mode":
        return _jacobian_forward(func, inputs, create_graph, strict, vectorize)
    several, given = _as_tuple(inputs, "inputs", "jacobian")
    leaves = _fresh(given, create_graph)
    many, outputs = _called("jacobian", func, leaves, strict)
    rows = []
    for out in outputs:
        if vectorize and not strict and out.requires_grad:
            rows.append(_given(several, _all_rows(out, leaves, create_graph), create_graph))
            continue
        parts: list[list[Tensor]] = [[] for _ in leaves]
        flat = out.reshape(-1)
        elements = flat.unbind() if flat.numel() else ()
        for element in elements:
            found = _grads(
                "jacobian", [element], leaves, [weft.ones_like(element)], retain=True,
                create_graph=create_graph, strict=strict,
            )  # fmt: skip
            for part, g in zip(parts, found):
                part.append(g)
        row = tuple(
            (weft.stack(p) if p else t.new_zeros((0, *t.shape))).reshape((*out.shape, *t.shape))
            for p, t in zip(parts, leaves)
        )
        rows.append(_given(several, row, create_graph))
    return tuple(rows) if many else rows[0]


def _slope(
    who: str, func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool
) -> Any:
    """The gradient of a function of one element, in the graph."""
    several, given = _as_tuple(inputs, "inputs", who)
    leaves = _fresh(given, create_graph)
    many, outputs = _called(who, func, leaves, strict)
    if many or outputs[0].numel() != 1:
        raise RuntimeError(
            f"[{who}] expected a function that returns one element, got "
            f"{'several tensors' if many else tuple(outputs[0].shape)} (The Tensor returned by the "
            f"function given to {who} should contain a single element)"
        )
    ones = [weft.ones_like(outputs[0])]
    slope = _grads(who, outputs, leaves, ones, create_graph=True, strict=strict)
    return several, leaves, outputs, slope


@enable_grad()
def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """`(func(inputs), vᵀ H)` for the Hessian H of a function of one element.

    >>> weft.autograd.functional.vhp(lambda x: (x**3).sum(), weft.ones(2), weft.ones(2))
    (tensor(2.), tensor([6., 6.]))
    """
    several, leaves, outputs, slope = _slope("vhp", func, inputs, create_graph, strict)
    v = _vector("vhp", v, leaves, "input")
    found = _grads("vhp", slope, leaves, v, create_graph=create_graph, strict=strict)
    return _given(False, outputs, create_graph), _given(several, found, create_graph)


@enable_grad()
def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """`(func(inputs), H v)`: H is symmetric, so this is `vhp`.

    >>> weft.autograd.functional.hvp(lambda x: (x**3).sum(), weft.ones(2), weft.ones(2))[1]
    tensor([6., 6.])
    """
    return vhp(func, inputs, v, create_graph, strict)


@enable_grad()
def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function of one element; see `jacobian`.

    >>> weft.autograd.functional.hessian(lambda x: (x**3).sum(), weft.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    several, _ = _as_tuple(inputs, "inputs", "hessian")

    def slope(*values: Tensor) -> Tensors:
        found: Tensors = _slope("hessian", func, values, True, strict)[3]
        return found

    out = jacobian(slope, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return out if several else out[0]


_checks.install(__name__)
