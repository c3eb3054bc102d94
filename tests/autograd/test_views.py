"""Views and their bases while both are written, and which lines the errors name."""

import re

import pytest
from cases import Cases

import weft

CASES = Cases()
case, error = CASES.case, CASES.error


def leaf(t):
    return t.tensor([1.0, 2.0, 3.0], requires_grad=True)


@case
def a_write_into_the_base_is_seen_by_its_view(t):
    x = leaf(t)
    y = x * 2
    v = y[1:]
    before = v.grad_fn
    y.mul_(x)
    after = v.grad_fn
    v.sum().backward()
    return before, after, v, x.grad


@case
def a_written_view_in_an_op_of_a_library(t):
    """Its edge went to what the view was before the write."""
    x = leaf(t)
    y = x * 2
    v, w = y[1:], y.reshape(-1)
    y.mul_(x)
    t.fft.rfft(v).abs().sum().backward(retain_graph=True)
    t.special.i0(w).sum().backward()
    return x.grad


@case
def a_write_through_a_sibling(t):
    x = leaf(t)
    y = x * 2
    a, b = y[:2], y[1:]
    a.mul_(x[:2])
    b.sum().backward()
    return b, x.grad


@case
def the_base_is_the_first_one(t):
    y = t.ones(2, 3, requires_grad=True) * 1
    v = y[0]
    w = v[1:]
    return w._base is y, v._base is y, y._base, t.ones(2)._base


@case
def a_view_made_before_the_base_joined(t):
    x = leaf(t)
    y = t.zeros(2, 3)
    v = y[0]
    y.add_(x)
    joined = v.requires_grad
    v.sum().backward()
    return joined, x.grad


@case
def a_diagonal_by_strides(t):
    x = leaf(t)
    y = t.zeros(3, 3)
    y.view(9)[::4].copy_(x)
    (y @ y).sum().backward()
    return y, x.grad


@case
def one_element_expanded_into_many(t):
    x = t.tensor(2.0, requires_grad=True)
    y = t.zeros(2, 3)
    y[:, 1:].copy_(x.expand(2, 2))
    (y * y).sum().backward()
    return x.grad


@case
def a_permuted_base(t):
    x = t.arange(6.0).reshape(2, 3).requires_grad_()
    y = (x * 2).t()
    y[0].mul_(3)
    (y * t.arange(6.0).reshape(3, 2)).sum().backward()
    return y, x.grad


@case
def a_state_written_in_a_loop(t):
    x = leaf(t)
    state = t.zeros(3)
    for i in range(5):
        state.mul_(0.5).add_(x * i)
    state.sum().backward()
    return x.grad


@case
def assignment_under_a_mask(t):
    x = leaf(t)
    y = x * 2
    y[x.detach() > 1.5] = 0.0
    y.sum().backward()
    return y, x.grad


@case
def views_made_without_grad(t):
    x = leaf(t)
    y = x * 2
    with t.no_grad():
        v, w = y[1:], x[1:]
        shown = str(v), str(w), str(w.detach())
        u = x.unsqueeze(0)[0]
    later = t.zeros(3)
    with t.no_grad():
        z = later[1:]
    before = z.requires_grad
    later.requires_grad_()
    return [(a.requires_grad, a.is_leaf, a._base is x) for a in (v, w, u)], shown, before


@case
def a_view_made_and_written_without_grad(t):
    x = leaf(t)
    with t.no_grad():
        x[1:].mul_(5)
        v = x.view(3, 1)
        v[0] = 7
    (x * x).sum().backward()
    return x, x.grad


@case
def a_retained_gradient_belongs_to_the_last_value(t):
    x = leaf(t)
    y = x * 2
    y.retain_grad()
    z = y.mul_(3)
    z.sum().backward()
    return z is y, y.grad, x.grad


@case
def a_retained_gradient_of_a_written_view(t):
    x = leaf(t)
    y = x * 2
    v = y[1:]
    v.retain_grad()
    v.mul_(3)
    (v * 5).sum().backward()
    return v.grad, x.grad


