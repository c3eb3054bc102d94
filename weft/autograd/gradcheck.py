"""Checks of gradients against finite differences. PyTorch's interface (torch.autograd.gradcheck).

Central differences, (f(x + eps) - f(x - eps)) / (2 eps): the error is of order eps^2 from the
formula and u / eps from rounding, so about 1e-10 in float64 with eps = 1e-6; in float32 a check
says little.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import weft
from weft._C import Tensor
from weft.autograd._backward import grad
from weft.autograd._transposed import found_gradients, transposed

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_Function = Callable[..., Any]


class GradcheckError(RuntimeError):
    """The gradients differ from finite differences."""


def _tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _outputs(function: _Function, inputs: Sequence[Any]) -> list[Tensor]:
    """Floating outputs; complex ones as their parts."""
    outputs = [t for t in _tuple(function(*inputs)) if isinstance(t, Tensor)]
    parts = [weft.view_as_real(t) if t.is_complex() else t for t in outputs]
    return [t for t in parts if t.is_floating_point()]


def _on_parts(function: _Function, inputs: tuple[Any, ...]) -> tuple[_Function, tuple[Any, ...]]:
    """The same function of the real and imaginary parts of its complex inputs.

    A gradient in PyTorch's convention, dL/dx + i dL/dy, is the one by the parts.
    """
    complex_at = {i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.is_complex()}
    if not complex_at:
        return function, inputs

    def of_parts(*args: Any) -> Any:
        return function(
            *(weft.view_as_complex(t) if i in complex_at else t for i, t in enumerate(args))
        )

    parts = (
        weft.view_as_real(t.detach()).clone().requires_grad_(t.requires_grad)
        if i in complex_at
        else t
        for i, t in enumerate(inputs)
    )
    return of_parts, tuple(parts)


def _values(function: _Function, inputs: Sequence[Any]) -> list[Tensor]:
    """The outputs' values, flat, in memory of their own."""
    return [t.detach().clone().reshape(-1).double() for t in _outputs(function, inputs)]


def _checked_inputs(who: str, given: Any) -> tuple[tuple[Any, ...], list[int]]:
    """The inputs, and which of them require grad."""
    inputs = _tuple(given)
    wanted = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not wanted:
        raise ValueError(
            f"[{who}] expected at least one input tensor to require gradient, got none "
            "(gradcheck expects at least one input tensor to require gradient, but none "
            "of the them have requires_grad=True.)"
        )
    for i in wanted:
        t = inputs[i]
        if t.dtype not in (weft.float64, weft.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point "
                "or complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex. ",
                stacklevel=3,
            )
        if any(step == 0 and size > 1 for step, size in zip(t.stride(), t.shape)):
            raise RuntimeError(
                f"[{who}] expected inputs without overlap, got one (The {i}th input has "
                "a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping). Hint: call .contiguous() on it first"
            )
    return inputs, wanted


# ---- the two Jacobians: by input, by output, [input.numel(), output.numel()]


def _cells(t: Tensor) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(size) for size in t.shape))


def _numeric(
    function: _Function, inputs: Sequence[Any], wanted: list[int], eps: float
) -> list[list[Tensor]]:
    out = []
    for i in wanted:
        data = inputs[i].data
        rows = []
        for cell in _cells(data):
            kept = data[cell].item()
            data[cell] = kept + eps
            up, above = data[cell].item(), _values(function, inputs)
            data[cell] = kept - eps
            down, below = data[cell].item(), _values(function, inputs)
            data[cell] = kept
            step = up - down if up != down else 2 * eps
            rows.append([(a - b) / step for a, b in zip(above, below)])
        out.append([weft.stack(column) for column in zip(*rows)])
    return out


