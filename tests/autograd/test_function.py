"""Functions whose forward and backward are written in Python."""

import gc
import re
import weakref

import pytest

import weft

CASES = []
ERRORS = []


def case(program):
    CASES.append(program)
    return program


def error(text):
    def add(program):
        ERRORS.append((program, text))
        return program

    return add


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


# ---- errors


def returning(t, value):
    f = function(t, lambda ctx, x, n, y: x * 1, lambda ctx, g: value(g))
    f.apply(leaf(t), 3, t.ones(3)).sum().backward()


@error("function MineBackward returned an incorrect number of gradients (expected 3, got 1)")
def too_few_gradients(t):
    returning(t, lambda g: g)


@error("function MineBackward returned an incorrect number of gradients (expected 3, got 4)")
def too_many_gradients(t):
    returning(t, lambda g: (g, None, None, g))


@error("function MineBackward returned an incorrect number of gradients (expected 3, got 1)")
def gradients_in_a_list(t):
    returning(t, lambda g: [g, None, None])


@error("function MineBackward returned a gradient different than None at position 2, but the "
       "corresponding forward input was not a Variable")  # fmt: skip
def a_gradient_of_a_number(t):
    returning(t, lambda g: (g, g, None))


@error("expected Variable or None (got int)")
def a_number_as_gradient(t):
    returning(t, lambda g: (5, None, None))


@error("returned an invalid gradient at index 0 - got [2] but expected shape compatible with [3]")
def a_gradient_of_another_shape(t):
    returning(t, lambda g: (g[:2], None, None))


@error("implement the forward function")
def no_forward(t):
    t.autograd.Function.apply(leaf(t))


@error("implement either the backward or vjp method")
def no_backward(t):
    f = type("F", (t.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)})
    f.apply(leaf(t)).sum().backward()


@error("Legacy autograd function")
def an_instance_called(t):
    square(t)()(leaf(t))


@error("got an unexpected keyword argument")
def a_keyword_without_a_position(t):
    def forward(ctx, x, *, factor=2):
        return x * factor

    function(t, forward, lambda ctx, g: g).apply(leaf(t), factor=3)


@pytest.mark.parametrize("program", CASES, ids=lambda p: p.__name__)
def test_observes_what_pytorch_does(program, same):
    same(program)


@pytest.mark.parametrize(("program", "text"), ERRORS, ids=lambda p: getattr(p, "__name__", ""))
def test_raises_what_pytorch_raises(program, text, same_error):
    same_error(program, text)


# ---- what is raised inside, and where it was made


@pytest.mark.parametrize("kind", [KeyError, ZeroDivisionError, RuntimeError])
def test_an_exception_passes_and_names_the_forward_line(kind):
    def backward(ctx, grad):
        raise kind("mine")

    x = weft.ones(2, requires_grad=True)
    y = function(weft, lambda ctx, x: x * 2, backward).apply(x)  # the forward line
    with pytest.raises(kind, match="mine") as caught:
        y.sum().backward()
    assert any("MineBackward" in n and "# the forward line" in n for n in caught.value.__notes__)


def test_the_site_is_where_apply_was_called():
    y = square(weft).apply(weft.ones(2, requires_grad=True))  # the call
    assert re.search(r"test_function\.py:\d+, in test_the_site.*# the call", y.grad_fn.site)


def test_an_exception_in_forward_records_nothing():
    def forward(ctx, x):
        raise KeyError("mine")

    x = weft.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        function(weft, forward, None).apply(x)
    assert weft.is_grad_enabled()


# ---- memory


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
