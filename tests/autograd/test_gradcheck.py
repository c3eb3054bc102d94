"""gradcheck finds wrong gradients, and passes right ones."""

import pytest

import weft
from weft.autograd import Function, GradcheckError, gradcheck, gradgradcheck


def leaf(*values, dtype=weft.float64):
    return weft.tensor(values, dtype=dtype, requires_grad=True)


def scaled(factor, derivative=3.0):
    """x^3, whose backward is off by `factor`."""

    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x * x * derivative * factor

    return Cube.apply


@pytest.mark.parametrize("fast", [False, True])
def test_right_gradients_pass(fast):
    x, y = leaf(0.5, 1.5, 2.5), leaf(1.0, 2.0, 3.0)
    assert gradcheck(lambda x, y: (x * y).sin(), (x, y), fast_mode=fast)
    assert gradcheck(lambda x, y: (x @ y, x.cumsum(0)), (x, y), fast_mode=fast)
    assert gradcheck(scaled(1.0), x, fast_mode=fast)
    assert gradgradcheck(lambda x, y: (x * y).exp() / y, (x, y), fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("factor", [1.01, 0.0, -1.0])
def test_wrong_gradients_are_found(fast, factor):
    x = leaf(0.5, 1.5)
    with pytest.raises(
        GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"
    ):
        gradcheck(scaled(factor), (x,), fast_mode=fast)
    assert gradcheck(scaled(factor), (x,), fast_mode=fast, raise_exception=False) is False


def test_wrong_in_one_element_only():
    class Off(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            g = grad * 2
            g[1] = g[1] + grad[0] * 1e-2
            return g

    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Off.apply, (leaf(1.0, 2.0, 3.0),))


def test_wrong_second_derivative_is_found():
    class Detached(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * grad * x.detach() * x.detach()

    x = leaf(0.5, 1.5)
    assert gradcheck(Detached.apply, (x,))
    with pytest.raises(GradcheckError):
        gradgradcheck(Detached.apply, (x,))


def test_constant_where_it_is_not():
    x = leaf(1.0, 2.0)
    assert gradcheck(lambda x: weft.ones(2, dtype=weft.float64), (x,))
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, (x,))


def test_not_repeatable_is_found():
    calls = [0]

    class Drifts(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            calls[0] += 1
            return grad * (2 + calls[0] * 1e-9)

    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Drifts.apply, (leaf(1.0),))
    calls[0] = 0
    assert gradcheck(Drifts.apply, (leaf(1.0),), nondet_tol=1e-6)


def test_not_linear_is_found():
    class Offset(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 + (grad.abs().sum() == 0) * 1.0

    with pytest.raises(GradcheckError, match="not multiplied by grad_output"):
        gradcheck(Offset.apply, (leaf(1.0, 2.0),))


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, (weft.ones(2),))
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x, (weft.ones(1, dtype=weft.float64).expand(3).requires_grad_(),))
    with pytest.warns(UserWarning, match="not a double precision"):
        gradcheck(lambda x: x * 1, (leaf(1.0, dtype=weft.float32),), raise_exception=False)
    with pytest.raises(AssertionError, match="requires check_forward_ad to be True"):
        gradcheck(lambda x: x, (leaf(1.0),), check_batched_forward_grad=True)
    with pytest.raises(AssertionError, match="at least one of"):
        gradcheck(lambda x: x, (leaf(1.0),), check_backward_ad=False)


class Halved(weft.autograd.Function):
    """Its backward is right, its jvp is not."""

    @staticmethod
    def forward(ctx, x):
        return x / 2

    @staticmethod
    def backward(ctx, g):
        return g / 2

    @staticmethod
    def jvp(ctx, v):
        return v / 3


def test_forward_mode_is_checked_apart():
    every = {"check_forward_ad": True, "check_batched_grad": True,
             "check_batched_forward_grad": True}  # fmt: skip
    x = leaf(0.3, -2.0)
    assert gradcheck(lambda x: (x.exp() * x.sum(), x[:1] * 2), (x,), **every)
    assert gradgradcheck(lambda x: x**3, (x,), check_fwd_over_rev=True, check_rev_over_rev=False)
    assert gradcheck(Halved.apply, (x,))
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Halved.apply, (x,), check_forward_ad=True, check_backward_ad=False)


def test_inputs_and_random_numbers_are_left_as_they_were():
    x = leaf(0.1, 0.2).reshape(2, 1).t().detach().requires_grad_()
    before, state = x.tolist(), weft.get_rng_state().tolist()
    for fast in (False, True):
        assert gradcheck(lambda x: x * x, (x,), fast_mode=fast)
    assert x.tolist() == before and weft.get_rng_state().tolist() == state and x.grad is None


def test_strided_and_scalar_inputs_and_views():
    x = weft.arange(6, dtype=weft.float64).reshape(2, 3).t().requires_grad_()
    assert gradcheck(lambda x: x * x + 1, (x,))
    assert gradcheck(
        lambda x: x.view(1), (weft.tensor(2.0, dtype=weft.float64, requires_grad=True),)
    )
    assert gradcheck(lambda x, n: x * n, (leaf(1.0), 3))
    assert gradcheck(lambda x: x.sum(), (weft.ones(0, 3, dtype=weft.float64, requires_grad=True),))
    assert gradgradcheck(lambda x: (x * x).t(), (x,), gen_non_contig_grad_outputs=True)
    given = weft.ones(3, dtype=weft.float64, requires_grad=True)
    assert gradgradcheck(lambda x: x**3, (leaf(1.0, 2.0, 3.0),), (given,))
