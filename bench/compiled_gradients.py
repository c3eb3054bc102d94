"""Gradients of compiled segments beside the same calls one by one: one thread, minima of
processor time.

    .venv/bin/python bench/compiled_gradients.py
"""

import time
from collections.abc import Callable
from typing import Any

import weft
from weft import _C
from weft.nn import functional as F

Run = Callable[..., Any]


def leaf(*sizes: int) -> Any:
    return weft.randn(*sizes).mul_(0.1).requires_grad_()


def planned(f: Run) -> Run:
    """f by a plan for each layout of its first argument, which all others follow here."""
    plans: dict[Any, Any] = {}

    def run(*tensors: Any) -> Any:
        key = tensors[0].stride()
        if key not in plans:
            plans[key] = _C._trace(f, tensors, True, True)
        results = plans[key].run(*tensors)
        return results if len(results) > 1 else results[0]

    return run


def cell(h_l: Any, h_r: Any, c_l: Any, c_r: Any, w: Any, b: Any) -> Any:
    i, f_l, f_r, o, u = F.linear(weft.cat([h_l, h_r], 1), w, b).chunk(5, 1)
    c = weft.sigmoid(i) * weft.tanh(u) + weft.sigmoid(f_l) * c_l + weft.sigmoid(f_r) * c_r
    return weft.sigmoid(o) * weft.tanh(c), c


def tree(width: int) -> tuple[Run, Callable[[Run], None]]:
    """31 cells of a balanced tree, and back."""
    w, b = leaf(5 * width, 2 * width), leaf(5 * width)
    leaves = [(leaf(1, width), leaf(1, width)) for _ in range(32)]

    def step(f: Run) -> None:
        level = leaves
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=True)
            level = [f(h_l, h_r, c_l, c_r, w, b) for (h_l, c_l), (h_r, c_r) in pairs]
        level[0][0].sum().backward()
        for t in (w, b, *(t for pair in leaves for t in pair)):
            t.grad = None

    return cell, step


def chain(x: Any, y: Any) -> Any:
    a = weft.tanh(x * y + x)
    b = weft.sigmoid(a - y) * 0.5
    return weft.exp(b) * a + b


def gelu(x: Any, _: Any) -> Any:
    return 0.5 * x * (1 + weft.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def pointwise(f: Run, n: int) -> tuple[Run, Callable[[Run], None]]:
    x, y, grad = leaf(n), leaf(n), weft.ones(n)

    def step(f: Run) -> None:
        weft.autograd.grad(f(x, y), (x, y), grad, allow_unused=True)

    return f, step


def mlp() -> tuple[Run, Callable[[Run], None]]:
    inputs = [weft.randn(32, 64), leaf(64, 64), leaf(64), leaf(64, 64), leaf(64)]

    def f(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
        return F.linear(weft.relu(F.linear(x, w, b)), v, c)

    def step(f: Run) -> None:
        f(*inputs).sum().backward()
        for t in inputs:
            t.grad = None

    return f, step


ROWS = {
    "Tree-LSTM, 31 cells of 16": lambda: tree(16),
    "Tree-LSTM, 31 cells of 128": lambda: tree(128),
    "8 pointwise calls, 30 000": lambda: pointwise(chain, 30_000),
    "8 pointwise calls, 1 000 000": lambda: pointwise(chain, 1_000_000),
    "GELU's formula, 1 000 000": lambda: pointwise(gelu, 1_000_000),
    "MLP 64-64-64, 32 rows": mlp,
}


def best(step: Callable[[], None]) -> float:
    start = time.process_time()
    step()
    count = max(1, int(0.003 / max(time.process_time() - start, 1e-6)))
    start = time.process_time()
    for _ in range(count):
        step()
    return (time.process_time() - start) / count * 1e6


def main() -> None:
    weft.set_num_threads(1)
    print(f"{'forward and backward':32}{'eager':>12}{'plan':>12}   microseconds")
    for name, make in ROWS.items():
        f, step = make()
        ways = [f, planned(f)]
        for way in ways:
            step(way)
        times = [[best(lambda: step(way)) for way in ways] for _ in range(100)]  # noqa: B023
        eager, plan = (min(column) for column in zip(*times, strict=True))
        print(f"{name:32}{eager:12.1f}{plan:12.1f}   {eager / plan:.2f} times as fast")


if __name__ == "__main__":
    main()
