"""Pooling over windows of random places: `weft.nn.functional.fractional_max_pool2d` and `3d`.

Graham, "Fractional max-pooling", 2014. The same seed gives PyTorch's windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import weft
from weft import _C, Tensor
from weft.base.forms import doc_of as _doc_of

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]  # fmt: skip

Sizes = int | Sequence[int]


def _each(who: str, name: str, value: Any, dims: int) -> list[Any]:
    out = [value] * dims if isinstance(value, Number) else list(value)
    if len(out) != dims:
        raise RuntimeError(
            f"[{who}] expected {name} to be one number or {dims} ({name} must either be a single "
            f"int, or a tuple of {dims} ints), got {value}"
        )
    return out


def _places(sample: Tensor, size: int, out: int, kernel: int) -> Tensor:
    """The input indices of each window, [..., out, kernel], for random numbers [...] in [0, 1).

    Windows begin floor((i + u) a) - floor(u a) for a step a that the last one, at the end, fits.
    """
    starts = weft.full((*sample.shape, 1), size - kernel, dtype=weft.int64, device=sample.device)
    if out > 1:
        u, step = sample.unsqueeze(-1), (size - kernel) / (out - 1)
        line = weft.arange(out - 1, dtype=sample.dtype, device=sample.device)
        first = ((line + u) * step).to(weft.int64) - (u * step).to(weft.int64)
        starts = weft.cat([first, starts], -1)
    return starts.unsqueeze(-1) + weft.arange(kernel, device=sample.device)


def _maxima(
    who: str, input: Tensor, kernel: list[int], out: list[int], samples: Tensor
) -> tuple[Tensor, Tensor]:
    dims = len(kernel)
    if input.dim() not in (dims + 1, dims + 2) or 0 in input.shape[-dims:]:
        raise RuntimeError(
            f"[{who}] expected {dims + 1} or {dims + 2} dimensions (Expected {dims + 1}D or "
            f"{dims + 2}D tensor with non-zero size), got {tuple(input.shape)}"
        )
    sizes = input.shape[-dims:]
    for size, k, n in zip(sizes, kernel, out, strict=True):
        if n + k - 1 > size:
            raise RuntimeError(
                f"[{who}] expected output + kernel - 1 <= input, got output {n}, kernel {k} and "
                f"input {size} (pool size too large relative to input size)"
            )
    lead = input.shape[:-dims]
    per_plane = samples if len(lead) == 2 else samples[0]
    if tuple(per_plane.shape) != (*lead, dims) or samples.dtype != input.dtype:
        raise RuntimeError(
            f"[{who}] expected {dims} random numbers of {input.dtype} for each plane of "
            f"{tuple(input.shape)}, got {tuple(samples.shape)} of {samples.dtype}"
        )
    flat = weft.zeros((), dtype=weft.int64)
    for d in range(dims):
        # PyTorch's numbers: width first and height second, but depth, height, width
        number = per_plane[..., dims - 1 - d if dims == 2 else d]
        at = _places(number, sizes[d], out[d], kernel[d])
        spread = [1] * (2 * dims)
        spread[d], spread[dims + d] = out[d], kernel[d]
        flat = flat * sizes[d] + at.reshape(*lead, *spread)
    windows = flat.reshape(*lead, weft.Size(out).numel(), weft.Size(kernel).numel())
    plane = input.flatten(-dims)
    with weft.no_grad():
        values = plane.detach().gather(-1, windows.flatten(-2)).reshape(windows.shape)
        best = values.max(-1)[1].unsqueeze(-1)
        index = windows.gather(-1, best).squeeze(-1)
    shape = (*lead, *out)
    return _C.ops._relaid(plane.gather(-1, index), shape), _C.ops._relaid(index, shape)


def _fractional(dims: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    who = f"fractional_max_pool{dims}d"

    def with_indices(
        input: Tensor,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The largest values of the windows, and their flat indices (int64) in their planes.

        Shapes and arguments are those of the function without indices.
        """
        kernel = _each(who, "kernel_size", kernel_size, dims)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"[{who}] expected an output_size or an output_ratio, got neither ({who} requires "
                "specifying either an output_size or an output_ratio)"
            )
        if output_size is not None:
            out = _each(who, "output_size", output_size, dims)
        else:
            ratios = _each(who, "output_ratio", output_ratio, dims)
            pairs = zip(input.shape[-dims:], ratios, strict=True)
            out = [int(n * ratio) for n, ratio in pairs]
        if _random_samples is None:
            batch = 1 if input.dim() == dims + 1 else input.shape[0]
            channels = input.shape[-dims - 1] if input.dim() > dims else 1
            _random_samples = weft.rand(
                batch, channels, dims, dtype=input.dtype, device=input.device
            )
        return _maxima(who, input, kernel, out, _random_samples)

    def pool(
        input: Tensor,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        """The largest values of windows that lie at random places and cover the input.

        Args:
            input: `(batch, channels, *sizes)` or `(channels, *sizes)`.
            kernel_size: of the windows.
            output_size: how many there are along each dimension.
            output_ratio: the same, as a part of the input's size.
            return_indices: give the flat index of each value in its plane too.

        Raises:
            ValueError: neither size nor ratio.
            RuntimeError: windows that do not fit.
        """
        found = with_indices(
            input, kernel_size, output_size, output_ratio, return_indices, _random_samples
        )
        return found if return_indices else found[0]

    pool.__name__ = pool.__qualname__ = who
    with_indices.__name__ = with_indices.__qualname__ = who + "_with_indices"
    sizes = "4, " * (dims - 1)
    for function, part in ((pool, ""), (with_indices, "[1]")):
        call = f"weft.nn.functional.{function.__name__}(x, 2, output_size=3){part}.shape"
        function.__doc__ = (
            f"{_doc_of(function)}\n\n>>> x = weft.ones(1, {sizes}4)\n>>> {call}\n"
            f"torch.Size([1, {'3, ' * (dims - 1)}3])\n"
        )
    return pool, with_indices


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional(3)
