"""Whether tensors are equal, near, alike, or among others. PyTorch's semantics."""

from __future__ import annotations

import weft
from weft import _C
from weft._C import Tensor
from weft.base.checks import also_named
from weft.base.forms import expect, forms, method

__all__ = ["allclose", "equal", "is_nonzero", "is_same_size", "isin"]


@method
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all values are equal.

    >>> weft.equal(weft.ones(2), weft.ones(2))
    True
    """
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        raise TypeError(f"[equal] expected two tensors, got {type(other).__name__}")
    return input.shape == other.shape and bool((input == other).all())


@method
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether |input - other| <= atol + rtol * |other| everywhere, with broadcasting.

    Args:
        input, other: shapes that broadcast, one dtype.
        rtol, atol: relative to other, and absolute.
        equal_nan: whether a NaN is close to another.

    >>> weft.allclose(weft.tensor([1., 2.]), weft.tensor([1., 2.00001]))
    True
    """
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        raise TypeError(f"[allclose] expected two tensors, got {type(other).__name__}")
    return bool(weft.isclose(input, other, rtol, atol, equal_nan).all())


@forms(out=True)
@also_named(element="elements", test_element="test_elements")
def isin(
    elements: Tensor | complex,
    test_elements: Tensor | complex,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:
    """Which elements are among `test_elements`, as bools; `invert`: which are not.

    >>> weft.isin(weft.tensor([1, 2, 3]), weft.tensor([2, 5]))
    tensor([False,  True, False])
    """
    a = elements if isinstance(elements, Tensor) else weft.tensor(elements)
    b = test_elements if isinstance(test_elements, Tensor) else weft.tensor(test_elements)
    kind = weft.result_type(a, b)
    a, b = a.detach().to(kind), b.detach().to(kind).reshape(-1).sort().values
    if not b.numel():
        found = weft.zeros(a.shape, dtype=_C.bool, device=a.device)
    else:
        found = b[weft.searchsorted(b, a.contiguous()).clamp(max=b.numel() - 1)] == a
    return ~found if invert else found


@method
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not zero.

    RuntimeError for a tensor with more or no elements.

    >>> weft.is_nonzero(weft.tensor([2.0]))
    True
    """
    expect("is_nonzero", input, Tensor, "a Tensor")
    return bool(input)


@method
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal.

    >>> weft.is_same_size(weft.ones(2), weft.ones(3))
    False
    """
    expect("is_same_size", input, Tensor, "a Tensor")
    return input.shape == other.shape


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same memory, sizes and strides.

    >>> t = weft.ones(2)
    >>> t.is_set_to(t.view(2)), t.is_set_to(t.clone())
    (True, False)
    """
    return (
        self.data_ptr() == tensor.data_ptr()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )
