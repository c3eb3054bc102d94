"""Functions whose forward and backward are written in Python."""

from cases import Cases
from functions import function, leaf, square

CASES = Cases()
case, error = CASES.case, CASES.error


# ---- the two styles


@case
def forward_with_ctx(t):
    x = leaf(t)
    y = square(t).apply(x)
    y.sum().backward()
    return y, str(y), y.grad_fn.name(), type(y.grad_fn).__name__, y.is_leaf, x.grad


@case
def forward_apart_from_setup_context(t, note):
    def setup(ctx, inputs, output):
        note([type(i).__name__ for i in inputs], output)
        x, factor = inputs
        ctx.factor = factor
        ctx.save_for_backward(x, output)

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        note(y.grad_fn is None, y.requires_grad)
        return grad * y * ctx.factor, None

    x = leaf(t)
    f = function(t, lambda x, factor: (x * factor).exp(), backward, setup)
    y = f.apply(x, 0.5)
    y.sum().backward()
    return y, x.grad


@case
def defaults_and_keywords_with_setup_context(t, note):
    def forward(x, a=2.0, b=3.0):
        return x * a * b

    def setup(ctx, inputs, output):
        note(len(inputs), ctx.needs_input_grad)
        ctx.product = inputs[1] * inputs[2]

    f = function(t, forward, lambda ctx, g: (g * ctx.product, None, None), setup)
    x = leaf(t)
    (f.apply(x) + f.apply(x, 5.0) + f.apply(x, b=7.0)).sum().backward()
    return x.grad


@case
def keywords_with_ctx(t, note):
    def forward(ctx, x, factor=2.0, other=None):
        note(ctx.needs_input_grad)
        return x * factor

    x, factor = leaf(t), leaf(t)
    f = function(t, forward, lambda ctx, g: (g, g * 2))
    f.apply(factor=factor, x=x).sum().backward()
    function(t, forward, lambda ctx, g: (g,)).apply(x).sum().backward()
    return x.grad, factor.grad


@case
def several_inputs_and_outputs(t, note):
    def forward(ctx, a, text, b):
        note(ctx.needs_input_grad)
        ctx.save_for_backward(a, b)
        return a + b, a * b, text

    def backward(ctx, ga, gp, gt):
        note(ga, gp, gt)
        a, b = ctx.saved_tensors
        return ga + gp * b, None, ga + gp * a

    a, b = leaf(t, 1.0, 2.0), leaf(t, 3.0, 4.0)
    s, p, text = function(t, forward, backward).apply(a, "text", b)
    (s.sum() + 2 * p.sum()).backward()
    (function(t, forward, backward).apply(a, "x", b.detach())[0]).sum().backward()
    return s.output_nr, p.output_nr, s.grad_fn is p.grad_fn, text, a.grad, b.grad


@case
def next_functions_are_of_the_tensors(t):
    f = function(t, lambda ctx, a, n, b, c: a * n, lambda ctx, g: (g, None, None, None))
    a, c = leaf(t), leaf(t) * 2
    return list(f.apply(a, 2, t.ones(3), c).grad_fn.next_functions)


@case
def one_in_a_tuple_comes_in_a_tuple(t):
    f = function(t, lambda ctx, x: (x * 2,), lambda ctx, g: g * 2)
    return f.apply(leaf(t))


@case
def lists_and_dicts_pass_through(t):
    x = leaf(t)
    f = function(t, lambda ctx, xs, d: xs[0] * d["a"], lambda ctx, g: (None, None))
    y = f.apply([x], {"a": 2})
    return y, y.requires_grad


@case
def outputs_that_are_no_tensors(t, note):
    def forward(ctx, x):
        index = t.tensor([1, 2])
        constant = x * 3
        ctx.mark_non_differentiable(index, constant)
        return x * 1, index, None, "text", constant, x * 2

    def backward(ctx, *grads):
        note(grads)
        return grads[0]

    x = leaf(t, 1.0, 2.0)
    out = function(t, forward, backward).apply(x)
    out[0].sum().backward()
    return [getattr(o, "requires_grad", o) for o in out], [getattr(o, "output_nr", o) for o in out]


@case
def integer_outputs_need_no_mark(t):
    f = function(t, lambda ctx, x: (x * 2, t.tensor([1])), lambda ctx, g, _: g * 2)
    y, i = f.apply(leaf(t))
    return y.requires_grad, i.requires_grad, i.grad_fn


@case
def the_same_output_twice(t):
    def forward(ctx, x):
        y = x * 2
        return y, y

    x = leaf(t)
    a, b = function(t, forward, lambda ctx, g, h: g * 2 + h * 20).apply(x)
    (a.sum() + b.sum()).backward()
    return x.grad


# ---- gradients


@case
def none_and_missing_gradients(t, note):
    f = function(t, lambda ctx, a, b: (a * 2, b * 3), lambda ctx, g, h: (None, note(g, h)))
    a, b = leaf(t), leaf(t)
    y, _ = f.apply(a, b)
    (y.sum() + a.sum()).backward()
    return a.grad, b.grad


@case
def gradients_are_not_materialized(t, note):
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    def backward(ctx, g, h):
        note(g, h)
        return g

    function(t, forward, backward).apply(leaf(t))[0].sum().backward()


@case
def more_gradients_than_arguments_if_they_are_none(t):
    x = leaf(t)
    function(t, lambda ctx, x: x * 2, lambda ctx, g: (g * 2, None, None)).apply(x).sum().backward()
    return x.grad


@case
def a_gradient_is_summed_and_cast(t):
    f = function(t, lambda ctx, x: x.expand(4, 3) * 1, lambda ctx, g: g.double())
    x = leaf(t)
    f.apply(x).sum().backward()
    return x.grad


