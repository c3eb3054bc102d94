"""autograd.grad; detach, retain_grad, data, and where gradients go."""

from cases import Cases

CASES = Cases()
case, error = CASES.case, CASES.error


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


test_observes_what_pytorch_does, test_raises_what_pytorch_raises = CASES.tests()
