"""Examples of values, and which sizes follow from numbers (Note [Examples] in export.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.onnx.values import Held, Repeated


def stretched(tensor: Tensor, sizes: dict[int, int]) -> Tensor:
    """A tensor's rows again and again, or fewer, up to other sizes."""
    tensor = tensor.detach()
    for d, n in sizes.items():
        have = tensor.shape[d]
        if have == n:
            continue
        if have == 0:
            shape = [n if k == d else m for k, m in enumerate(tensor.shape)]
            tensor = weft.ones(shape, dtype=tensor.dtype)
            continue
        tensor = tensor.index_select(d, weft.arange(n) % have)
    return tensor


def cut(tensor: Tensor, sizes: dict[int, int]) -> Tensor:
    """Its first rows, over the same memory where it has as many."""
    for d, n in sizes.items():
        if n <= tensor.shape[d]:
            tensor = tensor.narrow(d, 0, n)
    return stretched(tensor, sizes)


def numbers_in(v: Any) -> Iterator[Held]:
    """The integers in a value that only a run knows."""
    if isinstance(v, Held):
        if v.is_number and type(v.examples[0]) is int:
            yield v
    elif isinstance(v, (list, tuple)):
        for item in v:
            yield from numbers_in(item)
    elif isinstance(v, slice):
        yield from numbers_in((v.start, v.stop, v.step))
    elif isinstance(v, Repeated):
        yield from numbers_in((v.item, v.count))


def changed(v: Any, change: Callable[[Held], Any]) -> Any:
    """A value with examples in the place of what only a run knows: `change` gives each."""
    if isinstance(v, Held):
        return change(v)
    if isinstance(v, (list, tuple)):
        return type(v)(changed(item, change) for item in v)
    if isinstance(v, slice):
        return slice(*(changed(part, change) for part in (v.start, v.stop, v.step)))
    if isinstance(v, Repeated):
        return [changed(v.item, change)] * changed(v.count, change)
    return v


def next_number(v: Held) -> Any:
    """The first example of a tensor; of an integer, the one before it, of none the one after."""
    first = v.examples[0]
    return first + (-1 if first > 0 else 1) if v.is_number and type(first) is int else first


def unlike(first: Tensor, fewer: Tensor) -> list[int]:
    """The dimensions in which two results differ."""
    if not isinstance(fewer, Tensor) or fewer.dim() != first.dim():
        return []
    return [d for d, (m, n) in enumerate(zip(first.shape, fewer.shape)) if m != n]


def grown(first: Tensor, second: Tensor, dims: Sequence[int]) -> Tensor:
    """A second example of a result whose sizes in `dims` only a run knows: unlike the first there,
    and not empty, whatever it holds."""
    sizes = [_more(m) if d in dims and n in (0, m) else n
             for d, (m, n) in enumerate(zip(first.shape, second.shape))]  # fmt: skip
    return second if sizes == list(second.shape) else _laid_out(sizes, first)


def _laid_out(sizes: Sequence[int], like: Tensor) -> Tensor:
    """Zeros of other sizes that lie in their memory as `like` does: with the order of its
    dimensions, and with gaps where it has some."""
    strides, step, dense = [0] * len(sizes), 1, 1
    for d in sorted(range(len(sizes)), key=lambda d: (like.stride()[d], -d)):
        size, stride = like.shape[d], like.stride()[d]
        if stride == 0:
            continue
        if stride != dense and (size != 1 or sizes[d] != 1):
            step *= 2
        strides[d] = step
        step, dense = step * max(sizes[d], 1), stride * max(size, 1)
    return weft.zeros(step, dtype=like.dtype).as_strided(sizes, strides)


def with_ones(first: Tensor, second: Tensor, dims: Sequence[int]) -> Tensor:
    """A second example that has the size 1 in those of `dims` where the first has it."""
    return cut(second, {d: 1 for d in dims if first.shape[d] == 1})


def shrunk(first: Any, second: Any) -> Any:
    """A second example in which what `grown` made more is as in the first: it has to be the size of
    something else."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        pairs = zip(first.shape, second.shape)
        dims = {d: m for d, (m, n) in enumerate(pairs) if m != n and n == _more(m)}
        return cut(second, dims)
    if isinstance(first, (list, tuple)):
        return type(first)(shrunk(a, b) for a, b in zip(first, second))
    if isinstance(first, slice):
        parts = [(first.start, second.start), (first.stop, second.stop), (first.step, second.step)]
        return slice(*(shrunk(a, b) for a, b in parts))
    return first if type(first) is int and second == _more(first) else second


def _more(size: int) -> int:
    """A size that is no second one of a free size or number, so that it can be told; what divides
    the first divides it, so that a view of the one fits the other."""
    return 5 * size or 5
