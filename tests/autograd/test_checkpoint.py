"""Checkpointing gives the gradients of the plain call, and keeps less."""

import gc

import pytest

import weft
from weft.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

BOTH = pytest.mark.parametrize("reentrant", [False, True])


def block(x, w):
    return weft.tanh(x @ w).exp().sin()


def inputs():
    weft.manual_seed(1)
    return weft.randn(5, 4, requires_grad=True), weft.randn(4, 4, requires_grad=True)


def gradients(function, *leaves):
    for leaf in leaves:
        leaf.grad = None
    function(*leaves).sum().backward()
    return [leaf.grad.tolist() for leaf in leaves]


@BOTH
def test_gradients_are_those_of_the_plain_call(reentrant):
    x, w = inputs()
    calls = []

    def counted(x, w):
        calls.append(1)
        return block(x, w)

    want = gradients(block, x, w)
    assert gradients(lambda x, w: checkpoint(counted, x, w, use_reentrant=reentrant), x, w) == want
    assert len(calls) == 2


@BOTH
def test_random_numbers_are_drawn_again(reentrant):
    x, _ = inputs()

    def drop(x):
        return weft.nn.functional.dropout(x.exp(), 0.5) * weft.rand_like(x)

    def plain():
        weft.manual_seed(7)
        return gradients(drop, x), weft.rand(3).tolist()

    def kept():
        weft.manual_seed(7)
        return gradients(lambda x: checkpoint(drop, x, use_reentrant=reentrant), x), weft.rand(
            3
        ).tolist()

    assert plain() == kept()
    weft.manual_seed(7)
    other = gradients(
        lambda x: checkpoint(drop, x, use_reentrant=reentrant, preserve_rng_state=False), x
    )
    assert other != plain()[0]


@BOTH
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("around", [True, False])
def test_the_recomputation_has_the_autocast_of_the_forward(reentrant, inside, around):
    """Backward ran it in its own: saved tensors were recomputed in float32, and refused."""
    layer = weft.nn.Linear(3, 3)

    def outcome(function):
        x = weft.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        with weft.autocast("cpu", enabled=inside):
            y = function(x)
        with weft.autocast("cpu", enabled=around):
            y.float().square().sum().backward()
        return y.dtype, x.grad.tolist()

    expected = outcome(layer)
    assert outcome(lambda x: checkpoint(layer, x, use_reentrant=reentrant)) == expected


@BOTH
def test_nested(reentrant):
    x, w = inputs()

    def inner(x):
        return x.sin().exp()

    def middle(x):
        return checkpoint(inner, x * 2, use_reentrant=reentrant).tanh()

    def outer(x, w):
        return checkpoint(middle, x @ w, use_reentrant=reentrant) * checkpoint(
            inner, x @ w, use_reentrant=reentrant
        )

    want = gradients(lambda x, w: inner((x @ w) * 2).tanh() * inner(x @ w), x, w)
    got = gradients(lambda x, w: checkpoint(outer, x, w, use_reentrant=reentrant), x, w)
    for a, b in zip(got, want, strict=True):
        assert weft.allclose(weft.tensor(a), weft.tensor(b))


def test_second_derivatives_and_gradcheck():
    x = weft.tensor([0.3, 0.7], dtype=weft.float64, requires_grad=True)

    def function(x):
        return checkpoint(lambda x: x.sin().exp() * x, x, use_reentrant=False)

    assert weft.autograd.gradcheck(function, (x,))
    assert weft.autograd.gradgradcheck(function, (x,))
    nested = lambda x: checkpoint(function, x * x, use_reentrant=False)  # noqa: E731
    assert weft.autograd.gradgradcheck(nested, (x,))


def test_retain_graph_and_grad():
    x, w = inputs()
    want = gradients(block, x, w)
    x.grad = w.grad = None
    y = checkpoint(block, x, w, use_reentrant=False).sum()
    for _ in range(2):
        found = weft.autograd.grad(y, (x, w), retain_graph=True)
        assert [g.tolist() for g in found] == want
    y.backward()
    assert [x.grad.tolist(), w.grad.tolist()] == want
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_reentrant_refuses_chosen_inputs():
    x, w = inputs()
    y = checkpoint(block, x, w, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match="incompatible with .grad"):
        weft.autograd.grad(y, x)
    y = checkpoint(block, x, w, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match="incompatible with .grad"):
        y.backward(inputs=[x])


def test_closures_keyword_arguments_and_structures():
    x, w = inputs()

    def function(values, *, scale, flag):
        assert flag
        return {"out": (values["x"] @ w) * scale}

    want = gradients(lambda x, w: (x @ w) * 3, x, w)
    x.grad = w.grad = None
    out = checkpoint(function, {"x": x}, scale=3, flag=True, use_reentrant=False)
    out["out"].sum().backward()
    assert [x.grad.tolist(), w.grad.tolist()] == want


