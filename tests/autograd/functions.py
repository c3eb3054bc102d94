"""Custom Functions that several files test."""


def function(t, forward, backward, setup_context=None, name="Mine"):
    """A Function of the library `t` with these static methods."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if setup_context is not None:
        body["setup_context"] = staticmethod(setup_context)
    return type(name, (t.autograd.Function,), body)


def square(t):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    return function(t, forward, backward, name="Square")


def leaf(t, *values):
    return t.tensor(values or (1.0, 2.0, 3.0), requires_grad=True)