@case
def a_function_behind_one_that_gave_nothing_runs(t, note):
    def backward(ctx, g):
        note("ran", g)
        return g

    first = function(t, lambda ctx, x: x * 1, backward)
    nothing = function(t, lambda ctx, x: x * 1, lambda ctx, g: None)
    x = leaf(t)
    nothing.apply(first.apply(x)).sum().backward()
    return x.grad


@case
def needs_input_grad(t, note):
    def forward(ctx, a, b, c):
        note(ctx.needs_input_grad)
        return a * b

    f = function(t, forward, lambda ctx, g: (note(ctx.needs_input_grad), None, None))
    f.apply(leaf(t), t.ones(3), 5).sum().backward()
    with t.no_grad():
        f.apply(leaf(t), t.ones(3), 5)


@case
def forward_is_not_recorded(t, note):
    def forward(ctx, x):
        note(t.is_grad_enabled(), (x * 2).requires_grad)
        return x * 2

    f = function(t, forward, lambda ctx, g: note(t.is_grad_enabled()))
    f.apply(leaf(t)).sum().backward()
    return t.is_grad_enabled()


@case
def nothing_is_recorded_without_grad(t):
    with t.no_grad():
        y = square(t).apply(leaf(t))
    z = square(t).apply(t.ones(2))
    return y.requires_grad, y.grad_fn, z.requires_grad, z.grad_fn


@case
def second_derivatives(t):
    x = leaf(t)
    y = square(t).apply(x) * x
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = t.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = t.autograd.grad(h.sum(), x)
    return g, h, k


@case
def second_derivatives_through_a_saved_output(t):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y

    f = function(t, forward, backward)
    x = leaf(t)
    y = f.apply(x)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = t.autograd.grad((g * x).sum(), x)
    return g, h


@case
def backward_within_backward(t):
    def forward(ctx, x):
        with t.enable_grad():
            inner = x.detach().requires_grad_()
            ctx.inner, ctx.out = inner, (inner**3).sum()
        return ctx.out.detach()

    def backward(ctx, grad):
        ctx.out.backward()
        with t.enable_grad():
            (again,) = t.autograd.grad((ctx.inner**2).sum(), ctx.inner)
        return (ctx.inner.grad + again) * grad

    x = leaf(t)
    (function(t, forward, backward).apply(x) * 2).backward()
    return x.grad


@case
def once_differentiable(t):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    f = function(t, forward, t.autograd.function.once_differentiable(backward))
    x = leaf(t)
    (g,) = t.autograd.grad(f.apply(x).sum(), x, create_graph=True)
    f.apply(x).sum().backward()
    return g, g.requires_grad, x.grad


@error("trying to differentiate twice a function that was marked with @once_differentiable")
def once_differentiable_twice(t):
    once = t.autograd.function.once_differentiable(lambda ctx, g: g * 2)
    f = function(t, lambda ctx, x: x * 2, once)
    x = leaf(t)
    (g,) = t.autograd.grad((f.apply(x) ** 2).sum(), x, create_graph=True)
    g.sum().backward()


# ---- saved tensors


@case
def saved_tensors_may_be_none(t):
    def forward(ctx, x):
        ctx.save_for_backward(None, x, None)
        return x * 2

    x = leaf(t)
    y = function(t, forward, lambda ctx, g: g).apply(x)
    return y.grad_fn.saved_tensors


@case
def the_last_save_counts(t):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_backward(x * 2, x * 3)
        return x * 1

    return function(t, forward, lambda ctx, g: g).apply(leaf(t)).grad_fn.saved_tensors


@case
def retained_graphs_keep_what_was_saved(t):
    x = leaf(t)
    y = square(t).apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@case
def attributes_outlive_backward(t):
    def forward(ctx, x):
        ctx.x, ctx.number = x, 3
        return x * 2

    x = leaf(t)
    y = function(t, forward, lambda ctx, g: g * ctx.number).apply(x)
    y.sum().backward()
    y.sum().backward()
    return x.grad, y.grad_fn.number, y.grad_fn.x is x


@case
def attributes_set_on_the_node_are_those_of_ctx(t):
    x = leaf(t)
    y = function(t, lambda ctx, x: x * 2, lambda ctx, g: g * ctx.late).apply(x)
    y.grad_fn.late = 7
    y.sum().backward()
    return x.grad


@error("second time")
def saved_tensors_after_backward(t):
    y = square(t).apply(leaf(t)).sum()
    y.backward()
    y.backward()


@error("modified by an inplace operation")
def a_saved_input_was_overwritten(t):
    x = leaf(t) * 1
    y = square(t).apply(x)
    x.add_(1)
    y.sum().backward()


@error("save_for_backward can only save variables, but argument 1 is of type int")
def saving_a_number(t):
    function(t, lambda ctx, x: ctx.save_for_backward(x, 3), None).apply(leaf(t))


@error("n input that has been returned as-is as output is being saved for backward")
def saving_a_returned_argument_in_setup_context(t):
    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    function(t, lambda x: x, lambda ctx, g: g, setup).apply(leaf(t))


@case
def a_hook_of_a_view_that_is_written_and_saved(t, note):
    """It belongs to what the view was before; it was lost."""

    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        x.tanh_()
        ctx.save_for_backward(x, y)
        return x

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * (1 - x * x), g.sum() * y

    def scaled(g):
        note(g)
        return g * 3

    x = leaf(t)
    y = x * 2
    v = y[1:]
    v.register_hook(scaled)
    function(t, forward, backward).apply(v, v)
    (y * y).sum().backward()
    return x.grad


test_observes_what_pytorch_does, test_raises_what_pytorch_raises = CASES.tests()
