"""Hooks, retain_grad and autograd.grad on results of one example, whatever weft makes them of: some
are views of a product over more dims, which nobody else holds. There the gradient was lost."""

from collections.abc import Callable
from typing import Any

import pytest

import weft

F = weft.nn.functional

RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "x @ W": lambda x, w: x @ w,
    "X @ W of three dims": lambda x, w: x.expand(2, 2, 3) @ w,
    "W @ x": lambda x, w: w @ x,
    "inner": lambda x, w: weft.inner(x, w),
    "tensordot": lambda x, w: weft.tensordot(x, w, dims=1),
    "kron": lambda x, w: weft.kron(x, w),
    "cdist": lambda x, w: weft.cdist(x[None] * 2, w),
    "conv1d": lambda x, w: F.conv1d(x[None], w[:, None]),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], w, w),
    "linear": lambda x, w: F.linear(x, w),
}


def outcome(batch: bool, ask: Callable[..., Any], result: Callable[[Any, Any], Any]) -> Any:
    weight = weft.nn.Parameter(weft.eye(3) * 0.5 + weft.arange(9.0).view(3, 3) / 10)
    xs = [weft.arange(3.0) * (k + 1) + 0.5 for k in range(3)]
    seen: list[Any] = []

    def f(x: Any) -> Any:
        h = result(x, weight)
        return ask(h, h.square().sum(), seen)

    losses = weft.autobatch(f, adaptive=False)(xs) if batch else [f(x) for x in xs]
    sum(losses).backward()
    shown = [v.grad if v.grad is not None else v.detach() for v in seen]
    return [weight.grad, *losses, *shown]


def hook(h: Any, loss: Any, seen: list[Any]) -> Any:
    h.register_hook(lambda g: g * 2)
    return loss


def retain(h: Any, loss: Any, seen: list[Any]) -> Any:
    h.retain_grad()
    seen.append(h)
    return loss


def grad(h: Any, loss: Any, seen: list[Any]) -> Any:
    (g,) = weft.autograd.grad(loss, h, create_graph=True)
    return (g * h).sum()


@pytest.mark.parametrize("ask", [hook, retain, grad])
@pytest.mark.parametrize("name", RESULTS)
def test_gradients_of_results_are_the_loops(name: str, ask: Callable[..., Any]) -> None:
    expected, found = (outcome(batch, ask, RESULTS[name]) for batch in (False, True))
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        weft.testing.assert_close(a, b)
