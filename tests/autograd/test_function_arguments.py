"""Custom Functions: arguments that are returned, written and viewed; hooks, and ctx as a node."""

import gc
import re

from cases import Cases
from functions import function, leaf, square

CASES = Cases()
case, error = CASES.case, CASES.error


# ---- arguments returned, written, viewed


@case
def an_argument_returned_as_it_is(t):
    x = leaf(t)
    y = function(t, lambda ctx, x: x, lambda ctx, g: g * 10).apply(x)
    y.sum().backward()
    with t.no_grad():
        z = function(t, lambda ctx, x: x, lambda ctx, g: g).apply(x)
    return y is x, y, x.grad, z is x, z.requires_grad, x.is_leaf


@case
def one_of_two_arguments_returned_as_it_is(t):
    f = function(t, lambda ctx, a, b: (a, b * 2), lambda ctx, g, h: (g * 3, h * 5))
    a, b = leaf(t), leaf(t)
    c, d = f.apply(a, b)
    (c + d).sum().backward()
    return a.grad, b.grad


@case
def a_constant_argument_returned(t):
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x

    x = leaf(t)
    y = function(t, forward, None).apply(x)
    return y is x, y.requires_grad, x.requires_grad


@case
def a_view_of_an_argument(t):
    x = leaf(t)
    y = function(t, lambda ctx, x: x.view(3, 1), lambda ctx, g: g.view(3) * 10).apply(x * 1)
    y.sum().backward()
    return y, y._base is not None, x.grad


@error("This view was created inside a custom Function")
def writing_a_view_from_a_function(t):
    f = function(t, lambda ctx, x: x.view(3, 1), lambda ctx, g: g.view(3))
    f.apply(leaf(t) * 1).add_(1)


@error("This view was created inside a custom Function")
def writing_an_argument_that_was_returned(t):
    function(t, lambda ctx, x: x, lambda ctx, g: g).apply(leaf(t)).add_(1)


def doubled_in_place(t):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    return function(t, forward, lambda ctx, g: g * 20, name="Double")


@case
def dirty_arguments(t):
    x = leaf(t)
    h = x * 1
    before = h.grad_fn
    y = doubled_in_place(t).apply(h)
    y.sum().backward()
    plain = t.ones(2)
    z = doubled_in_place(t).apply(plain)
    return before, h.grad_fn, y is h, y, h._version, x.grad, z is plain, z._version


@case
def a_dirty_argument_that_is_saved(t):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.exp_()
        ctx.save_for_backward(x)
        return x

    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y

    x = leaf(t)
    y = function(t, forward, backward).apply(x * 1)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return g, t.autograd.grad(g.sum(), x)


@case
def a_dirty_view(t):
    x = leaf(t)
    h = x * 1
    y = doubled_in_place(t).apply(h[:2])
    before = h.grad_fn
    (h * t.tensor([1.0, 2.0, 3.0])).sum().backward()
    return before, y, h, y.grad_fn, x.grad


@error("leaf Variable that requires grad")
def a_dirty_leaf(t):
    doubled_in_place(t).apply(leaf(t))


@error("Some elements marked as dirty during the forward method were not returned as output")
def a_dirty_argument_that_is_not_returned(t):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x * 2

    function(t, forward, lambda ctx, g: g).apply(leaf(t) * 1)


@error("your Function cannot return more than one Tensor")
def a_dirty_view_beside_another_output(t):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2), x * 1

    function(t, forward, lambda ctx, g, h: g).apply((leaf(t) * 1)[:2])


@case
def in_place_on_an_output(t):
    x = leaf(t)
    y = function(t, lambda ctx, x: x * 2, lambda ctx, g: g * 2).apply(x)
    y.mul_(3)
    y.sum().backward()
    return y.grad_fn, x.grad


@case
def what_forward_recorded_is_forgotten(t):
    def forward(ctx, x):
        with t.enable_grad():
            return x * 2

    x = leaf(t)
    y = function(t, forward, lambda ctx, g: g * 100).apply(x)
    y.sum().backward()
    return y.grad_fn.name(), x.grad


# ---- hooks and ctx as a node


@case
def hooks_on_outputs_and_on_the_node(t, note):
    x = leaf(t)
    y = square(t).apply(x)
    y.register_hook(lambda g: note("tensor", g))
    y.grad_fn.register_prehook(lambda gs: note("pre", gs))
    y.grad_fn.register_hook(lambda gi, go: note("post", gi, go))
    y.retain_grad()
    y.sum().backward()
    return y.grad, x.grad


@case
def ctx_has_what_a_node_has(t, note):
    def forward(ctx, x):
        ctx.register_hook(lambda gi, go: note("hook", gi)) if False else None
        return x * 2

    def backward(ctx, grad):
        note(ctx.name(), list(ctx.next_functions), ctx.metadata)
        return grad * 2

    x = leaf(t)
    y = function(t, forward, backward).apply(x)
    y.grad_fn.metadata["note"] = 1
    node = y.grad_fn
    y.sum().backward()
    return node.metadata, x.grad


@case
def a_node_outlives_its_tensors(t):
    y = square(t).apply(leaf(t))
    node = y.grad_fn
    del y
    gc.collect()
    return node.name(), list(node.next_functions), node.saved_tensors


@case
def printing(t):
    y = square(t).apply(leaf(t))
    return str(y), re.sub("0x[0-9a-f]+", "", str(y.grad_fn))


@case
def vjp_is_another_name(t):
    f = type(
        "F",
        (t.autograd.Function,),
        {
            "forward": staticmethod(lambda ctx, x: x * 2),
            "vjp": staticmethod(lambda ctx, g: g * 2),
        },
    )
    x = leaf(t)
    f.apply(x).sum().backward()
    return x.grad


@case
def functions_are_inherited(t):
    class Base(t.autograd.Function):
        scale = 2

        @classmethod
        def forward(cls, ctx, x):
            return x * cls.scale

        @classmethod
        def backward(cls, ctx, grad):
            return grad * cls.scale

    class Derived(Base):
        scale = 5

    x = leaf(t)
    y = Derived.apply(x)
    y.sum().backward()
    return y.grad_fn.name(), y, x.grad


test_observes_what_pytorch_does, test_raises_what_pytorch_raises = CASES.tests()