@case
def a_hook_belongs_to_the_value_it_was_set_on(t, note):
    x = leaf(t)
    y = x * 2
    y.register_hook(lambda g: note("before", g))
    y.mul_(3)
    y.register_hook(lambda g: note("after", g))
    y.sum().backward()


@error("This view is the output of a function that returns multiple views")
def a_write_on_one_of_several_views(t):
    a, _ = (t.ones(2, 3, requires_grad=True) * 1).unbind(0)
    a.add_(1)


@error("A view was created in no_grad mode and is being modified inplace with grad mode enabled")
def a_write_on_a_view_made_without_grad(t):
    y = leaf(t) * 2
    with t.no_grad():
        v = y[1:]
    v.add_(1)


@error("A view was created in no_grad mode and is being modified inplace with grad mode enabled")
def a_write_on_a_view_of_a_leaf_made_without_grad(t):
    x = leaf(t)
    with t.no_grad():
        v = x[1:]
    v.add_(1)


@error("modified by an inplace operation")
def a_saved_constant_was_overwritten(t):
    x, c = leaf(t), t.ones(3)
    y = x * c
    c[0] = 2
    y.sum().backward()


test_observes_what_pytorch_does, test_raises_what_pytorch_raises = CASES.tests()


# ---- lines


def in_order(message, *patterns):
    at = 0
    for pattern in patterns:
        found = re.compile(pattern).search(message, at)
        assert found, f"{pattern!r} not after {message[:at]!r} in\n{message}"
        at = found.end()


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.zero_(),
        lambda y: y.__setitem__(0, 5.0),
        lambda y: y[1:].mul_(2),
        lambda y: y.view(3, 1).fill_(2),
        lambda y: y.detach().add_(1),
        lambda y: weft.add(y.detach(), 1, out=y.detach()),
        lambda y: weft.nn.init.ones_(y),
        lambda y: y.uniform_(),
        lambda y: weft.autograd.graph.increment_version(y),
    ],
)
def test_names_the_line_of_every_kind_of_write(write):
    x = weft.ones(3, requires_grad=True)
    y = x.exp()
    z = y * y  # saved
    with weft.no_grad():
        write(y)
    with pytest.raises(RuntimeError) as caught:
        z.sum().backward()
    in_order(
        str(caught.value),
        r"saved at .*test_views\.py:\d+, in test_names_the.*# saved",
        r"overwritten at .*test_views\.py:\d+, in <lambda>: `lambda y: ",
        r"in the backward of MulBackward0, made at .*# saved",
    )


def test_an_optimizer_step_counts_as_a_write():
    w = weft.nn.Parameter(weft.ones(3))
    y = (w * w).sum()
    y.backward(retain_graph=True)
    weft.optim.SGD([w], lr=0.1).step()  # the step
    with pytest.raises(RuntimeError, match="overwritten at .*# the step"):
        y.backward()


def test_the_last_write_is_the_one_named():
    x = weft.ones(3, requires_grad=True)
    y = x.exp()
    y.detach().add_(1)  # first
    y.detach().add_(1)  # second
    with pytest.raises(RuntimeError, match="overwritten at .*# second"):
        y.sum().backward()


# ---- a refused write changes nothing


REFUSED = {
    "shape": lambda y: y.add_(weft.ones(2, 3)),
    "broadcast": lambda y: y.mul_(weft.ones(4)),
    "index": lambda y: y.__setitem__(7, 1.0),
    "expanded": lambda y: y[:1].expand(3).add_(1),
    "value": lambda y: y.__setitem__(slice(None), weft.ones(5)),
    "copy": lambda y: y.copy_(weft.ones(2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_write_leaves_everything_as_it_was(name):
    x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    z = (y * y).sum()
    node, version, values = y.grad_fn, y._version, y.tolist()
    with pytest.raises((RuntimeError, IndexError)):
        REFUSED[name](y)
    assert (y.grad_fn, y._version, y.tolist()) == (node, version, values)
    z.backward()
    assert x.grad.tolist() == [4.0, 32.0, 108.0]


def test_a_hundred_thousand_writes_on_one_tensor(balance):
    x = weft.ones(2, requires_grad=True)
    y = x * 1
    for _ in range(100_000):
        y.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
    del y
    x.grad = None
    assert balance() == x.nbytes