def _analytic(outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> list[list[Tensor]]:
    """One backward pass per element of each output; other outputs' gradients are undefined."""
    out: list[list[Tensor]] = [[] for _ in leaves]
    for output in outputs:
        columns: list[list[Tensor]] = [[] for _ in leaves]
        for k in range(output.numel() if output.requires_grad else 0):
            start = weft.zeros(output.numel(), dtype=output.dtype)
            start[k] = 1.0
            found = grad(
                output, leaves, start.reshape(output.shape), retain_graph=True, allow_unused=True
            )
            for column, leaf, g in zip(columns, leaves, found):
                g = weft.zeros_like(leaf) if g is None else g
                column.append(g.detach().clone().reshape(-1).double())
        for j, (leaf, column) in enumerate(zip(leaves, columns)):
            shape = (leaf.numel(), output.numel())
            out[j].append(
                weft.stack(column, 1) if column else weft.zeros(shape, dtype=weft.float64)
            )
    return out


def _forward(outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> list[list[Tensor]]:
    """One derivative in a direction per element of each input."""
    out: list[list[Tensor]] = [[] for _ in leaves]
    for output in outputs:
        seeds, products = transposed([output], list(leaves))
        for row, leaf, product in zip(out, leaves, products):
            columns = []
            for cell in _cells(leaf):
                direction = weft.zeros_like(leaf)
                direction[cell] = 1.0
                reached = [] if product is None else [product]
                (moved,) = found_gradients(reached, seeds, [direction], False)
                moved = weft.zeros_like(output) if moved is None else moved
                columns.append(moved.detach().clone().reshape(-1).double())
            shape = (leaf.numel(), output.numel())
            row.append(weft.stack(columns) if columns else weft.zeros(shape, dtype=weft.float64))
    return out


# ---- checks


def _compare(
    analytic: list[list[Tensor]],
    numeric: list[list[Tensor]],
    wanted: list[int],
    atol: float,
    rtol: float,
) -> None:
    for i, a_row, n_row in zip(wanted, analytic, numeric):
        for k, (a, n) in enumerate(zip(a_row, n_row)):
            if a.numel() and not weft.allclose(a, n, rtol, atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {k} with respect to input {i},\n"
                    f"numerical:{n}\nanalytical:{a}\n"
                )


def _check_repeatable(
    first: list[list[Tensor]], again: list[list[Tensor]], tolerance: float
) -> None:
    for a, b in zip(itertools.chain(*first), itertools.chain(*again)):
        if a.numel() and not (a - b).abs().max().item() <= tolerance:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and "
                "grad_output multiple times gives different values, although analytical "
                "gradient matches numerical gradient. The tolerance for nondeterminism "
                f"was {tolerance}."
            )


def _check_zero(outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> None:
    """A backward is linear: gradients of zero give zero, in the input's shape and dtype."""
    live = [t for t in outputs if t.requires_grad]
    found = grad(
        live, leaves, [weft.zeros_like(t) for t in live], retain_graph=True, allow_unused=True
    )
    for leaf, g in zip(leaves, found):
        if g is None:
            continue
        if g.shape != leaf.shape or g.dtype != leaf.dtype:
            raise GradcheckError(
                f"grad is incorrect type or size: expected {tuple(leaf.shape)} of "
                f"{leaf.dtype}, got {tuple(g.shape)} of {g.dtype}"
            )
        if g.numel() and not bool((g == 0).all()):
            raise GradcheckError("backward not multiplied by grad_output")


def _slow_check(
    function: _Function,
    inputs: Sequence[Any],
    wanted: list[int],
    outputs: Sequence[Tensor],
    *,
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
) -> None:
    leaves = [inputs[i] for i in wanted]
    analytic = _analytic(outputs, leaves)
    _compare(analytic, _numeric(function, inputs, wanted, eps), wanted, atol, rtol)
    _check_repeatable(analytic, _analytic(outputs, leaves), nondet_tol)


def _fast_check(
    function: _Function,
    inputs: Sequence[Any],
    wanted: list[int],
    outputs: Sequence[Tensor],
    *,
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
) -> None:
    """u^T J v for random unit u and v: one pass, two evaluations, for each input and output."""
    generator = weft.Generator()
    for k, output in enumerate(outputs):
        leaves = [inputs[i] for i in wanted]
        start = _unit(output, generator)
        twice = [
            grad(output, leaves, start, retain_graph=True, allow_unused=True)
            if output.requires_grad
            else (None,) * len(leaves)
            for _ in range(2)
        ]
        for i, leaf, g, again in zip(wanted, leaves, *twice):
            direction = _unit(leaf, generator)
            kept = leaf.detach().clone()
            leaf.data.copy_(kept + eps * direction)
            above = _values(function, inputs)[k]
            leaf.data.copy_(kept - eps * direction)
            below = _values(function, inputs)[k]
            leaf.data.copy_(kept)
            n = ((above - below) / (2 * eps) * start.reshape(-1)).sum()
            a = (
                weft.zeros((), dtype=weft.float64)
                if g is None
                else (g.detach() * direction).sum().double()
            )
            _compare([[a]], [[n]], [i], atol, rtol)
            if g is not None:
                _check_repeatable([[g]], [[again]], nondet_tol)


def _pair(like: Tensor) -> Tensor:
    """Two vectors as one tensor, drawn from the default generator, as PyTorch draws them."""
    return weft.stack([weft.randn_like(like) for _ in range(2)])


def _check_batched(output: Tensor, inputs: Sequence[Tensor], pair: Tensor, what: str) -> None:
    """Gradients of two vectors at once are those of each."""
    at_once = grad(
        output, inputs, pair, retain_graph=True, allow_unused=True, is_grads_batched=True
    )
    each = [grad(output, inputs, v, retain_graph=True, allow_unused=True) for v in pair]
    for g, *parts in zip(at_once, *each):
        if g is None:
            continue
        expected = [weft.zeros_like(g[0]) if p is None else p for p in parts]
        if not weft.allclose(g, weft.stack(expected)):
            raise GradcheckError(
                f"While computing batched {what}, got other values than one by one:\n{g}\n"
                f"{expected}\n"
            )


def _check_forward(
    function: _Function, inputs: Sequence[Any], wanted: list[int], outputs: Sequence[Tensor], *,
    eps: float, atol: float, rtol: float, batched: bool,
) -> None:  # fmt: skip
    leaves = [inputs[i] for i in wanted]
    numeric = _numeric(function, inputs, wanted, eps)
    _compare(_forward(outputs, leaves), numeric, wanted, atol, rtol)
    if not batched:
        return
    directions = [_pair(leaf) for leaf in leaves]
    for output in outputs:
        seeds, products = transposed([output], leaves)
        for product, pair in zip(products, directions, strict=True):
            if product is not None and product.requires_grad:
                _check_batched(product, seeds, pair, "forward gradients")


def _unit(like: Tensor, generator: weft.Generator) -> Tensor:
    v = weft.randn(like.shape, dtype=like.dtype, generator=generator)
    length = (v * v).sum().sqrt()
    return v / length if like.numel() else v


def gradcheck(
    func: _Function,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compares the gradients of `func(*inputs)` with finite differences in every element.

    Inputs that require grad should be float64 or complex128. Raises GradcheckError at a difference
    greater than `atol + rtol * |numeric|`, or returns False with `raise_exception=False`.
    `nondet_tol`: how far two backward passes may differ. `fast_mode`: along one random direction,
    not every element.
    Outputs one at a time leave the other outputs' gradients undefined, and shapes and dtypes are
    always compared, so `check_undefined_grad` and `check_grad_dtypes` change nothing.
    `check_forward_ad`: the derivatives in the direction of each element of the inputs too, those of
    a Function by its `jvp`. `check_batched_grad`, `check_batched_forward_grad`: that two vectors at
    once give what each gives.

    >>> x = weft.tensor([0.5, 2.0], dtype=weft.float64, requires_grad=True)
    >>> weft.autograd.gradcheck(lambda x: x.exp() * x, (x,))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "[gradcheck] expected check_backward_ad=True or check_forward_ad=True, got neither "
            "(Expected at least one of check_forward_ad or check_backward_ad to be True)"
        )
    for name, given, needs, there in (
        ("check_batched_grad", check_batched_grad, "check_backward_ad", check_backward_ad),
        ("check_batched_forward_grad", check_batched_forward_grad, "check_forward_ad",
         check_forward_ad),
    ):  # fmt: skip
        if given and not there:
            raise AssertionError(
                f"[gradcheck] expected {needs}=True with {name}=True, got False (Setting {name}="
                f"True requires {needs} to be True)"
            )
    values, wanted = _checked_inputs("gradcheck", inputs)
    func, values = _on_parts(func, values)
    try:
        with weft.enable_grad():
            outputs = _outputs(func, values)
            if not any(t.requires_grad for t in outputs):
                _check_constant(func, values, wanted, eps, atol)
                return True
            check = _fast_check if fast_mode else _slow_check
            leaves = [values[i] for i in wanted]
            at = {"eps": eps, "atol": atol, "rtol": rtol}
            if check_backward_ad:
                check(func, values, wanted, outputs, **at, nondet_tol=nondet_tol)
            if check_forward_ad:
                batched = check_batched_forward_grad
                _check_forward(func, values, wanted, outputs, **at, batched=batched)
            if check_batched_grad:
                for output in (t for t in outputs if t.requires_grad):
                    _check_batched(output, leaves, _pair(output), "gradients")
            if check_backward_ad:
                _check_zero(outputs, leaves)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_constant(
    function: _Function, inputs: Sequence[Any], wanted: list[int], eps: float, atol: float
) -> None:
    for n in itertools.chain(*_numeric(function, inputs, wanted, eps)):
        if n.numel() and not n.abs().max().item() <= atol:
            raise GradcheckError("Numerical gradient for function expected to be zero")


def gradgradcheck(
    func: _Function,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradients of `func`, with respect to `inputs` and `grad_outputs`.

    `grad_outputs`: one for each output that requires grad; None: random ones.

    >>> x = weft.tensor([0.5, 2.0], dtype=weft.float64, requires_grad=True)
    >>> weft.autograd.gradgradcheck(lambda x: x ** 3, (x,))
    True
    """
    values, wanted = _checked_inputs("gradgradcheck", inputs)

    def live(args: Sequence[Any]) -> list[Tensor]:
        return [t for t in _outputs(func, args) if t.requires_grad]

    with weft.enable_grad():
        if grad_outputs is None:
            starts = tuple(_start(t, gen_non_contig_grad_outputs) for t in live(values))
        else:
            starts = _tuple(grad_outputs)

    def first(*args: Any) -> tuple[Tensor, ...]:
        at = args[: len(values)]
        found = grad(
            live(at),
            [at[i] for i in wanted],
            args[len(values) :],
            create_graph=True,
            allow_unused=True,
        )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first,
        values + starts,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


def _start(output: Tensor, strided: bool) -> Tensor:
    shape = list(output.shape)
    strided = strided and output.numel() > 1
    if strided:
        shape[-1] *= 2
    v = weft.empty(shape, dtype=output.dtype).uniform_(-1, 1)
    v = v[..., 1::2] if strided else v
    return v.detach().requires_grad_()
