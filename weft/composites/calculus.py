"""Differences and integrals along a dimension, made of the table's operators.

PyTorch's semantics.
"""

from __future__ import annotations

from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.forms import forms
from weft.composites.axes import wrap

__all__ = ["cumulative_trapezoid", "diff", "gradient", "trapezoid", "trapz"]


@forms(method=True, out=True)
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The n-th difference of neighbours along `dim`, of the input between `prepend` and `append`.

    Size n of `dim` becomes the sum of the three sizes less `n`.

    >>> weft.diff(weft.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if input.dim() == 0:
        raise RuntimeError("[diff] expected at least one dimension, got a 0-d tensor")
    if n < 0:
        raise RuntimeError(f"[diff] expected an order of at least 0, got {n}")
    parts = [t for t in (prepend, input, append) if t is not None]
    if any(t.dim() != input.dim() for t in parts):
        raise RuntimeError(
            f"[diff] expected prepend or append of {input.dim()} dimensions, got another number "
            "(diff expects prepend or append to be the same dimension as input)"
        )
    if n == 0:
        return input.clone()
    if len(parts) > 1:
        input = weft.cat(parts, dim)
    for _ in (None,) * min(n, input.shape[dim]):
        size = input.shape[dim]
        after = input.narrow(dim, 1, size - 1)
        before = input.narrow(dim, 0, size - 1)
        input = after ^ before if input.dtype is _C.bool else after - before
    return input


def _ends(y: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    rest = max(y.shape[dim] - 1, 0)
    return y.narrow(dim, 0, rest), y.narrow(dim, min(y.shape[dim], 1), rest)


def _times(t: Tensor, number: Any) -> Tensor:
    if not (t.is_floating_point() or t.is_complex()):
        t = t.to(weft.get_default_dtype())
    out: Tensor = _C.ops._times(t, number)
    return out


def _check_numbers(who: str, y: Tensor) -> None:
    if y.dtype is _C.bool:
        raise RuntimeError(f"[{who}] expected numbers, got a bool tensor")


def _products(who: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """Twice the area between each two neighbours at the places x."""
    left, right = _ends(y, dim)
    if x.dim() == 1:
        shape = [1] * y.dim()
        shape[dim] = -1
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(
                f"[{who}] expected {y.shape[dim]} places along dim {dim}, got {x.shape[0]}"
            )
        x = x.reshape(shape)
    elif x.dim() < y.dim():
        x = x.reshape([1] * (y.dim() - x.dim()) + list(x.shape))
    before, after = _ends(x, dim)
    product: Tensor = (after - before) * (left + right)
    return product


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integral along `dim` by the trapezoidal rule, over places x or in steps of dx.

    The result has y's shape without `dim`.

    >>> weft.trapezoid(weft.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    dim = wrap("trapezoid", dim, y.dim())
    if y.shape[dim] == 0:
        gone = [n for d, n in enumerate(y.shape) if d != dim]
        return weft.zeros(gone, dtype=y.dtype, device=y.device)
    _check_numbers("trapezoid", y)
    if x is None:
        ends = _times(y.select(dim, 0) + y.select(dim, -1), 0.5)
        return _times(y.sum(dim) - ends, dx)
    return _times(_products("trapezoid", y, x, dim).sum(dim), 0.5)


def trapz(y: Tensor, x: Tensor | None = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """`trapezoid` by its older name.

    The result has y's shape without `dim`.

    >>> weft.trapz(weft.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    return trapezoid(y, x, dx=dx, dim=dim)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = 1, dim: int = -1
) -> Tensor:
    """The running integral along `dim` by the trapezoidal rule, one element shorter.

    >>> weft.cumulative_trapezoid(weft.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    _check_numbers("cumulative_trapezoid", y)
    dim = wrap("cumulative_trapezoid", dim, y.dim())
    if x is None:
        left, right = _ends(y, dim)
        return _times(left + right, dx / 2).cumsum(dim)
    return _times(_products("cumulative_trapezoid", y, x, dim).cumsum(dim), 0.5)


def _slope(y: Tensor, dim: int, places: Any, order: int) -> Tensor:
    """Second order differences inside, at the ends of first or second order."""
    size = y.shape[dim]

    def part(t: Tensor, start: int, count: int) -> Tensor:
        return t.narrow(dim, start, count)

    if isinstance(places, Tensor) and places.dim():
        shape = [1] * y.dim()
        shape[dim] = size - 1
        h = (places[1:] - places[:-1]).reshape(shape)
        a, b = part(h, 0, size - 2), part(h, 1, size - 2)
        first, second = part(h, 0, 1), part(h, size - 2, 1)
    else:
        h = a = b = first = second = places
    left, mid, right = part(y, 0, size - 2), part(y, 1, size - 2), part(y, 2, size - 2)
    inner = (
        (right - left) / (2 * h)
        if h is a
        else -left * b / (a * (a + b)) + mid * (b - a) / (a * b) + right * a / (b * (a + b))
    )
    if order == 1:
        head = (part(y, 1, 1) - part(y, 0, 1)) / first
        tail = (part(y, size - 1, 1) - part(y, size - 2, 1)) / second
    elif h is a:
        head = (-3 * part(y, 0, 1) + 4 * part(y, 1, 1) - part(y, 2, 1)) / (2 * h)
        tail = 3 * part(y, size - 1, 1) - 4 * part(y, size - 2, 1) + part(y, size - 3, 1)
        tail = tail / (2 * h)
    else:
        p, q = part(a, 0, 1), part(b, 0, 1)
        head = (
            -(2 * p + q) / (p * (p + q)) * part(y, 0, 1)
            + (p + q) / (p * q) * part(y, 1, 1)
            - p / (q * (p + q)) * part(y, 2, 1)
        )
        p, q = part(a, size - 3, 1), part(b, size - 3, 1)
        tail = (
            q / (p * (p + q)) * part(y, size - 3, 1)
            - (p + q) / (p * q) * part(y, size - 2, 1)
            + (2 * q + p) / (q * (p + q)) * part(y, size - 1, 1)
        )
    return weft.cat([head, inner, tail], dim)


def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Slopes along each of `dim` (default: all) by central differences.

    `spacing`: one distance, one per dim, or the places along each. At the ends differences of
    `edge_order` 1 or 2.

    As many tensors as dims, of the input's shape.

    >>> weft.gradient(weft.tensor([1.0, 2.0, 4.0]))
    (tensor([1.0000, 1.5000, 2.0000]),)
    """
    rank = input.dim()
    spacing = 1 if spacing is None else spacing
    if isinstance(spacing, Tensor) and spacing.dim():
        raise TypeError(
            "[gradient] expected a number or a list as spacing, got a tensor of shape "
            f"{tuple(spacing.shape)}"
        )
    dims = list(range(rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(f"[gradient] expected dims in [{-rank}, {rank - 1}], got {d}")
    dims = [d % rank for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"[gradient] expected each dim once, got {dims}")
    if edge_order not in (1, 2):
        raise RuntimeError(f"[gradient] expected edge_order 1 or 2, got {edge_order}")
    many = isinstance(spacing, (list, tuple))
    steps = list(spacing) if many else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise RuntimeError(f"[gradient] expected {len(dims)} spacings, got {len(steps)}")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                f"[gradient] expected at least {edge_order + 1} elements along dim {d}, got "
                f"{input.shape[d]}"
            )
    return tuple(_slope(input, d, s, edge_order) for d, s in zip(dims, steps, strict=True))
