"""detach_() and `.data = ` beside what the graph knows: of saved values, views and their bases."""

import pytest
from cases import Cases
from functions import square

import weft

CASES = Cases()
case, error = CASES.case, CASES.error


def leaf(t):
    return t.tensor([0.3, 0.7], dtype=t.float64, requires_grad=True)


# ---- values that a node saved


@error("has been detached in-place")
def second_gradients_of_a_saved_input(t):
    """Drew a graph of gradients that lacked the way through y."""
    x = leaf(t)
    y = x * 2
    z = y.sin().sum()
    y.detach_()
    t.autograd.grad(z, x, create_graph=True)


@error("has been detached in-place")
def second_gradients_of_one_that_is_a_leaf_by_then(t):
    """They went to the new leaf."""
    x = leaf(t)
    y = x * 2
    z = y.sin().sum()
    y.detach_().requires_grad_()
    t.autograd.grad(z, x, create_graph=True)


@case
def a_saved_output(t):
    x = leaf(t)
    y = x.exp()
    z = (y * 3).sum()
    y.detach_()
    (g,) = t.autograd.grad(z, x, create_graph=True)
    return g, t.autograd.grad(g.sum(), x)


@case
def a_saved_leaf(t):
    x, w = leaf(t), leaf(t)
    z = (x * w).sum()
    w.detach_()
    (g,) = t.autograd.grad(z, x, create_graph=True)
    return g, g.requires_grad


@case
def saved_by_a_custom_function(t):
    x = leaf(t)
    y = x * 2
    z = square(t).apply(y).sum()
    y.detach_()
    z.backward()
    return x.grad


def test_first_gradients_need_the_numbers_alone():
    x = leaf(weft)
    y = x * 2
    z = y.sin().sum()
    y.detach_()
    z.backward()
    assert x.grad.tolist() == pytest.approx([2 * v.cos().item() for v in y])


def test_second_gradients_through_a_custom_function_are_refused():
    """PyTorch loses them."""
    x = leaf(weft)
    y = x * 2
    z = square(weft).apply(y).sum()
    y.detach_()
    with pytest.raises(RuntimeError, match="has been detached in-place"):
        weft.autograd.grad(z, x, create_graph=True)


# ---- views of what was detached


def node(x):
    return x.requires_grad, x.is_leaf, type(x.grad_fn).__name__


@case
def a_view_of_a_written_base(t):
    """Kept the node from before the write, and its gradient."""
    x = leaf(t)
    y = x * 2
    v = y[:1]
    y.mul_(3)
    y.detach_()
    (v * 2).sum().backward()
    return node(v), node(y), x.grad


@case
def a_base_that_is_written_afterwards(t):
    x = leaf(t)
    y = x * 2
    v = y[:1]
    y.detach_()
    before = node(v)
    y.mul_(3)
    v.sum().backward()
    return before, node(v), x.grad


@case
def a_base_that_is_written_into_another_graph(t):
    x = leaf(t)
    y = x * 2
    v = y[:1]
    y.detach_()
    y.mul_(x)
    v.sum().backward()
    return node(v), x.grad


@case
def a_base_that_was_written_through_the_view(t):
    x = leaf(t)
    y = x * 2
    v, w = y[:1], y[1:]
    v.pow_(2)
    y.detach_()
    v.sum().backward(retain_graph=True)
    w.sum().backward()
    return node(v), node(w), x.grad


@case
def a_base_that_is_not_written(t):
    x = leaf(t)
    y = x * 2
    v = y[:1]
    y.detach_()
    v.sin().sum().backward()
    return node(v), x.grad


@error("a view and its base or another view of its base has been modified inplace")
def one_of_several_views(t):
    x = leaf(t)
    y = x * 2
    a, b = y.unbind()
    y.detach_()
    y.mul_(3)
    a.backward()


