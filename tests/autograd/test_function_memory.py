"""Custom Functions: when what they saved is freed, and how deep they may go."""

import gc
import weakref

import pytest
from functions import function, square

import weft


def test_a_saved_output_makes_no_cycle(balance):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    f = function(weft, forward, lambda ctx, g: g * ctx.saved_tensors[1])
    gc.disable()
    try:
        for _ in range(3):
            x = weft.ones(1000, requires_grad=True)
            y = f.apply(x)
            node = weakref.ref(y)
            del y
            assert node() is None
        del x
        before = weft._C._memory_stats()["current"]
        f.apply(weft.ones(1000, requires_grad=True))
        assert weft._C._memory_stats()["current"] == before
    finally:
        gc.enable()
    assert balance() == 0


def test_a_saved_dirty_view_makes_no_cycle(balance):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.exp_()
        ctx.save_for_backward(x)
        return x

    f = function(weft, forward, lambda ctx, g: g * ctx.saved_tensors[0])
    x = weft.zeros(100, requires_grad=True)
    h = x * 1
    f.apply(h[:50])
    h.sum().backward()
    assert x.grad.tolist() == [1.0] * 100
    del x, h
    assert balance() == 0


def test_an_output_kept_on_ctx_is_collected(balance):
    def forward(ctx, x):
        ctx.output = x * 2
        return ctx.output

    x = weft.ones(1000, requires_grad=True)
    f = function(weft, forward, lambda ctx, g: g * 2)
    for _ in range(3):
        y = f.apply(x)
        assert y is y.grad_fn.output
        seen = weakref.ref(y)
        del y
        gc.collect()
        assert seen() is None
    del x
    assert balance() == 0


def test_an_output_kept_on_ctx_lives_as_long_as_it_is_used():
    def forward(ctx, x):
        ctx.output = x * 2
        return ctx.output

    x = weft.ones(10, requires_grad=True)
    z = function(weft, forward, lambda ctx, g: g * ctx.output).apply(x) * 3
    gc.collect()
    z.sum().backward()
    assert x.grad.tolist() == [6.0] * 10


def test_a_long_chain_of_functions(balance):
    x = weft.ones((), requires_grad=True)
    f = function(weft, lambda ctx, x: x + 1, lambda ctx, g: g)
    y = x
    for _ in range(50_000):
        y = f.apply(y)
    y.backward()
    assert x.grad.item() == 1
    del y
    x.grad = None
    assert balance() == x.nbytes


def test_a_chain_of_functions_that_keep_their_arguments(balance):
    def forward(ctx, x):
        ctx.x = x
        return x + 1

    x = weft.ones((), requires_grad=True)
    f = function(weft, forward, lambda ctx, g: g)
    y = x
    for _ in range(20_000):
        y = f.apply(y)
    del y
    assert balance() == x.nbytes


def test_deep_reentrancy():
    """A backward that calls backward that calls backward, two hundred deep."""

    def forward(ctx, x, depth):
        ctx.save_for_backward(x)
        ctx.depth = depth
        return x * 2

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if ctx.depth:
            with weft.enable_grad():
                inner = x.detach().requires_grad_()
                f.apply(inner, ctx.depth - 1).sum().backward()
            return inner.grad * grad, None
        return grad * 2, None

    f = function(weft, forward, backward)
    x = weft.ones(2, requires_grad=True)
    f.apply(x, 200).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_gradcheck_of_a_function():
    x = weft.rand(3, dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradcheck(square(weft).apply, (x,))
    assert weft.autograd.gradgradcheck(square(weft).apply, (x,))
    wrong = function(weft, lambda ctx, x: x * x, lambda ctx, g: g * 3)
    with pytest.raises(RuntimeError, match="[Jj]acobian mismatch"):
        weft.autograd.gradcheck(wrong.apply, (x,))
