"""Random programs of calls with gradients: shared values, results used further, views, products,
regions outside of the graph."""

import random
from collections.abc import Callable
from typing import Any

import weft
from weft.nn import functional as F

UNARY = "tanh sigmoid exp neg abs relu gelu silu square sin softplus".split()
BINARY = "add sub mul div maximum minimum where".split()
N = 6


def apply(name: str, x: Any, y: Any, w: Any, k: int) -> Any:
    """One call, or a few. Every value is a matrix of N columns."""
    if name in UNARY:
        return getattr(F if hasattr(F, name) else weft, name)(x)
    if name == "where":
        return weft.where(x > y, x, y * 2)
    if name == "div":
        return x / (y.abs() + 1)
    if name in BINARY:
        return getattr(weft, name)(x, y)
    if name == "linear":
        return F.linear(x, w, y.sum(0) if k % 2 else None)
    if name == "mm":
        return x @ (w.t() if k % 2 else w)
    if name == "number":
        return x * (k - 2.5) + 1
    if name == "softmax":
        return x.softmax(-1)
    if name == "norm":
        return F.layer_norm(x, (N,))
    if name == "chunk":
        a, b, c = x.chunk(3, 1)
        return weft.cat([a * b, c, b], 1)
    if name == "row":
        return x[k % x.shape[0]] + y
    if name == "slice":
        return weft.cat([x[:, k % N :], y[:, : k % N]], 1)
    if name == "turn":
        return x.t().reshape(-1, N)
    if name == "mean":
        return x - x.mean(0, keepdim=True)
    if name == "detach":
        return x.detach() * y
    if name == "no_grad":
        with weft.no_grad():
            scale = x.abs().amax()
        return y / (scale + 1)
    if name == "view":
        return x.view(-1, N)
    return x.expand(x.shape[0], N) + x.sum(1, keepdim=True)


NAMES = [
    *UNARY,
    *BINARY,
    *"linear mm number softmax norm chunk row slice turn mean detach no_grad view expand".split(),
]
NAMES += ["linear", "mm", "chunk", "row"]


def program(seed: int, dtype: str = "float32") -> tuple[Callable[..., Any], list[Any]]:
    """A function of tensors, and these: some require grad, the last is a weight."""
    rng = random.Random(seed)
    generator = weft.Generator().manual_seed(seed)
    rows = rng.choice((1, 2, 3, 30))

    def tensor(*sizes: int) -> Any:
        kind = getattr(weft, dtype)
        t = weft.randn(*sizes, generator=generator, dtype=weft.float64).to(kind)
        if rng.random() < 0.2 and len(sizes) == 2:
            t = t.t().contiguous().t()
        return t.requires_grad_(rng.random() < 0.8)

    inputs = [tensor(rows, N) for _ in range(rng.randint(1, 3))]
    inputs.append(tensor(N, N))
    calls = []
    for _ in range(rng.randint(2, 14)):
        calls.append((rng.choice(NAMES), rng.random(), rng.random(), rng.randrange(12)))
    kept = [rng.random() < 0.2 for _ in calls]

    def run(*tensors: Any) -> list[Any]:
        *values, w = tensors
        results = []
        for (name, i, j, k), keep in zip(calls, kept, strict=True):
            # the latest more often, so that programs are deep
            x, y = (values[int(len(values) * max(p, p**0.3))] for p in (i, j))
            values.append(apply(name, x, y, w, k))
            if keep:
                results.append(values[-1])
        return [*results, values[-1]]

    return run, inputs
