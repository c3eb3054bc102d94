"""Custom autograd.Functions in a batch: the loop's values and gradients, and they merge."""

import gc
import traceback
import weakref
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function
from weft.autograd.function import once_differentiable


class Scaled(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, factor: float) -> Any:
        ctx.factor = factor
        ctx.save_for_backward(x, w)
        return x @ w * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        assert ctx.needs_input_grad[:2] == (x.requires_grad, w.requires_grad)
        return grad @ w.t() * ctx.factor, x.t() @ grad * ctx.factor, None


class Gated(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        gate = w.sigmoid()
        ctx.save_for_backward(x, gate)
        return x @ weft.eye(3, dtype=x.dtype) * gate

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, gate = ctx.saved_tensors
        return grad * gate, (grad * x * gate * (1 - gate)).sum(0)


class KeepsOutput(Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output, None)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        y, none = ctx.saved_tensors
        assert none is None
        return grad * y


class Two(Function):
    """Two outputs and a constant one; broadcasts, so that a gradient has to be summed."""

    @staticmethod
    def forward(ctx: Any, x: Any, b: Any) -> Any:
        ctx.save_for_backward(x)
        where = (x > 0).long()
        constant = x * 3
        ctx.mark_non_differentiable(constant)
        return x + b, "text", where, (x * 2).t(), constant

    @staticmethod
    def backward(ctx: Any, first: Any, text: Any, where: Any, second: Any, constant: Any) -> Any:
        assert text is None and where.dtype is weft.int64 and not constant.any()
        return first + 2 * second.t(), first


class Sparse(Function):
    """Told what has no gradient; gives none itself."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, y * 3

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any) -> Any:
        assert b is None
        return a * 2, None


class Once(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class Dirty(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 3


class Same(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x, x.view(-1)

    @staticmethod
    def backward(ctx: Any, grad: Any, flat: Any) -> Any:
        return grad * 2 + flat.view(grad.shape)


class Reads(Function):
    """Its forward and backward go on by values."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.up = float(x.sum()) > 0
        return x * (2 if ctx.up else 5)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        by = 1 if float(grad.sum()) > 0 else 1
        return grad * by * (2 if ctx.up else 5)


class ReadsLate(Function):
    """What it returns was computed before it read a value, by which others may have gone on."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.up = float(y.sum()) > 0
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


class NumPy(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return weft.from_numpy(np.cos(x.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return weft.from_numpy(-np.sin(ctx.saved_tensors[0].detach().numpy()) * grad.numpy())


class Weights:
    def __init__(self) -> None:
        weft.manual_seed(1)
        self.w = weft.randn(3, 3, dtype=weft.float64).requires_grad_()
        self.b = weft.randn(3, dtype=weft.float64).requires_grad_()


def two(c: Weights, x: Any) -> Any:
    a, text, where, b, constant = Two.apply(x, c.b)
    assert text == "text" and not where.requires_grad and not constant.requires_grad
    return (a * b.t()).sum() + (where * constant).sum()


PROGRAMS = {
    "a weight": lambda c, x: Scaled.apply(x, c.w, 0.5).tanh().sum(),
    "a weight alone": lambda c, x: Scaled.apply(x.detach(), c.w, 2).sum(),
    "no weight": lambda c, x: Scaled.apply(x, c.w.detach(), 2).sum(),
    "one after the other": lambda c, x: Scaled.apply(KeepsOutput.apply(x), c.w, 2).sum(),
    "the output": lambda c, x: (KeepsOutput.apply(x) * x).sum(),
    "two": two,
    "half of it": lambda c, x: Sparse.apply(x, x * 2)[0].sum(),
    "all": lambda c, x: KeepsOutput.apply(x).tanh(),
    "once": lambda c, x: Once.apply(x).sum(),
    "dirty": lambda c, x: Dirty.apply(x * 2).sum(),
    "same": lambda c, x: sum(t.sum() for t in Same.apply(x * 2)),
    "reads": lambda c, x: Reads.apply(x).sum(),
    "reads late": lambda c, x: ReadsLate.apply(x).tanh().sum(),
    "numpy": lambda c, x: NumPy.apply(x).sum(),
    "in a branch": lambda c, x: (Scaled.apply(x, c.w, 1) if x.sum() > 0 else x * 2).sum(),
    "outside of the graph": lambda c, x: x.sum() + KeepsOutput.apply(x.detach()).sum(),
    "in no graph": lambda c, x: x.sum() + weft.no_grad()(KeepsOutput.apply)(x).sum(),
    "a piece": lambda c, x: Scaled.apply(x[1:], c.w, 1)[0].sum(),
    "a gate": lambda c, x: Gated.apply(x, c.b).tanh().sum(),
    "gates": lambda c, x: (Gated.apply(x, c.b) * Gated.apply(KeepsOutput.apply(x * 2), c.b)).sum(),
    "twice": lambda c, x: (Scaled.apply(x, c.w, 1) * Scaled.apply(x * 2, c.w, 1)).sum(),
}
LENGTHS = (2, 3, 2, 4)


def run(name: str, batch: bool, order: int = 1) -> list[Any]:
    c = Weights()
    xs = [weft.randn(n, 3, dtype=weft.float64).requires_grad_() for n in LENGTHS]

    def one(x: Any) -> Any:
        return PROGRAMS[name](c, x * 1)

    outs = weft.autobatch(one, adaptive=False)(xs) if batch else [one(x) for x in xs]
    leaves = [*xs, c.w, c.b]
    grads: Any = [(out * 1.5).sum() for out in outs]
    for _ in range(order):
        total = sum((g * g).sum() for g in grads if g is not None and g.requires_grad)
        grads = weft.autograd.grad(total, leaves, create_graph=order > 1, allow_unused=True)
    return [*outs, *grads]


ORDERS = [(name, order) for name in PROGRAMS for order in (1, 2)]
DIFFERENTIABLE_ONCE = {
    "once",
    "a gate",
    "gates",
    "numpy",
    "a weight alone",
    "outside of the graph",
    "in no graph",
}


@pytest.mark.parametrize(("name", "order"), ORDERS)
def test_a_batch_is_the_loop(name: str, order: int) -> None:
    if order == 2 and name in DIFFERENTIABLE_ONCE:
        pytest.skip("not differentiable twice")
    ours, theirs = run(name, True, order), run(name, False, order)
    assert [a.stride() for a in ours[: len(LENGTHS)]] == [
        b.stride() for b in theirs[: len(LENGTHS)]
    ]
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.shape == b.shape
            assert a.requires_grad == b.requires_grad
            weft.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def calls(name: str, examples: int) -> tuple[int, int]:
    """Batches of the forward, calls of the backward."""
    c = Weights()
    xs = [weft.randn(2, 3, dtype=weft.float64).requires_grad_() for _ in range(examples)]
    with weft.explain() as forward:
        outs = weft.autobatch(lambda x: PROGRAMS[name](c, x * 1))(xs)
    total = sum((out * 1.5).sum() for out in outs)
    with weft.explain() as backward:
        total.backward()
    return forward.batches, backward.batches


@pytest.mark.parametrize("name", ["a gate", "gates", "all"])
def test_forward_and_backward_merge(name: str) -> None:
    assert calls(name, 4) == calls(name, 16)


def test_a_merged_node_prints_as_the_functions() -> None:
    xs = [weft.ones(2, requires_grad=True) for _ in range(3)]
    out = weft.autobatch(lambda x: KeepsOutput.apply(x * 1))(xs)[1]
    assert "KeepsOutputBackward" in repr(out)


def test_backward_runs_the_latest_first_as_in_the_loop() -> None:
    ran: list[int] = []

    class Notes(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, k: int) -> Any:
            ctx.k = k
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            ran.append(ctx.k)
            return grad * 2, None

    xs = [weft.ones(2, requires_grad=True) for _ in range(3)]
    for batched in (False, True):
        f = weft.autobatch(lambda x, k: Notes.apply(x * 1, k), adaptive=False)
        outs = f(xs, range(3)) if batched else [Notes.apply(x * 1, k) for k, x in enumerate(xs)]
        sum(out.sum() for out in outs).backward()
    assert ran == [2, 1, 0] * 2


class Faulty(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, where: str) -> Any:
        ctx.where = where
        if where == "forward":
            raise KeyError("forward")
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.where == "backward":
            raise KeyError("backward")
        if ctx.where == "shape":
            return grad.new_ones(7, 7), None
        if ctx.where == "count":
            return grad
        if ctx.where == "kind":
            return "text", None
        if ctx.where == "argument":
            return grad, grad
        return grad, None


@pytest.mark.parametrize("where", ["forward", "backward", "shape", "count", "kind", "argument"])
def test_errors_are_the_loops(where: str) -> None:
    told = []
    for batched in (False, True):
        xs = [weft.ones(2, requires_grad=True) for _ in range(3)]
        words = ["", where, ""]
        one = lambda x, word: Faulty.apply(x * 1, word)  # noqa: E731
        with pytest.raises((KeyError, RuntimeError)) as caught:
            outs = (
                weft.autobatch(one, adaptive=False)(xs, words)
                if batched
                else list(map(one, xs, words))
            )
            sum(out.sum() for out in outs).backward()
        # The line of forward is a part of the message or a note: both are shown.
        shown = traceback.format_exception_only(caught.value)
        lines = [line.strip() for line in "".join(shown).splitlines()]
        told.append([line for line in lines if line != "in example 1 of 3"])
    assert told[0] == told[1]


def test_a_saved_tensor_that_was_written_is_refused() -> None:
    def one(x: Any, late: bool) -> Any:
        y = x * 1
        out = Scaled.apply(y, weft.eye(2), 1).sum()
        if late:
            y.add_(1)
        return out

    for batched in (False, True):
        xs = [weft.ones(2, 2, requires_grad=True) for _ in range(3)]
        late = [False, True, False]
        outs = weft.autobatch(one)(xs, late) if batched else list(map(one, xs, late))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            sum(outs).backward()


def test_a_second_backward_is_refused_unless_the_graph_is_retained() -> None:
    xs = [weft.ones(2, requires_grad=True) for _ in range(3)]
    total = sum(weft.autobatch(lambda x: KeepsOutput.apply(x * 1).sum())(xs))
    total.backward(retain_graph=True)
    first = [x.grad.clone() for x in xs]
    total.backward()
    assert all(x.grad.tolist() == (2 * f).tolist() for x, f in zip(xs, first, strict=True))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        total.backward()


def test_hooks_and_retained_gradients_are_the_loops() -> None:
    seen: dict[bool, list[Any]] = {False: [], True: []}

    def one(x: Any, batched: bool) -> Any:
        y = x * 1
        y.register_hook(lambda g: seen[batched].append(g.tolist()))
        z = KeepsOutput.apply(y)
        z.retain_grad()
        return z

    for batched in (False, True):
        xs = [weft.full((2,), float(k), requires_grad=True) for k in range(3)]
        outs = weft.autobatch(one)(xs, [True] * 3) if batched else [one(x, False) for x in xs]
        sum((z * z).sum() for z in outs).backward()
        seen[batched].append([z.grad.tolist() for z in outs])
    assert sorted(seen[True], key=str) == sorted(seen[False], key=str)


def test_nothing_is_left_when_the_results_are_gone() -> None:
    left = []

    class Noted(KeepsOutput):
        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs, output)
            ctx.mark = type("Mark", (), {})()
            left.append(weakref.ref(ctx.mark))

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[1]

    xs = [weft.ones(2, requires_grad=True) for _ in range(3)]
    outs = weft.autobatch(lambda x: Noted.apply(x * 1))(xs)
    assert all(mark() is not None for mark in left) and len(left) == 3
    del outs
    gc.collect()
    assert all(mark() is None for mark in left)
    outs = weft.autobatch(lambda x: Noted.apply(x * 1))(xs)
    sum(out.sum() for out in outs).backward()
    del outs
    gc.collect()
    assert all(mark() is None for mark in left)


def test_reentrant_checkpoints_merge_with_their_recomputation() -> None:
    from weft.utils.checkpoint import checkpoint

    def run(examples: int, batch: bool) -> tuple[list[Any], tuple[int, int]]:
        c = Weights()
        xs = [weft.randn(n % 3 + 1, 3, dtype=weft.float64) for n in range(examples)]
        xs = [x.requires_grad_() for x in xs]

        def body(x: Any) -> Any:
            return (x @ c.w).tanh() * c.b

        def one(x: Any) -> Any:
            return checkpoint(body, x * 2, use_reentrant=True).exp()

        with weft.explain() as forward:
            outs = weft.autobatch(one)(xs) if batch else [one(x) for x in xs]
        with weft.explain() as backward:
            sum(out.sum() for out in outs).backward()
        found = [*outs, *(t.grad for t in (*xs, c.w, c.b))]
        return found, (forward.batches, backward.batches)

    for a, b in zip(run(5, True)[0], run(5, False)[0], strict=True):
        weft.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert run(4, True)[1] == run(16, True)[1]


def test_the_only_example_that_is_left_is_tied_at_once() -> None:
    """Its forward had made a value with others, and read one: the tie then ran by itself."""
    xs = [weft.ones(2, requires_grad=True) for _ in range(2)]

    def one(x: Any, late: bool) -> Any:
        return ReadsLate.apply(x * 1) if late else x * 3

    outs = weft.autobatch(one, adaptive=False)(xs, [False, True])
    sum(out.sum() for out in outs).backward()
    assert [x.grad.tolist() for x in xs] == [[3, 3], [2, 2]]
