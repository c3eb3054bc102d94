"""How a result lies in memory: the order of its dims comes from the operands, as in PyTorch."""

import random

import pytest

import weft

SEEDS = range(20)
CALLS = [
    lambda t, x, y: x + y,
    lambda t, x, y: y * x,
    lambda t, x, y: t.hypot(x, y),
    lambda t, x, y: t.where(x > y, x, y),
    lambda t, x, y: t.addcmul(y, x, y),
    lambda t, x, y: x.clone(),
    lambda t, x, y: x.sin(),
    lambda t, x, y: t.ones_like(x),
]


def operand(draw, shape):
    """The same tensor of both libraries, as steps: some dims of size 1, in a drawn order."""
    sizes = [1 if draw.random() < 0.3 else n for n in shape]
    if draw.random() < 0.15 and len(sizes) == 2:
        return lambda t: t.ones(sum(sizes)).unfold(0, sizes[1], 1)[: sizes[0]]
    order = draw.sample(range(len(sizes)), len(sizes))
    laid = [sizes[d] for d in order]
    back = [order.index(d) for d in range(len(sizes))]
    step = draw.choice([1, 1, 2])
    drop = draw.randrange(len(sizes)) if draw.random() < 0.3 else 0

    def make(t):
        x = t.ones([*laid[:-1], laid[-1] * step])[..., ::step].permute(back)
        return x[(0,) * drop]

    return make


def strides(x):
    return [s for s, n in zip(x.stride(), x.shape) if n != 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_dims_lie_in_pytorchs_order(torch, seed):
    draw = random.Random(seed)
    for _ in range(50):
        shape = [draw.choice([2, 2, 3, 4]) for _ in range(draw.randint(1, 4))]
        first, second = operand(draw, shape), operand(draw, shape)
        if any(f(torch).stride() != f(weft).stride() for f in (first, second)):
            continue  # along a dim of size 1, where a stride says nothing
        for call in CALLS:
            expected, found = (strides(call(t, first(t), second(t))) for t in (torch, weft))
            operands = [(tuple(f(torch).shape), f(torch).stride()) for f in (first, second)]
            assert found == expected, operands
