"""Random programs of pointwise calls, over tensors that broadcast, in many layouts and dtypes."""

import random
from collections.abc import Callable
from typing import Any

import weft

UNARY = "tanh sigmoid exp neg abs sqrt rsqrt relu gelu silu square sin log1p erf logical_not isnan"
BINARY = "add sub mul div maximum minimum pow atan2 hypot lt eq logical_and floor_divide"
SIZES = ((), (1,), (3,), (5,), (0,), (7, 3), (64,), (300,), (2, 1, 700), (33, 130), (5, 4, 3, 2, 2))
DTYPES = ("float32", "float32", "float32", "float64", "int64", "bool", "float16", "complex64")


def operand(rng: random.Random, shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """A tensor that broadcasts to `shape`, in one of many layouts."""
    sizes = [n if rng.random() < 0.8 else 1 for n in shape]
    while sizes and rng.random() < 0.1:
        sizes = sizes[1:]
    generator = weft.Generator().manual_seed(seed)
    numbers = weft.randn([2 * n for n in sizes], generator=generator, dtype=weft.float64) * 2
    if dtype == "bool":
        wide = numbers > 0
    elif dtype == "complex64":
        wide = weft.complex(numbers, numbers.neg()).to(weft.complex64)
    else:
        wide = numbers.to(getattr(weft, dtype))
    how = rng.choice(("dense", "dense", "strided", "transposed", "flipped", "expanded"))
    halves = wide[tuple(slice(0, n) for n in sizes)] if sizes else wide
    if how == "strided":
        return wide[tuple(slice(0, 2 * n, 2) for n in sizes)] if sizes else wide
    if how == "transposed":
        turned = list(reversed(range(len(sizes))))
        return halves.permute(turned).contiguous().permute(turned)
    if how == "flipped" and sizes:
        return halves.flip(0)
    if how == "expanded":
        return halves.contiguous().expand(shape)
    return halves.contiguous()


def program(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """A function of tensors, and these. Calls that fail in its first run are left out later on."""
    rng = random.Random(seed)
    shape = rng.choice(SIZES)
    dtypes = DTYPES if rng.random() < 0.4 else ("float32",)
    inputs = [
        operand(rng, shape, rng.choice(dtypes), 97 * seed + i) for i in range(rng.randint(1, 4))
    ]
    calls: list[tuple[Any, ...]] = []
    for _ in range(rng.randint(1, 14)):
        kind = rng.random()
        places = tuple(rng.randrange(1000) for _ in range(3))
        if kind < 0.35:
            calls.append((rng.choice(UNARY.split()), places[:1]))
        elif kind < 0.7:
            calls.append((rng.choice(BINARY.split()), places[:2]))
        elif kind < 0.8:
            calls.append(("number", places[:1], rng.choice((2.5, 3, -1, 0.5, True))))
        elif kind < 0.87:
            calls.append(("where", places))
        elif kind < 0.93:
            calls.append(("addcmul", places))
        else:
            calls.append((rng.choice(("sum", "T", "half", "row")), places[:1]))
    kept = [rng.random() < 0.25 for _ in calls]
    fails: list[bool] = []

    def run(*tensors: Any) -> list[Any]:
        values, results = list(tensors), []
        for i, (keep, (name, places, *rest)) in enumerate(zip(kept, calls)):
            given = [values[p % len(values)] for p in places]
            if i == len(fails):
                try:
                    call(name, given, rest)
                    fails.append(False)
                except (RuntimeError, NotImplementedError, TypeError, IndexError):
                    fails.append(True)
            if fails[i]:
                continue
            values.append(call(name, given, rest))
            if keep:
                results.append(values[-1])
        return [*results, values[-1]] if len(values) > len(tensors) else [values[0].clone()]

    return run, inputs


def call(name: str, given: list[Any], rest: list[Any]) -> Any:
    x = given[0]
    if name == "number":
        return x * rest[0] + rest[0]
    if name == "where":
        return weft.where(given[0] > 0 if not given[0].is_complex() else given[0] == 0, *given[1:])
    if name == "T":
        return x.transpose(0, -1)
    if name == "half":
        return x[: (x.shape[0] + 1) // 2]
    if name == "row":
        return x[-1]
    if name == "sum":
        return x.sum(-1, keepdim=True)
    return getattr(weft, name)(*given)
