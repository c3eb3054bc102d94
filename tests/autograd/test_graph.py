"""The graph and the engine: what is recorded, what backward does with it, when it is freed."""

import pytest
from cases import Cases

import weft

CASES = Cases()
case, error = CASES.case, CASES.error


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


test_observes_what_pytorch_does, test_raises_what_pytorch_raises = CASES.tests()


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