@BOTH
def test_memory_is_smaller_and_comes_back(reentrant):
    x = weft.randn(1000, requires_grad=True)

    def deep(x):
        for _ in range(20):
            x = x.sin()
        return x

    def run(function):
        gc.collect()
        before = weft._C._memory_stats()["current"]
        y = function(x)
        kept = weft._C._memory_stats()["current"] - before
        y.sum().backward()
        x.grad = None
        del y
        gc.collect()
        assert weft._C._memory_stats()["current"] == before
        return kept

    run(deep)
    plain = run(deep)
    kept = run(lambda x: checkpoint(deep, x, use_reentrant=reentrant))
    assert kept < plain / 5, (kept, plain)


def test_nested_keeps_no_inner_inputs():
    x = weft.randn(1000, requires_grad=True)

    def outer(x):
        for _ in range(10):
            x = checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False)
        return x

    checkpoint(outer, x, use_reentrant=False).sum().backward()
    gc.collect()
    before = weft._C._memory_stats()["current"]
    y = checkpoint(outer, x, use_reentrant=False)
    assert weft._C._memory_stats()["current"] - before < 5 * 4000
    y.sum().backward()


def test_early_stop():
    x = weft.ones(2, requires_grad=True)
    reached = []

    def function(x):
        y = x.sin() + 1
        reached.append(1)
        return y

    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert len(reached) == 1
    with set_checkpoint_early_stop(False):
        checkpoint(function, x, use_reentrant=False).sum().backward()
    assert len(reached) == 3
    checkpoint(function, x, use_reentrant=False, early_stop=False).sum().backward()
    assert len(reached) == 5


def test_changes_between_the_runs_are_found():
    x = weft.ones(4, requires_grad=True)
    state = [0]

    def changing(x):
        state[0] += 1
        return x.sin() if state[0] == 1 else x[:2].sin()

    y = checkpoint(changing, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different metadata"):
        y.sum().backward()

    state[0] = 0

    def fewer(x):
        state[0] += 1
        return x.sin().exp() if state[0] == 1 else x.sin()

    y = checkpoint(fewer, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different number of tensors"):
        y.sum().backward()

    state[0] = 0

    def more(x):
        state[0] += 1
        return x.sin() if state[0] == 1 else x.sin().exp()

    y = checkpoint(more, x, use_reentrant=False, early_stop=False)
    with pytest.raises(CheckpointError, match="more tensors during recomputation"):
        y.sum().backward()


def test_written_inputs_are_found():
    x = weft.ones(4, requires_grad=True)
    a = x * 2
    y = checkpoint(weft.sin, a, use_reentrant=False)
    with weft.no_grad():
        a.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_contexts_and_errors_of_the_function():
    entered = []

    class Scope:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *exc):
            entered.append("-" + self.name)

    x = weft.ones(2, requires_grad=True)
    y = checkpoint(
        weft.sin, x, use_reentrant=False, context_fn=lambda: (Scope("forward"), Scope("again"))
    )
    y.sum().backward()
    assert entered == ["forward", "-forward", "again", "-again"]

    def fails(x):
        raise KeyError("inside")

    for reentrant in (False, True):
        with pytest.raises(KeyError, match="inside"):
            checkpoint(fails, x, use_reentrant=reentrant)
    with pytest.raises(RuntimeError, match="pushed before"):
        weft._C._pop_saved_hooks()


def test_without_gradients_and_arguments():
    with weft.no_grad():
        assert not checkpoint(weft.sin, weft.ones(2), use_reentrant=False).requires_grad
    x = weft.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(weft.sin, x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        checkpoint(weft.sin, weft.ones(2), use_reentrant=True)
    with pytest.raises(ValueError, match="Unexpected keyword"):
        checkpoint(weft.sin, x, use_reentrant=True, other=1)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(weft.sin, x, use_reentrant=False, determinism_check="some")


@BOTH
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(reentrant, segments):
    x, _ = inputs()
    weft.manual_seed(2)
    model = weft.nn.Sequential(*(weft.nn.Linear(4, 4) for _ in range(5)))
    want = gradients(model, x)
    got = gradients(lambda x: checkpoint_sequential(model, segments, x, use_reentrant=reentrant), x)
    assert got == want
    assert all(p.grad is not None for p in model.parameters())


@BOTH
def test_agrees_with_torch(torch, reentrant):
    def run(lib):
        import torch.utils.checkpoint  # noqa: F401

        x = lib.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)
        calls = []

        def function(x):
            calls.append(lib.is_grad_enabled())
            return lib.tanh(x @ x).exp()

        y = lib.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)
        y.sum().backward()
        return x.grad, calls

    (ours, our_calls), (theirs, their_calls) = run(weft), run(torch)
    assert our_calls == their_calls
    assert weft.allclose(ours, weft.tensor(theirs.tolist()))
