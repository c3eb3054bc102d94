"""Pooling: the functions of `weft.nn.functional` about windows.

Inputs are `(batch, channels, *sizes)` or `(channels, *sizes)`, with one to three sizes. An argument
about them is an integer, or one for each.

>>> import weft
>>> import weft.nn.functional as F
>>> F.max_pool1d(weft.tensor([[1.0, 5.0, 2.0, 3.0]]), 2).tolist()
[[5.0, 3.0]]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, TypeVar, cast

import weft
from weft import _C, Tensor
from weft.base.forms import doc_of as _doc_of

F = TypeVar("F", bound=Callable[..., Any])

Ints = int | Sequence[int]

avg_pool1d = _C.avg_pool1d
avg_pool2d = _C.ops.avg_pool2d
avg_pool3d = _C.ops.avg_pool3d


def _named(function: F, name: str, dims: int, example: str) -> F:
    """The function under its name, with an example over four numbers in a row: a call and what
    it gives."""
    function.__name__ = function.__qualname__ = name
    ones = "1, " * (dims - 1)
    text = example.format(name=name, windows=f"({ones}2)" if ones else "2")
    lines = [
        f">>> x = weft.tensor([1.0, 3.0, 2.0, 4.0]).view(1, {ones}4)",
        *f">>> weft.nn.functional.{text}".split("\n"),
    ]
    function.__doc__ = "\n".join([_doc_of(function), "", *lines])
    return function


def _max_pool(dims: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    plain = getattr(_C, f"max_pool{dims}d")
    indexed = getattr(_C.ops, f"max_pool{dims}d_with_indices")

    def max_pool(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """Return the largest value of each window; with `return_indices` also where it lies.

        Args:
            input: `(batch, channels, *sizes)` or `(channels, *sizes)`.
            kernel_size: of the window.
            stride: from window to window; the kernel size if None.
            padding: places of minus infinity on both sides.
            dilation: steps within a window.
            ceil_mode: whether a last window may reach beyond the end.
            return_indices: give the flat index of each value in its plane too.

        Raises:
            RuntimeError: sizes that do not fit.
        """
        run = indexed if return_indices else plain
        return run(input, kernel_size, stride, padding, dilation, ceil_mode)

    def with_indices(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Return the largest value of each window, and its flat index (int64) in its plane.

        Shapes and arguments are those of the function without indices.
        """
        return indexed(input, kernel_size, stride, padding, dilation, ceil_mode)

    name = f"max_pool{dims}d"
    _named(max_pool, name, dims, "{name}(x, {windows}).flatten()\ntensor([3., 4.])")
    _named(
        with_indices, name + "_with_indices", dims,
        "{name}(x, {windows})[1].flatten()\ntensor([1, 3])",
    )  # fmt: skip
    return max_pool, with_indices


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def _sizes(input: Tensor, output_size: Any, dims: int) -> Any:
    """`output_size` with the input's sizes for None."""
    if isinstance(output_size, Tensor):
        output_size = output_size.tolist()
    elif isinstance(output_size, range):
        output_size = list(output_size)
    if not isinstance(output_size, (tuple, list)):
        return output_size
    if len(output_size) != dims and len(output_size) != 1:
        return output_size
    if len(output_size) != dims and output_size[0] is None:
        raise RuntimeError(
            f"[adaptive_pool{dims}d] expected an output_size of {dims} numbers, got {output_size} "
            f"(output_size must be {dims})"
        )
    if dims > 1 and input.dim() <= len(output_size):
        raise ValueError(
            f"[adaptive_pool{dims}d] expected Input dimension should be at least "
            f"{len(output_size) + 1}, got {input.dim()}"
        )
    own = input.shape[-len(output_size) :]
    return [n if wanted is None else wanted for wanted, n in zip(output_size, own, strict=True)]


