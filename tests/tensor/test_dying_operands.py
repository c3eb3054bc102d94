"""Memory of operands that die with a call is written over, and of no others.

Each case of KEPT once could have been taken for a dying operand: its only reference is held by C
code that uses it again.
"""

import functools
import itertools
import operator
import sys
import weakref

import numpy as np
import pytest

import weft

N = 1 << 19
reuses = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or sys.implementation.name != "cpython",
    reason="only CPython 3.11's frames are known",
)


def fresh():
    return weft.arange(N, dtype=weft.float32) / N + 0.5


def pieces(call):
    """Large pieces of memory that were alive at once in the call, over what was before."""
    weft._C._reset_peak_memory()
    before = weft._C._memory_stats()["current"]
    call()
    return (weft._C._memory_stats()["peak"] - before) // (4 * N)


a, b = fresh(), fresh() * 2


@reuses
@pytest.mark.parametrize(
    "call, most",
    [
        (lambda: (a * b).exp(), 1),
        (lambda: weft.exp(a * b), 1),
        (lambda: (a * b) + a, 1),
        (lambda: a - (a * b), 1),
        (lambda: 2 - (a * b) * 0.5, 1),
        (lambda: weft.sigmoid(weft.tanh(a + b) * b), 1),
        (lambda: (a * b) * (a + b), 2),
        (lambda: (a * b)[1:] * 2, 2),
        (lambda: (a * b).double(), 3),
    ],
)
def test_chains_work_in_one_piece_of_memory(call, most):
    assert pieces(call) == most


def kept_partial(t):
    f = functools.partial(operator.mul, t())
    return [f(2.0), f(2.0)]


def kept_partial_of_method(t):
    f = functools.partial(t().tanh)
    return [f(), f()]


def kept_bound_method(t):
    f = t().tanh
    return [f(), f()]


def kept_slot_wrapper(t):
    f = t().__mul__
    return [f(2.0), f(2.0)]


def kept_class_attribute(t):
    class Delegates:
        __rmul__ = t().__mul__

    return [2.0 * Delegates(), 2.0 * Delegates()]


def kept_object_array(t):
    held = np.empty(1, dtype=object)
    held[0] = t() * 2.0
    return [(held * 2.0)[0], (held * 2.0)[0], (-held)[0], (-held)[0]][:2]


def kept_list_map(t):
    held = [t()]
    return [*map(weft.tanh, held), *map(weft.tanh, held)]


def kept_attribute(t):
    class Holder:
        pass

    h = Holder()
    h.t = t()
    return [h.t * 2, h.t * 2]


def kept_view(t):
    v = (whole := [t()])[0][:]
    return [whole.pop() * 2, v * 2]


def kept_base_of_view(t):
    held = t()
    return [held[:] * 2, held * 2]


def kept_detached(t):
    held = t()
    return [held.detach() * 2, held * 2]


def kept_numpy(t):
    array = (held := [t()])[0].numpy()
    return [held.pop() * 2, weft.from_numpy(array) * 2]


def kept_weakref(t):
    held = [t()]
    ref = weakref.ref(held[0])
    seen = weakref.proxy(held[0])
    return [seen * 2, ref() * 2]


def kept_default_argument(t):
    def f(x=t()):  # noqa: B008
        return x * 2

    return [f(), f()]


def kept_walrus(t):
    return [(x := t()) * 2, x * 2]


def kept_star(t):
    args = (t(),)
    return [weft.tanh(*args), weft.tanh(*args)]


def kept_cell(t):
    x = t()

    def f():
        return x * 2

    return [f(), f()]


KEPT = [f for name, f in list(globals().items()) if name.startswith("kept_")]


@pytest.mark.parametrize("case", KEPT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("grad", [True, False])
def test_what_is_used_again_is_kept(case, grad):
    with weft.set_grad_enabled(grad):
        first, second = case(fresh)
    np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_accumulate_and_reduce():
    parts = [fresh() for _ in range(4)]
    want = [p.numpy() for p in (parts[0], parts[0] * 2, parts[0] * 3, parts[0] * 4)]
    for got, expected in zip(itertools.accumulate(iter(parts)), want):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)
    total = functools.reduce(operator.add, (p * 1 for p in parts))
    np.testing.assert_allclose(total.numpy(), want[3], rtol=1e-6)
    np.testing.assert_allclose(sum(p * 1 for p in parts).numpy(), want[3], rtol=1e-6)


def test_what_gradients_need_is_kept():
    w = fresh().requires_grad_()
    y = (a * b) * w  # the product is saved for w
    y = (y.exp() * 2).tanh()
    y.sum().backward()
    e = np.exp((a.double() * b.double() * w.detach().double()).numpy())
    want = 2 * e * (1 - np.tanh(2 * e) ** 2) * (a.double() * b.double()).numpy()
    np.testing.assert_allclose(w.grad.numpy(), want, rtol=1e-3, atol=1e-5)


def test_same_operand_twice_and_other_dtypes():
    with weft.no_grad():
        x = a * b
        np.testing.assert_array_equal(((a * b) + (a * b)).numpy(), (x + x).numpy())
        assert ((a * b) > a).dtype == weft.bool
        assert ((a * b) + a.double()).dtype == weft.float64
        assert (weft.ones(N, dtype=weft.int64) * 2 / 3).dtype == weft.float32
        wide = (a * b) + weft.ones(2, N)
        assert wide.shape == (2, N)
        assert ((a * b).bfloat16() * 2).dtype == weft.bfloat16
