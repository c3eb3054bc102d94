"""The graph and the engine: what is recorded, what backward does with it, when it is freed."""

import gc
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


@pytest.mark.parametrize("program", CASES, ids=lambda p: p.__name__)
def test_observes_what_pytorch_does(program, same):
    same(program)


# ---- leaves and nodes


@case
def leaves(t):
    x = t.ones(2, requires_grad=True)
    y = t.ones(2)
    out = x * y
    return [
        (v.is_leaf, v.requires_grad, v.grad_fn, v.output_nr)
        for v in (x, y, out, y * y, out.detach(), x.detach().requires_grad_(), x[0], y[0])
    ]


@case
def requires_grad_can_be_set_on_leaves(t):
    x = t.ones(2)
    x.requires_grad = True
    y = x * 2
    x.requires_grad_(False)
    z = x * 2
    return y.requires_grad, z.requires_grad, x.requires_grad


@error("you can only change requires_grad flags of leaf variables")
def requires_grad_of_a_result(t):
    (t.ones(2, requires_grad=True) * 2).requires_grad = False


@error("Tensors of floating point")
def requires_grad_of_integers(t):
    t.tensor([1, 2]).requires_grad_()


@case
def next_functions(t):
    x, b = t.ones(2, requires_grad=True), t.ones(2)
    fn = (x * b + x).sum().grad_fn
    seen = []
    while fn is not None:
        seen.append((fn, list(fn.next_functions)))
        fn = fn.next_functions[0][0] if fn.next_functions else None
    return seen


@case
def accumulator_knows_its_leaf(t):
    x = t.ones(2, requires_grad=True)
    node = (x * 2).grad_fn.next_functions[0][0]
    again = (x + 1).grad_fn.next_functions[0][0]
    return node.name(), node.variable is x, node is again, node.next_functions


@case
def same_node_object_while_held(t):
    y = t.ones(2, requires_grad=True) * 2
    node = y.grad_fn
    return node is y.grad_fn, type(node).__name__


@case
def outputs_share_a_node(t):
    a, b = t.arange(6.0, requires_grad=True).reshape(2, 3).unbind(0)
    return a.grad_fn is b.grad_fn, a.output_nr, b.output_nr, a.grad_fn


@case
def saved_values_of_a_node(t):
    x = t.tensor([2.0, 3.0], requires_grad=True)
    fn = (x * t.tensor([5.0, 7.0])).grad_fn
    exp = x.exp()
    return fn._saved_self, fn._saved_other, exp.grad_fn._saved_result


@case
def node_metadata_lasts(t):
    y = t.ones(2, requires_grad=True) * 2
    node = y.grad_fn
    node.metadata["note"] = 1
    return y.grad_fn.metadata


# ---- backward


