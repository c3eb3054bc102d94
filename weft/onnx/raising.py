"""What raises in some runs and not in others, where an `except` would catch it.

Note [Handlers]
A graph raises nothing that it could catch: of a try its body is written, and no handler. So within
the body of one with handlers each call is made on other examples than those that are written: free
sizes of 0, 1 and others, tensors full of one value, numbers at bounds. Where one of these raises
what a handler catches, the line is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import weft
from weft.onnx.examples import changed, stretched
from weft.onnx.program import Kinds
from weft.onnx.values import Held

Pair = tuple[int, int]
Other = Callable[[Held], Any]

_SIZES = (0, 1, 2, 3, 5, 7)
_FLOATS = (0.0, -1.0, math.nan, math.inf, 1e308)


def raised(
    function: Callable[..., Any],
    args: Sequence[Any],
    words: dict[str, Any],
    kinds: Kinds,
    free: set[Pair],
) -> BaseException | None:
    """What a call raises of these kinds on other examples.

    Args:
        free: the two examples of each free size of the inputs: numbers that have these are sizes,
            and not negative.
    """
    for other in _others([*args, *words.values()], free):
        try:
            given = [changed(v, other) for v in args]
            with weft.no_grad(), weft.random.fork_rng():
                function(*given, **{w: changed(v, other) for w, v in words.items()})
        except kinds as error:
            return error
        except Exception:  # noqa: S112 - what no handler catches is as without a try
            continue
    return None


def _others(given: Sequence[Any], free: set[Pair]) -> Iterator[Other]:
    """Ways to take other examples."""
    found: dict[int, Held] = {}
    changed(list(given), lambda v: found.setdefault(id(v), v) and 1)
    leaves = list(found.values())
    dims = dict.fromkeys(p for v in leaves for p in _pairs(v, free))
    pairs = {p: k for k, p in enumerate(dims)}
    largest = max((n for v in leaves if not v.is_number for n in v.examples[0].shape), default=0)
    for apart in (0, 1) if len(pairs) > 1 else (0,):  # sizes that are unlike are independent
        for size in _SIZES if pairs else ():
            sizes = {p: size + apart * k for p, k in pairs.items()}

            def sized(v: Held, sizes: dict[Pair, int] = sizes) -> Any:
                if v.is_number:
                    return sizes[p] if (p := _pair(v)) in _pairs(v, free) else v.examples[0]
                shape = zip(v.examples[0].shape, v.examples[1].shape)
                return stretched(
                    v.examples[0], {d: sizes[p] for d, p in enumerate(shape) if p in sizes}
                )

            yield sized
    numbers = [v for v in leaves if v.is_number and not _pairs(v, free)]
    for value in (0, 1, -1, 2, largest + 8):

        def filled(v: Held, value: int = value) -> Any:
            first = v.examples[0]
            if v.is_number:
                return first
            return weft.full_like(first, max(value, 0) if _is_unsigned(first) else value)

        yield filled
    yield (
        lambda v: (
            weft.full_like(v.examples[0], math.nan)
            if not v.is_number and v.examples[0].is_floating_point()
            else v.examples[0]
        )
    )
    for values in _numbers(numbers, largest + 8):
        yield lambda v, values=values: values.get(id(v), v.examples[0])  # type: ignore[misc]


def _numbers(numbers: Sequence[Held], largest: int) -> Iterator[dict[int, Any]]:
    """Values for numbers: one after the other for each, and for all at once."""
    ints, floats = (0, 1, -1, 2, largest), _FLOATS
    for own in (*([n] for n in numbers), numbers):
        for k in range(len(ints)):
            yield {id(n): type(n.examples[0])((floats if _is_float(n) else ints)[k]) for n in own}


def _is_float(n: Held) -> bool:
    return isinstance(n.examples[0], float)


def _is_unsigned(t: weft.Tensor) -> bool:
    return t.dtype in (weft.bool, weft.uint8)


def _pair(v: Held) -> Any:
    return tuple(v.examples)


def _pairs(v: Held, free: set[Pair]) -> list[Pair]:
    """The free sizes of a tensor, or the one that a number is."""
    if v.is_number:
        is_size = type(v.examples[0]) is int and _pair(v) in free
        return [_pair(v)] if is_size else []
    return [p for p in zip(v.examples[0].shape, v.examples[1].shape) if p[0] != p[1]]
