"""Custom Functions that are wrong, and what is raised inside of right ones."""

import re

import pytest
from cases import Cases
from functions import function, leaf, square

import weft

CASES = Cases()
error = CASES.error


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


@pytest.mark.parametrize(
    ("program", "text"), CASES.errors, ids=lambda p: getattr(p, "__name__", "")
)
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
    assert re.search(r"test_function_errors\.py:\d+, in test_the_site.*# the call", y.grad_fn.site)


def test_an_exception_in_forward_records_nothing():
    def forward(ctx, x):
        raise KeyError("mine")

    x = weft.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        function(weft, forward, None).apply(x)
    assert weft.is_grad_enabled()