def _adaptive(dims: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    average = getattr(_C.ops, f"adaptive_avg_pool{dims}d")
    largest = getattr(_C.ops, f"adaptive_max_pool{dims}d")

    def adaptive_avg_pool(input: Tensor, output_size: Any) -> Tensor:
        """Return the means of `output_size` windows that cover the input; None keeps a size.

        `(batch, channels, *sizes)`, the batch optional, gives `(batch, channels, *output_size)`.
        """
        return average(input, _sizes(input, output_size, dims))

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """Return the maxima of `output_size` windows that cover the input; None keeps a size.

        `(batch, channels, *sizes)`, the batch optional, gives `(batch, channels, *output_size)`.
        """
        found = largest(input, _sizes(input, output_size, dims))
        return tuple(found) if return_indices else found[0]

    name = f"adaptive_{{}}_pool{dims}d"
    call = "{name}(x, {windows}).flatten()\ntensor(%s)"
    _named(adaptive_avg_pool, name.format("avg"), dims, call % "[2., 3.]")
    _named(adaptive_max_pool, name.format("max"), dims, call % "[3., 4.]")
    return adaptive_avg_pool, adaptive_max_pool


adaptive_avg_pool1d, adaptive_max_pool1d = _adaptive(1)
adaptive_avg_pool2d, adaptive_max_pool2d = _adaptive(2)
adaptive_avg_pool3d, adaptive_max_pool3d = _adaptive(3)


def _each(value: Ints, dims: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (index(cast(int, value)),) * dims


def _lp_pool(dims: int) -> Callable[..., Tensor]:
    average = avg_pool1d if dims == 1 else getattr(_C.ops, f"avg_pool{dims}d")
    largest = (max_pool1d, max_pool2d, max_pool3d)[dims - 1]

    def lp_pool(
        input: Tensor,
        norm_type: float,
        kernel_size: Ints,
        stride: Ints | None = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        """Return `(sum of x ** norm_type) ** (1 / norm_type)` over each window.

        An infinite norm_type gives the greatest, or the least, of the magnitudes. Shapes are those
        of the average pool: `(batch, channels, *sizes)`, the batch optional.
        """
        if isinstance(norm_type, Tensor) and norm_type.numel() != 1:
            raise RuntimeError(
                f"[lp_pool{dims}d] expected a number as norm_type, got a tensor of shape "
                f"{tuple(norm_type.shape)}"
            )
        if math.isinf(norm_type):
            sign = math.copysign(1.0, norm_type)
            return sign * largest(sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        count = 1
        for k in _each(kernel_size, dims):
            count *= k
        mean = average(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        return (weft.sign(mean) * weft.relu(weft.abs(mean))).mul(count).pow(1.0 / norm_type)

    call = "{name}(x, 2, {windows}).flatten()\ntensor([3.1623, 4.4721])"
    return _named(lp_pool, f"lp_pool{dims}d", dims, call)


lp_pool1d, lp_pool2d, lp_pool3d = _lp_pool(1), _lp_pool(2), _lp_pool(3)


def _unpooled_size(
    input: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    wanted: Sequence[int] | None,
) -> list[int]:
    dims = len(kernel)
    own = input.shape[-dims:]
    sizes = [
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(own, kernel, stride, padding, strict=True)
    ]
    if wanted is None:
        return sizes
    wanted = list(wanted)
    if len(wanted) == dims + 2:
        wanted = wanted[2:]
    if len(wanted) != dims:
        raise ValueError(
            "output_size should be a sequence containing "
            f"{dims} or {dims + 2} elements, but it has a length of '{len(wanted)}'"
        )
    for n, size, s in zip(wanted, sizes, stride, strict=True):
        if not size - s < n < size + s:
            raise ValueError(
                f'invalid output_size "{wanted}" (dim 0 must be between {size - s} and {size + s})'
            )
    return wanted


def _max_unpool(dims: int) -> Callable[..., Tensor]:
    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        """Put the results of max pooling back where they came from, zeros elsewhere.

        Args:
            input: `(batch, channels, *sizes)` or `(channels, *sizes)`.
            indices: of the input's shape, as max pooling returns them.
            kernel_size, stride, padding: of the pooling.
            output_size: the sizes of the result, where several are possible.

        Raises:
            ValueError: an output size that the pooling cannot have had.
            RuntimeError: shapes that differ, or an index out of range.
        """
        kernel = _each(kernel_size, dims)
        steps = kernel if stride is None else _each(stride, dims)
        sizes = _unpooled_size(input, kernel, steps, _each(padding, dims), output_size)
        if indices.dtype is not weft.int64:
            raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
        if input.shape != indices.shape or input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"[max_unpool{dims}d] expected an input of {dims + 1} or {dims + 2} dimensions and "
                f"indices of its shape, got {tuple(input.shape)} and {tuple(indices.shape)}"
            )
        lead = list(input.shape[:-dims])
        count = 1
        for n in sizes:
            count *= n
        places = indices.reshape([*lead, -1])
        if places.numel() and not 0 <= int(places.min()) <= int(places.max()) < count:
            raise RuntimeError(
                f"[max_unpool{dims}d] expected indices in 0 .. {count - 1}, "
                f"got {int(places.min())} .. {int(places.max())} (Found an invalid max index)"
            )
        table = weft.zeros([*lead, count], dtype=input.dtype, device=input.device)
        filled = table.scatter(-1, places, input.reshape([*lead, -1]))
        out: Tensor = _C.ops._relaid(filled, [*lead, *sizes])
        return out

    call = "{name}(x, weft.arange(4).view_as(x), 1).flatten()\ntensor([1., 3., 2., 4.])"
    return _named(max_unpool, f"max_unpool{dims}d", dims, call)


max_unpool1d, max_unpool2d, max_unpool3d = _max_unpool(1), _max_unpool(2), _max_unpool(3)

__all__ = [
    "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_unpool1d", "max_unpool2d", "max_unpool3d", "max_pool1d_with_indices",
    "max_pool2d_with_indices", "max_pool3d_with_indices",
]  # fmt: skip
