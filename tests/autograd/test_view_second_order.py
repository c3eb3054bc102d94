"""Second derivatives through in-place ops on views that saved their results."""

import pytest

import weft

VIEWS = {
    "columns": lambda h: h[:, 2:],
    "row": lambda h: h[0],
    "flat": lambda h: h.view(-1),
    "view of a view": lambda h: h[:, 1:][1:],
}


def penalty(lib, op, view, again):
    """The pass freed what the op had saved, then came to it again by way of the saved result."""
    w = lib.linspace(0.1, 1, 12, dtype=lib.float64).reshape(3, 4).requires_grad_()
    h = w * 2
    getattr(view(h), op)()
    h = h * 1
    if again:
        getattr(view(h), op)()
    (g,) = lib.autograd.grad(h.pow(2).sum(), w, create_graph=True)
    (g.norm() - 1).pow(2).backward()
    return w.grad.tolist()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("op", ["sigmoid_", "exp_", "tanh_", "relu_", "sqrt_", "rsqrt_", "cos_"])
def test_a_penalty_on_gradients(torch, op, view, again):
    found, expected = (penalty(lib, op, view, again) for lib in (weft, torch))
    weft.testing.assert_close(weft.tensor(found), weft.tensor(expected))


class Exp(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


def test_a_function_that_writes_a_view_and_saves_it():
    def second(op):
        w = weft.linspace(0.1, 1, 12, dtype=weft.float64).reshape(3, 4).requires_grad_()
        h = w * 2
        op(h[:, 2:])
        (g,) = weft.autograd.grad(h.pow(2).sum(), w, create_graph=True)
        g.pow(2).sum().backward()
        return w.grad

    weft.testing.assert_close(second(Exp.apply), second(lambda v: v.exp_()))


def test_what_was_saved_is_freed_after_the_pass():
    w = weft.ones(3, 4, requires_grad=True)
    h = w * 2
    h[0].exp_()
    loss = h.sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
