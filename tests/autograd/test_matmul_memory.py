"""A product of more than two dims is one piece of memory, written by its product alone."""

import pytest

import weft


@pytest.mark.parametrize("b", [(4, 5), (4,), (2, 4, 5)])
def test_a_product_may_be_written_in_place(b):
    x = weft.randn(2, 3, 4, dtype=weft.float64, requires_grad=True)
    w = weft.randn(*b, dtype=weft.float64, requires_grad=True)
    out = x @ w
    assert out._base is None and out.grad_fn.name() == "UnsafeViewBackward0"
    assert out.is_contiguous() and out.untyped_storage().nbytes() == 8 * out.numel()
    plain = weft.autograd.grad((out.exp() ** 2).sum(), [x, w])
    changed = (x @ w).exp_()
    for ours, theirs in zip(weft.autograd.grad((changed**2).sum(), [x, w]), plain, strict=True):
        weft.testing.assert_close(ours, theirs)


def test_empty_products():
    assert (weft.ones(2, 0, 3) @ weft.ones(3, 4)).shape == (2, 0, 4)
    assert (weft.ones(0, 2, 3) @ weft.ones(0, 3, 4)).shape == (0, 2, 4)
    weft.testing.assert_close(weft.ones(2, 2, 0) @ weft.ones(0, 4), weft.zeros(2, 2, 4))