@case
def a_shape_after_which_the_gradient_is_kept_anew(t):
    """Raised: the gradient kept before had the former shape."""
    x = t.ones(2, 3, requires_grad=True)
    y = x * 2
    (y * y).sum().backward(inputs=[x, y], retain_graph=True)
    y.t_()
    (y * y).sum().backward()
    return x.grad


# ---- .data =


@case
def data_over_the_same_memory(t):
    """The view's values followed a write to the base, its version and gradient did not."""
    x = leaf(t)
    y = x * 2
    v = y[:1]
    v.data = y.data[1:]
    y.mul_(3)
    v.sum().backward()
    return v, v._version, x.grad


test_observes_what_pytorch_does, test_raises_what_pytorch_raises = CASES.tests()


def test_a_view_that_shows_other_memory_follows_its_base_no_more():
    """It required grad as soon as its former base did. (PyTorch's follows it in the graph.)"""
    x = leaf(weft).detach()
    v = x[:1]
    v.data = weft.tensor([9.0], dtype=weft.float64)
    x.mul_(leaf(weft))
    assert (v.tolist(), v._version, v.requires_grad, x._version) == ([9.0], 0, False, 1)


def test_a_view_of_a_base_that_shows_other_memory():
    x = leaf(weft).detach()
    v = x[:1]
    x.data = x * 2
    x.mul_(leaf(weft))
    assert x.requires_grad
    assert (v.tolist(), v._version, v.requires_grad) == ([0.3], 0, False)


def test_a_write_to_a_view_that_shows_other_memory_is_its_own():
    x = leaf(weft)
    y = x * 2
    v = y[:1]
    v.data = weft.tensor([9.0], dtype=weft.float64)
    v.mul_(3)
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [2.0, 2.0]
    v.sum().backward()
    assert x.grad.tolist() == [8.0, 2.0]


@case
def what_has_no_gradient_gets_none_by_a_copy(t):
    """It had a node."""
    x = leaf(t)
    flags = x > 0
    flags.copy_(x)
    whole = t.zeros(2, dtype=t.int64)
    whole[:1] = x[:1] * 5
    return t.tensor([flags.requires_grad, whole.requires_grad]), whole


@case
def a_base_that_wants_a_gradient_again(t):
    """The written view led to the new leaf, and x had no gradient."""
    x = leaf(t)
    y = x * 2
    z = y[None]
    z.mul_(3)
    y.detach_().requires_grad_()
    (z * z).sum().backward()
    return x.grad, y.grad


@case
def the_gradient_of_one_number(t):
    """It was a view of a sum, which cannot be detached in place."""
    x = t.tensor(0.5, dtype=t.float64, requires_grad=True)
    (g,) = t.autograd.grad((x.expand(2) ** 2).sum(), x, create_graph=True)
    return g.detach_().requires_grad_()


@case
def one_of_several_views_squeezed_in_inference_mode(t):
    """Asked where in the graph the view was, after a write."""
    x = t.ones(2, 2, dtype=t.float64, requires_grad=True)
    a, b = x.chunk(2, -1)
    with t.inference_mode():
        x.put_(t.tensor([0]), t.tensor([0.5], dtype=t.float64))
        b.squeeze_(1)
    return b.detach(), x.detach()


# ---- inference tensors


@pytest.mark.parametrize("inside", [False, True])
def test_what_detach_shows_of_an_inference_tensor_is_one(inside, torch):
    """It was a normal tensor, which a node saved."""
    told = []
    for t in (weft, torch):
        with t.inference_mode():
            x = t.ones(3)
        w = t.ones(3, requires_grad=True)
        with t.inference_mode(inside):
            seen = [x.detach(), x.data, x.detach().clone(), x.clone().detach(), x[0]]
            seen += [t.ones(3).detach(), w.data, w.view(3).detach()]
        flags = []
        for y in seen:
            flags.append(y.is_inference())
            for use in (lambda: y.mul_(2), lambda: y._version, lambda: y * w[0]):  # noqa: B023
                try:
                    use()
                    flags.append("")
                except RuntimeError:
                    flags.append("refused")
        told.append(flags)
    assert told[0] == told[1]
