"""Calls of more inputs than a set of them counts: a weight of them was taken for a row, and memory
was read beyond an array."""

import pytest

import weft
from weft.utils.checkpoint import checkpoint

COUNTS = [1, 30, 31, 32, 63, 64, 65, 70, 130]


class Sum(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x, *weights):
        ctx.save_for_backward(x, *weights)
        return x * sum(weights)

    @staticmethod
    def backward(ctx, grad):
        x, *weights = ctx.saved_tensors
        return (grad * sum(weights), *[grad * x for _ in weights])


def joined(x, *weights):
    mixed = [x.exp() if k % 3 else w for k, w in enumerate(weights)]
    scale = weft.stack([x * k if k % 2 else w for k, w in enumerate(weights)]).sum()
    return weft.cat(mixed) * scale


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("body", [Sum.apply, joined])
def test_batched_is_the_loop(body, count) -> None:
    weights = [weft.randn(3, requires_grad=True) for _ in range(count)]
    xs = [weft.randn(3, requires_grad=True) for _ in range(6)]

    def f(x):
        return (body(x.exp(), *weights) * 0.1).sum()

    expected = [f(x) for x in xs]
    gradients = weft.autograd.grad(sum(expected), [*weights, *xs], allow_unused=True)
    found = weft.autobatch(f, adaptive=False)(xs)
    weft.testing.assert_close(found, expected)
    for a, b in zip(
        weft.autograd.grad(sum(found), [*weights, *xs], allow_unused=True), gradients, strict=True
    ):
        assert (a is None) == (b is None)
        if a is not None:
            weft.testing.assert_close(a, b)


@pytest.mark.parametrize("count", COUNTS)
def test_a_reentrant_checkpoint(count) -> None:
    weights = [weft.randn(3, requires_grad=True) for _ in range(count)]
    x = weft.randn(3, requires_grad=True)

    def body(x, *ws):
        return (x * sum(ws)).tanh()

    expected = weft.autograd.grad(body(x.exp(), *weights).sum(), [x, *weights])
    checkpoint(body, x.exp(), *weights, use_reentrant=True).sum().backward()
    for found, grad in zip([x, *weights], expected, strict=True):
        weft.testing.assert_close(found.grad, grad)