@case
def backward_accumulates(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    first = x.grad
    (3 * x).sum().backward()
    return x.grad, first is x.grad


@case
def grad_is_accumulated_in_place(t):
    x = t.ones(2, requires_grad=True)
    kept = x.grad = t.ones(2)
    (x * 2).sum().backward()
    return kept, x.grad is kept


@case
def accumulation_with_create_graph_makes_a_new_tensor(t):
    x = t.ones(2, requires_grad=True)
    kept = x.grad = t.ones(2)
    (x * x).sum().backward(create_graph=True)
    return kept, x.grad, x.grad is kept, x.grad.requires_grad


@case
def first_gradient_is_not_shared_with_the_given_one(t):
    x = t.ones(2, requires_grad=True)
    given = t.ones(2)
    x.backward(given)
    given.fill_(5)
    return x.grad


@case
def two_leaves_do_not_share_a_gradient(t):
    x, y = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
    (x + y).backward(t.ones(2))
    x.grad.fill_(7)
    return x.grad, y.grad


@case
def strided_gradient(t):
    x = t.arange(6.0).reshape(2, 3).requires_grad_()
    x.t().backward(t.arange(6.0).reshape(3, 2))
    return x.grad, x.grad.stride()


@case
def backward_of_a_leaf(t):
    x = t.tensor(3.0, requires_grad=True)
    x.backward()
    x.backward(t.tensor(2.0))
    return x.grad


@case
def several_roots(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y, z = x * 2, x.exp()
    t.autograd.backward([y, z.sum()], [t.tensor([1.0, 10.0]), None])
    return x.grad


@case
def the_same_root_twice(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    t.autograd.backward([y, y])
    return x.grad


@case
def a_root_behind_another(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    z = y.sum()
    return t.autograd.grad([z, y], x, [None, t.tensor([1.0, 10.0])])


@case
def inputs_choose_who_accumulates(t):
    x, w = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
    (x * w).sum().backward(inputs=[x])
    return x.grad, w.grad


@case
def inputs_may_be_no_leaves(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    (y * 3).sum().backward(inputs=[y, x])
    return x.grad, y.grad


@case
def inputs_as_one_tensor(t):
    x, w = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
    (x * w).sum().backward(inputs=w)
    return x.grad, w.grad


@error("`inputs` argument to `backward()` cannot be empty")
def inputs_must_not_be_empty(t):
    t.ones((), requires_grad=True).backward(inputs=[])


@error("grad can be implicitly created only for scalar outputs")
def backward_of_a_vector(t):
    (t.ones(3, requires_grad=True) * 2).backward()


@error("does not require grad and does not have a grad_fn")
def backward_without_graph(t):
    t.ones(()).backward()


@error("Mismatch in shape")
def gradient_of_another_shape(t):
    (t.ones(3, requires_grad=True) * 2).backward(t.ones(2))


@error("second time")
def backward_twice(t):
    y = t.ones(2, requires_grad=True).exp().sum()
    y.backward()
    y.backward()


@case
def backward_twice_where_nothing_is_saved(t):
    x = t.ones(2, requires_grad=True)
    y = (x + x).sum()
    y.backward()
    y.backward()
    return x.grad


@case
def retain_graph(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@case
def create_graph_keeps_the_graph(t):
    x = t.tensor(2.0, requires_grad=True)
    y = x**3
    (g,) = t.autograd.grad(y, x, create_graph=True)
    (h,) = t.autograd.grad(g, x, create_graph=True)
    (k,) = t.autograd.grad(h, x)
    return g, h, k, t.autograd.grad(y, x)


@case
def third_derivative_of_a_mixture(t):
    x = t.tensor([0.3, -0.7], dtype=t.float64, requires_grad=True)
    y = (x.sin() * x.exp() / (1 + x * x)).sum()
    out = []
    for _ in range(3):
        (g,) = t.autograd.grad(y, x, create_graph=True)
        out.append(g)
        y = g.sum()
    return out


@case
def gradient_of_a_gradient_through_backward(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    penalty = (x.grad**2).sum()
    x.grad = None
    penalty.backward()
    return x.grad


# ---- autograd.grad


@case
def grad_leaves_grad_alone(t):
    x = t.ones(2, requires_grad=True)
    found = t.autograd.grad((x * 2).sum(), x)
    return found, x.grad, found[0].requires_grad


@case
def grad_of_unused_inputs(t):
    x, y = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
    z = (x * 2).sum()
    return (
        t.autograd.grad(z, [x, y], allow_unused=True, retain_graph=True),
        t.autograd.grad(z, [x, y], materialize_grads=True),
    )


@error("appears to not have been used in the graph")
def grad_of_an_unused_input(t):
    x, y = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
    t.autograd.grad((x * 2).sum(), [x, y])


@error("One of the differentiated Tensors does not require grad")
def grad_of_an_input_without(t):
    x = t.ones(2, requires_grad=True)
    t.autograd.grad((x * 2).sum(), t.ones(2))


@case
def grad_of_inner_values(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    z = y * 3
    return t.autograd.grad(z.sum(), [z, y, x])


@case
def grad_of_the_output_itself(t):
    x = t.tensor(2.0, requires_grad=True)
    y = x * x
    return t.autograd.grad(y, [y, x])


@case
def grad_stops_where_nothing_is_wanted(t, note):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    w = t.tensor([3.0, 4.0], requires_grad=True)
    a, b = x * 2, w * 2
    a.register_hook(lambda g: note("a"))
    b.register_hook(lambda g: note("b"))
    return t.autograd.grad((a * b).sum(), w)


@case
def the_same_input_twice(t):
    x = t.tensor(2.0, requires_grad=True)
    return t.autograd.grad(x * x, [x, x])


@case
def batched_gradients(t):
    x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    return t.autograd.grad(y, x, t.eye(3), is_grads_batched=True)


@case
def several_outputs_of_grad(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    return t.autograd.grad([x.sum(), (x * x).sum()], [x])


# ---- detach, retain_grad, data


@case
def detach_shares_memory(t):
    x = t.ones(2, requires_grad=True)
    d = x.detach()
    d[0] = 5
    return x, d.requires_grad, d._version, x._version


@case
def detach_in_place(t):
    y = t.ones(2, requires_grad=True) * 2
    y.detach_()
    return y.requires_grad, y.grad_fn, y.is_leaf


@error("Can't detach views in-place")
def detach_a_view_in_place(t):
    (t.ones(2, requires_grad=True) * 2)[:1].detach_()


@case
def retain_grad(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    y.retain_grad()
    y.retain_grad()
    x.retain_grad()
    y.sum().backward(retain_graph=True)
    before = y.grad
    y.sum().backward()
    return before, y.grad, y.retains_grad, x.retains_grad, x.grad


@error("can't retain_grad on Tensor that has requires_grad=False")
def retain_grad_without_graph(t):
    t.ones(2).retain_grad()


@case
def grad_of_a_result_is_none(t):
    x = t.ones(2, requires_grad=True)
    y = x * 2
    y.sum().backward()
    return y.grad, x.grad


@error("can't assign Variable as its own grad")
def its_own_gradient(t):
    x = t.ones(2, requires_grad=True)
    x.grad = x


@error("[3]")
def a_gradient_of_another_shape(t):
    t.ones(2, requires_grad=True).grad = t.ones(3)


@case
def data_keeps_the_place_in_the_graph(t):
    x = t.ones(2, requires_grad=True)
    y = (x * x).sum()
    x.data = t.full((2,), 3.0)
    y.backward()
    return x, x.grad


@case
def gradients_are_cast_and_summed_to_what_was_used(t):
    x = t.ones(1, 3, dtype=t.float64, requires_grad=True)
    y = t.ones(4, 1, requires_grad=True)
    (x * y).sum().backward()
    return x.grad, y.grad


@case
def scalars_of_python_have_no_edge(t):
    x = t.tensor(2.0, requires_grad=True)
    y = x * 3
    y.backward()
    return x.grad, [n for n, _ in y.grad_fn.next_functions]


@case
def diamond(t):
    x = t.tensor(2.0, requires_grad=True)
    a = x * x
    b, c = a.sin(), a.exp()
    (b * c).backward()
    return x.grad


@case
def nodes_run_latest_first(t, note):
    x = t.tensor(1.0, requires_grad=True)
    names = "abcdef"
    values = [x * (i + 1) for i in range(len(names))]
    for name, value in zip(names, values):
        value.register_hook(lambda g, name=name: note(name))
    sum(reversed(values)).backward()
    return x.grad


@error("Trying to backward through the graph a second time")
def part_of_the_graph_was_freed(t):
    x = t.ones(2, requires_grad=True)
    shared = x.exp()
    (shared * 2).sum().backward()
    (shared * 3).sum().backward()


@case
def a_leaf_that_no_longer_wants_a_gradient_gets_none(t):
    x, y = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
    first, second = (x * 2).sum(), (y * 2).sum()
    x.requires_grad_(False)
    y.detach_()
    first.backward()
    second.backward()
    return x.grad is None, y.grad is None


@error("leaf variable has been moved into the graph interior")
def a_leaf_was_written_since(t):
    x, y = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
    total = (x * 2).sum()
    x.requires_grad_(False)
    x.mul_(y)
    total.backward()


@error("a view of a leaf Variable that requires grad")
def a_view_that_still_requires_grad_is_written(t):
    x = t.ones(2, requires_grad=True)
    part = x[:1]
    x.detach_()
    part.mul_(2)


@error("a view of a leaf Variable that requires grad")
def a_view_that_is_made_a_leaf_is_written(t):
    part = t.ones(2)[:1].requires_grad_()
    part.mul_(2)


@pytest.mark.parametrize(("program", "text"), ERRORS, ids=lambda p: getattr(p, "__name__", ""))
def test_raises_what_pytorch_raises(program, text, same_error):
    same_error(program, text)


# ---- what weft promises beyond


def test_a_second_backward_names_the_forward_line():
    x = weft.ones(2, requires_grad=True)
    y = x.exp().sum()  # the line
    y.backward()
    with pytest.raises(RuntimeError, match=r"ExpBackward0.*\n.*test_graph\.py:\d+.*# the line"):
        y.backward()


def test_an_error_leaves_gradients_as_they_were():
    x = weft.ones(2, requires_grad=True)
    x.grad = weft.full((2,), 3.0)
    y = (x * x).exp().sum()
    y.backward(retain_graph=True)
    before = x.grad.clone()

    def fail(grad):
        raise KeyError("mine")

    handle = (y.grad_fn.next_functions[0][0]).register_prehook(fail)
    with pytest.raises(KeyError, match="mine"):
        y.backward(retain_graph=True)
    assert weft.equal(x.grad, before)
    handle.remove()
    y.backward()
    assert not weft.equal(x.grad, before)


def test_a_leaf_that_was_written_is_not_kept_by_its_own_graph(balance):
    x, y = weft.ones(50, requires_grad=True), weft.ones(50, requires_grad=True)
    before = balance()
    total = x * 2
    x.requires_grad_(False)
    x.mul_(total + y)
    assert x.grad_fn is not None
    with pytest.raises(RuntimeError, match="graph interior"):
        x.sum().backward()
    del x, total
    y.grad = None
    assert balance() == before - 200


DEEP = 1_000_000


def chain(x, length):
    y = x
    for _ in range(length):
        y = y + 1
    return y


def test_a_million_nodes_are_built_differentiated_and_dropped(balance):
    x = weft.ones((), requires_grad=True)
    y = chain(x, DEEP)
    y.backward()
    assert x.grad.item() == 1
    del y
    x.grad = None
    assert balance() == x.nbytes


def test_a_million_nodes_are_dropped_without_backward(balance):
    x = weft.ones((), requires_grad=True)
    y = chain(x, DEEP)
    assert y.item() == DEEP + 1
    del y
    assert balance() == x.nbytes


def test_a_million_nodes_are_dropped_when_an_exception_unwinds(balance):
    x = weft.ones((), requires_grad=True)

    def fail():
        y = chain(x, DEEP)
        raise ValueError(y.item())

    with pytest.raises(ValueError):
        fail()
    assert balance() == x.nbytes


def test_a_million_nodes_behind_a_chosen_input(balance):
    x, w = weft.ones((), requires_grad=True), weft.ones((), requires_grad=True)
    y = chain(x, DEEP) * w
    (found,) = weft.autograd.grad(y, x)
    assert found.item() == 1
    del y, found
    assert balance() == x.nbytes + w.nbytes


def test_a_million_nodes_twice_differentiable():
    x = weft.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(DEEP // 4):
        y = y * 1.0
    (g,) = weft.autograd.grad(y * y, x, create_graph=True)
    (h,) = weft.autograd.grad(g, x)
    assert (g.item(), h.item()) == (2, 2)


def test_a_million_nodes_when_a_hook_fails():
    x = weft.ones((), requires_grad=True)
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        chain(x, DEEP).backward()


def test_memory_after_a_step_is_what_it_was(balance):
    w = weft.ones(64, 64, requires_grad=True)

    def step():
        x = weft.ones(8, 64)
        for _ in range(5):
            x = (x @ w).tanh()
        x.sum().backward()
        w.grad = None

    step()
    after_first = balance()
    for _ in range(3):
        step()
    assert balance() == after_first == w.nbytes


def test_memory_is_free_as_soon_as_it_is_used():
    """Backward frees what a node saved when the node is done, not at the end."""
    size = 1 << 20
    x = weft.ones(size, requires_grad=True)
    y = x
    for _ in range(16):
        y = y.exp().log()
    total = y.sum()
    del y
    weft._C._reset_peak_memory()
    before = weft._C._memory_stats()["peak"]
    total.backward()
    grown = weft._C._memory_stats()["peak"] - before
    assert grown <= 4 * x.nbytes


def test_a_graph_is_freed_without_the_collector():
    gc.disable()
    try:
        x = weft.ones(2, requires_grad=True)
        y = x * 2
        node = weakref.ref(weft.nn.Parameter(y.detach()))
        assert node() is None
        before = weft._C._memory_stats()["current"]
        for _ in range(10):
            (x.exp() * x).sum().backward()
        x.grad = None
        assert weft._C._memory_stats()["current"] == before
    finally:
        gc.enable()


def test_backward_within_backward():
    """A hook that differentiates another graph, and one that differentiates the same nodes."""
    x = weft.tensor([2.0], requires_grad=True)
    w = weft.tensor([3.0], requires_grad=True)
    other = (w * w).sum()
    y = x * x

    def differentiate(grad):
        other.backward(retain_graph=True)
        (inner,) = weft.autograd.grad(y.sum(), x, retain_graph=True)
        return grad + inner

    handle = y.register_hook(differentiate)
    z = (y * 1).sum()
    # the nested pass through y calls the hook again unless it is taken away first
    y2 = y * 1
    handle.remove()
    y2.register_hook(lambda g: (other.backward(retain_graph=True), g * 2)[1])
    (z + y2.sum()).backward()
    assert x.grad.item() == pytest.approx(4 + 8)
    assert w.grad.item() == pytest.approx(6)


def test_a_hook_may_run_the_graph_it_is_on():
    x = weft.tensor([2.0], requires_grad=True)
    y = x * x
    z = y.exp().sum()
    found = []

    def again(grad):
        if len(found) < 3:
            place = len(found)
            found.append(None)
            (found[place],) = weft.autograd.grad(z, x, retain_graph=True)

    y.register_hook(again)
    z.backward(retain_graph=True)
    expected = 4 * weft.tensor(4.0).exp().item()
    assert x.grad.item() == pytest.approx(expected, rel=1e-5)
    assert [round(g.item() / expected, 4) for g in found] == [1.0] * 3
