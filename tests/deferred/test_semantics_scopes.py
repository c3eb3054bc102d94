"""Programs over what belongs to an example: modes, contexts, random numbers, errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from semantics import CALLER, KIND, Programs, check

import weft
from weft import nn
from weft.nn import functional as F

PROGRAMS = Programs()
program = PROGRAMS.add


# ---- what belongs to an example


@program
def modes(c: Any, x: Any) -> Any:
    with [weft.no_grad, weft.enable_grad, weft.inference_mode][c.k % 3]():
        y = c.w.linear(x)
        y.sum().item()
        z = y * 2
        c.log += [z.requires_grad, weft.is_grad_enabled(), weft.is_inference_mode_enabled()]
    return x * 2


@program
def default_dtype(c: Any, x: Any) -> Any:
    was = weft.get_default_dtype()
    weft.set_default_dtype([weft.float32, weft.float64][c.k % 2])
    (weft.ones(2) * x.sum()).sum().item()
    y = weft.ones(3) / 3
    weft.set_default_dtype(was)
    return y, weft.ones(1) / 3


@program
def context_variables(c: Any, x: Any) -> Any:
    c.log.append(CALLER.get())
    token = CALLER.set(f"example {c.k}")
    x.sum().item()
    c.log.append(CALLER.get())
    CALLER.reset(token)
    return CALLER.get()


@program
def event_loops(c: Any, x: Any) -> Any:
    async def row(r: Any) -> Any:
        await asyncio.sleep(0)
        return r * 2 if r.sum() > 0 else r

    async def rows() -> Any:
        return await asyncio.gather(*[row(r) for r in x * 2])

    return asyncio.run(rows())


@program
def a_thread_inside(c: Any, x: Any) -> Any:
    y = x.detach() * 2
    y.sum().item()
    thread = threading.Thread(target=lambda: c.log.append((y * 3).sum().item()))
    thread.start()
    thread.join()


# ---- random numbers


@program
def seeds(c: Any, x: Any) -> Any:
    weft.manual_seed(c.k)
    y = weft.randn(4) * 2
    bool(x.sum() > 0)
    state = weft.get_rng_state()
    a = weft.rand(2)
    weft.set_rng_state(state)
    with weft.random.fork_rng():
        weft.manual_seed(3)
        (weft.rand(2).sum() * x.sum()).item()
    return y, a, weft.rand(2), nn.Linear(2, 2).weight.detach() * 1


@program
def generators(c: Any, x: Any) -> Any:
    """A fiber that waited inside of a draw left its generator to the others, which crashed."""
    g = weft.Generator().manual_seed(c.k)
    weights = (x.detach() * 2).abs()
    return weft.multinomial(weights, 2, generator=g), weft.rand(2), weft.randperm(5, generator=g)


@program
def dropout_until(c: Any, x: Any) -> Any:
    h = c.w.bias
    for row in x:
        h = F.dropout(c.w.cell(row, h), 0.3)
        if h.sum() > 1:
            break
    return h


# ---- errors


@program
def raised(c: Any, x: Any) -> Any:
    if c.k == 2:
        raise ValueError("boom")
    return x.sum().item()


@program
def asserted(c: Any, x: Any) -> Any:
    assert x.sum() < 1, f"sum {x.sum():.3f}"
    return x


@program
def of_a_shape(c: Any, x: Any) -> Any:
    y = x * 2
    return y @ weft.ones(3, 3, dtype=KIND) if c.k == 3 else y


@program
def of_a_value(c: Any, x: Any) -> Any:
    y = x * 2
    rows = F.embedding(weft.tensor([c.k * 4]), c.w.table)
    return y.sum() + rows.sum()


@program
def of_a_value_unread(c: Any, x: Any) -> Any:
    c.w.table[weft.tensor([c.k * 4])]
    return x * 2


@program
def caught(c: Any, x: Any) -> Any:
    try:
        return F.embedding(weft.tensor([c.k * 4]), c.w.table).sum().item()
    except IndexError:
        return x * 3


@program
def finally_reads(c: Any, x: Any) -> Any:
    y = x * 2
    try:
        if y.sum() > 0:
            raise RuntimeError("positive")
    finally:
        c.log.append(y.sum().item())


@program
def stop_iteration(c: Any, x: Any) -> Any:
    def rows() -> Iterator[float]:
        yield (x * 2).sum().item()
        if c.k:
            next(iter([]))

    return list(rows())


@program
def recursion(c: Any, x: Any) -> Any:
    def deeper(n: int) -> Any:
        return deeper(n + 1)

    return deeper(0) if c.k == 1 else x


@program
def in_an_inner_batch(c: Any, x: Any) -> Any:
    return weft.autobatch(lambda r: r @ weft.ones(3) if r.sum() > 0 else r)(list(x))


@program
def leaf_written(c: Any, x: Any) -> Any:
    x += 1
    return x


@pytest.mark.parametrize("fn", PROGRAMS.all, ids=lambda f: f.__name__)
def test_batched_is_loop(fn: Callable[[Any, Any], Any]) -> None:
    check(fn)


def test_what_an_example_caches_is_its_own() -> None:
    """parametrize.cached() was of the process: one under no_grad filled the others' cache."""
    from weft.nn.utils import parametrize

    class Twice(weft.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

    layer = weft.nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Twice())

    def one(k: int) -> Any:
        with parametrize.cached():
            if k == 0:
                with weft.no_grad():
                    y = layer(weft.ones(2)).sum()
                    y.item()  # waits, with the cache filled
                    return y
            return layer(weft.ones(2)).sum()

    plain = [one(k).requires_grad for k in range(3)]
    assert [y.requires_grad for y in weft.autobatch(one, adaptive=False)([0, 1, 2])] == plain


def test_early_stop_is_of_the_example() -> None:
    from weft.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    told: list[tuple[int, bool]] = []

    def one(k: int) -> Any:
        def body(x: Any) -> Any:
            y = (x * x).exp()
            told.append((k, True))
            return y

        with set_checkpoint_early_stop(k != 0):
            x = weft.ones(2, requires_grad=True)
            x.sum().item()  # waits
            checkpoint(body, x, use_reentrant=False).sum().backward()
            return x.grad

    expected = [one(k).tolist() for k in range(3)]
    plain, told[:] = list(told), []
    got = [g.tolist() for g in weft.autobatch(one, adaptive=False)([0, 1, 2])]
    assert got == expected and sorted(told) == sorted(plain)
