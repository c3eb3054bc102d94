"""Gradients of values inside of examples: grad, hooks and retain_grad of what waited when used."""

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.nn import functional as F

W = weft.linspace(0.5, 2, 12, dtype=weft.float64).view(3, 4)


def grad_of_a_result(x: Any, w: Any) -> Any:
    h = w * x
    (g,) = weft.autograd.grad((h * h).sum(), h, create_graph=True)
    return (g * x).sum()


def grad_of_several(x: Any, w: Any) -> Any:
    h = w * x
    k = h.sin()
    a, b = weft.autograd.grad((h * k).sum(), [h, k], create_graph=True)
    return (a * b).sum()


def grad_before_and_after_a_read(x: Any, w: Any) -> Any:
    h = w * x
    early = h.exp()
    if h.sum().item() < -1e9:
        return early
    late = h.cos()
    (g,) = weft.autograd.grad((early * late).sum(), h, create_graph=True)
    return (g * g).sum()


def grad_of_a_transposed_result(x: Any, w: Any) -> Any:
    h = (w * x).t() * 2
    (g,) = weft.autograd.grad((h @ h.t()).sum(), h, create_graph=True)
    return (g * h).sum()


def inner_steps(x: Any, w: Any) -> Any:
    weight = w
    for _ in range(2):
        (g,) = weft.autograd.grad(F.linear(x, weight).tanh().sum(), weight, create_graph=True)
        weight = weight - 0.1 * g
    return F.linear(x, weight).sum()


def backward_to_a_result(x: Any, w: Any) -> Any:
    h = w * x
    (h * h).sum().backward(inputs=[h], retain_graph=True)
    assert h.grad is not None
    return (h * h.grad).sum()


def hook_after_use(x: Any, w: Any) -> Any:
    h = w * x
    y = h * 2
    h.register_hook(lambda g: g * 10)
    return (y * h).sum()


def hook_that_writes(x: Any, w: Any) -> Any:
    h = w * x
    y = h.sin()
    h.register_hook(lambda g: g.mul_(3).neg())
    return (y * h).sum()


def hook_removed(x: Any, w: Any) -> Any:
    h = w * x
    y = h.sin()
    h.register_hook(lambda g: g * 10).remove()
    return (y * h).sum()


def hooks_in_order(x: Any, w: Any) -> Any:
    h = w * x
    y = h.sin()
    h.register_hook(lambda g: g + 1)
    h.register_hook(lambda g: g * 2)
    return (y * h).sum()


PROGRAMS = [
    grad_of_a_result, grad_of_several, grad_before_and_after_a_read, grad_of_a_transposed_result,
    inner_steps, backward_to_a_result, hook_after_use, hook_that_writes, hook_removed,
    hooks_in_order,
]  # fmt: skip


def run(program: Callable[[Any, Any], Any], over: Callable[[Any], Any]) -> list[Any]:
    w = W.clone().requires_grad_()
    xs = [weft.linspace(k, k + 1, 4, dtype=weft.float64) for k in range(3)]
    outs = over(lambda x: program(x, w))(xs)
    sum(outs).backward()
    return [*outs, w.grad]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_as_in_the_loop(program: Callable[[Any, Any], Any]) -> None:
    """Calls that used the value while it waited read the batch's block: their share was missing."""
    expected = run(program, lambda f: lambda xs: [f(x) for x in xs])
    found = run(program, lambda f: weft.autobatch(f, adaptive=False))
    for a, b in zip(expected, found, strict=True):
        assert weft.allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("used_first", [False, True])
def test_retained_gradients(used_first: bool) -> None:
    w, kept = W.clone().requires_grad_(), []

    def one(x: Any) -> Any:
        h = w * x
        y = h.sin() if used_first else 1
        h.retain_grad()
        kept.append(h)
        return (h * y).sum()

    xs = [weft.ones(4, dtype=weft.float64) * k for k in range(3)]
    grads = []
    for outs in (map, lambda f, xs: weft.autobatch(f, adaptive=False)(xs)):
        kept.clear()
        sum(outs(one, xs)).backward()
        grads.append([h.grad for h in kept])
    for a, b in zip(*grads, strict=True):
        assert weft.allclose(a, b, rtol=1e-12)


def test_a_backward_pass_inside_counts_as_a_loss() -> None:
    w = W.clone().requires_grad_()
    report = weft.explain(lambda x: grad_of_a_result(x, w), [weft.ones(4).double()] * 8)
    assert report.saved_s < -8e-4


def test_a_gradient_that_was_used_is_not_written_by_another_example() -> None:
    """Its backward pass added zeros to it in place."""
    w = weft.ones(3, requires_grad=True)

    def one(x: Any) -> Any:
        e = (x * 3).clone().requires_grad_()
        (e**2).sum().backward()
        return (w * e.grad).sum()

    xs = [weft.ones(3), weft.ones(3) * 2]
    outs = weft.autobatch(one, adaptive=False)(xs)
    sum(outs).backward()
    assert [o.item() for o in outs] == [18, 36] and w.grad is not None
    assert w.grad.tolist() == [18, 18, 18]
