"""Batches cut into parts for devices, and joined again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.base.device import expect_cpu

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _is_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """A list of what each device gets: parts of each tensor along `dim`, all of what is none.

    [n, *] gives a tensor per device, with `dim` 0 [ceil(n / devices), *] or fewer rows.

    Args:
        inputs: tensors, and tuples, lists and dicts of them.
        target_gpus: the devices, of which each has to be the CPU.

    >>> weft.nn.parallel.scatter(weft.ones(2), ["cpu"])
    [tensor([1., 1.])]
    """
    for device in target_gpus:
        expect_cpu(device)
    count = len(target_gpus)

    def parts(value: Any) -> list[Any]:
        if isinstance(value, Tensor):
            return list(value.chunk(count, dim))
        if isinstance(value, (list, tuple)) and len(value):
            columns = zip(*map(parts, value))
            return [type(value)(*c) if _is_tuple(value) else type(value)(c) for c in columns]
        if isinstance(value, Mapping) and len(value):
            kind: Any = type(value)
            return [kind(zip(value, row)) for row in zip(*map(parts, value.values()))]
        return [value] * count

    return parts(inputs)


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """`scatter` of positional and of named arguments, with as many of one as of the other."""
    cut = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(cut), len(named))
    return (
        tuple([*cut, *[()] * (count - len(cut))]),
        tuple([*named, *[{}] * (count - len(named))]),
    )


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """One result of those of the devices: tensors behind one another along `dim`.

    Raises: ValueError for dicts of unlike keys.

    Tensors [n, *], [m, *], ... give [n + m + ..., *] with `dim` 0.

    >>> weft.nn.parallel.gather([weft.ones(1), weft.zeros(1)], "cpu")
    tensor([1., 0.])
    """
    expect_cpu(target_device)

    def join(values: Sequence[Any]) -> Any:
        first = values[0]
        if isinstance(first, Tensor):
            whole = [v.unsqueeze(0) if v.dim() == 0 else v for v in values]
            return weft.cat(whole, dim)
        if first is None:
            return None
        if isinstance(first, Mapping):
            if not all(len(first) == len(v) for v in values):
                raise ValueError("All dicts must have the same number of keys")
            kind: Any = type(first)
            return kind((key, join([v[key] for v in values])) for key in first)
        columns = [join(column) for column in zip(*values)]
        return type(first)(*columns) if _is_tuple(first) else type(first)(columns)

    return join(outputs)
