"""What a pass does not reach in the loop it does not reach in a batch, whose nodes are those of all
examples: no hook is called, no leaf has a gradient, no user's backward runs, with zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.utils.checkpoint import checkpoint

EXAMPLES = 4
W = weft.linspace(-0.4, 0.5, 9).view(3, 3)

RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "pointwise": lambda x, w: (x * 2).sin(),
    "product": lambda x, w: x @ w,
    "reduction": lambda x, w: (x * w).sum(0),
    "softmax": lambda x, w: (x @ w).softmax(-1),
    "a piece": lambda x, w: (x @ w)[1:],
    "a join": lambda x, w: weft.cat([x @ w, x]),
    "unlike rows": lambda x, w: (x.expand(1 + int(x[0] > 1), 3) @ w).amax(0),
}
LOSSES: dict[str, Callable[[Any], Any]] = {
    "sum": lambda v: v.sum(),
    "mean of squares": lambda v: v.square().mean(),
    "dot": lambda v: v @ v,
    "an element": lambda v: v.exp()[0],
    "logsumexp": lambda v: v.logsumexp(0),
}


def outcome(batch: bool, result: Any, loss: Any, left_out: set[int], read: bool) -> Any:
    """What hooks saw, what has a gradient, and what a Function's backward got."""
    seen: list[Any] = []
    w = W.clone().requires_grad_()
    xs = [(weft.arange(3.0) + k / 2).requires_grad_() for k in range(EXAMPLES)]

    class Halved(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, v: Any, k: int) -> Any:
            ctx.k = k
            return v * 0.5

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(("backward", ctx.k, g.tolist()))
            return g * 0.5, None

    kept: list[Any] = []

    def f(x: Any, k: int) -> Any:
        v = result(x, w)
        if read and v.sum().item() > 1e9:
            return v
        v.register_hook(lambda g: seen.append(("hook", k, g.tolist())))
        u = Halved.apply(v, k).tanh()
        u.retain_grad()
        kept.append((k, u))
        return loss(u)

    weft.autobatch.enabled = batch
    losses = weft.autobatch(f, adaptive=False)(xs, range(EXAMPLES))
    weft.autobatch.enabled = True
    sum(one for k, one in enumerate(losses) if k not in left_out).backward()
    grads = {k: None if u.grad is None else u.grad.tolist() for k, u in kept}
    leaves = [None if x.grad is None else x.grad.tolist() for x in (w, *xs)]
    return sorted(seen), grads, leaves


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    return a == b or (isinstance(a, float) and a == pytest.approx(b, rel=1e-4, abs=1e-6))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("result", RESULTS)
def test_what_the_loop_does_not_reach_a_batch_does_not(result: str, loss: str) -> None:
    for left_out in (set(), {0}, {1, 2}, {3}):
        for read in (False, True):
            ways = [
                outcome(batch, RESULTS[result], LOSSES[loss], left_out, read)
                for batch in (False, True)
            ]
            assert alike(*ways), (left_out, read, ways)


def test_a_gradient_of_zeros_is_one() -> None:
    """relu, an unread part of a value that is read, a product with zeros: these are reached."""
    found = []
    for batch in (False, True):
        seen: list[Any] = []
        xs = [weft.tensor([-1.0, -2.0 - k], requires_grad=True) for k in range(3)]

        def f(x: Any, seen: Any = seen) -> Any:
            a, b, c, d = x * 1, x * 2, x * 3, x * 4
            for v in (a, b, c, d):
                v.register_hook(lambda g: seen.append(g.tolist()))
            joined = weft.cat([b, c])
            return a.relu().sum() + joined[2:].sum() + (d * 0).sum() + joined.exp()[3]

        weft.autobatch.enabled = batch
        sum(weft.autobatch(f, adaptive=False)(xs)).backward()
        weft.autobatch.enabled = True
        found.append((sorted(seen), [x.grad.tolist() for x in xs]))
    assert found[0] == found[1] and len(found[0][0]) == 12


def test_a_gradient_inside_of_one_example_beside_checkpoints_of_others() -> None:
    """Their backward was run with zeros, and refused the pass, which was for chosen inputs."""
    found = []
    for batch in (False, True):
        w = W.clone().requires_grad_()

        def f(x: Any, k: int, w: Any = w) -> Any:
            h = x @ w
            if k != 1:
                return checkpoint(lambda v: (v @ w).tanh(), h, use_reentrant=True).square().sum()
            (g,) = weft.autograd.grad((h @ w).tanh().square().sum(), w, create_graph=True)
            return g.square().sum()

        weft.autobatch.enabled = batch
        xs = [weft.arange(3.0) + k for k in range(3)]
        sum(weft.autobatch(f, adaptive=False)(xs, range(3))).backward()
        weft.autobatch.enabled = True
        found.append(w.grad)
    weft.testing.assert_close(found[1], found[0])
