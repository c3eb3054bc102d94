"""Long programs without a graph hold what a few steps need (Note [Spread])."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from weft import nn

D, EXAMPLES = 64, 16
One = Callable[[list[Any]], Any]


def cell(make: Any) -> Callable[[], One]:
    def program() -> One:
        step = make(D, D)

        def one(xs: list[Any]) -> Any:
            state = None
            for x in xs:
                state = step(x, state)
            return state

        return one

    return program


def lstm_by_hand() -> One:
    """Gates in chunks, h and c pieces."""
    of_x, of_h = nn.Linear(D, 4 * D), nn.Linear(D, 4 * D)

    def one(xs: list[Any]) -> Any:
        h = c = weft.zeros(1, D)
        for x in xs:
            i, f, g, o = (of_x(x) + of_h(h)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h, c

    return one


def layers_below() -> One:
    """All of what a step reads is made of inputs alone, in several batches."""
    layers = nn.Sequential(nn.Linear(D, 3 * D), nn.Tanh(), nn.Linear(3 * D, D))
    step = nn.GRUCell(D, D)

    def one(xs: list[Any]) -> Any:
        h = weft.zeros(1, D)
        for x in xs:
            h = step(layers(x), h)
        return h

    return one


def backwards_and_forwards() -> One:
    """The steps' products are needed in two orders, first or last ones first."""
    below, there, back = nn.Linear(D, D), nn.GRUCell(D, D), nn.GRUCell(D, D)

    def one(xs: list[Any]) -> Any:
        ys = [below(x) for x in xs]
        a = b = weft.zeros(1, D)
        for y, z in zip(ys, reversed(ys), strict=True):
            a, b = there(y, a), back(z, b)
        return a + b

    return one


def sum_at_the_end() -> One:
    layer = nn.Linear(D, D)

    def one(xs: list[Any]) -> Any:
        total = weft.zeros(1, D)
        for x in xs:
            total = total * 0.5 + layer(x)
        return total

    return one


PROGRAMS = {
    "LSTMCell": cell(nn.LSTMCell), "GRUCell": cell(nn.GRUCell), "RNNCell": cell(nn.RNNCell),
    "lstm_by_hand": lstm_by_hand, "layers_below": layers_below, "sum_at_the_end": sum_at_the_end,
    "backwards_and_forwards": backwards_and_forwards,
}  # fmt: skip


def flat(found: Any) -> list[float]:
    if isinstance(found, (list, tuple)):
        return [value for part in found for value in flat(part)]
    return found.flatten().tolist()


@pytest.fixture
def few_ahead() -> Iterator[int]:
    most = 1 << 14
    before = weft._C._set_ahead(most)
    yield most
    weft._C._set_ahead(before)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("lengths", [[9], [1, 3, 9, 0, 4], [30] * 6], ids=str)
def test_values_are_those_of_the_loop(name: str, lengths: list[int]) -> None:
    one = PROGRAMS[name]()
    examples = [[weft.randn(1, D) for _ in range(n)] for n in lengths]
    if name.endswith("Cell"):
        examples = [xs or [weft.randn(1, D)] for xs in examples]
    found = {}
    with weft.no_grad():
        loop = flat([one(xs) for xs in examples])
        for most in (1, 500, 1 << 30):
            before = weft._C._set_ahead(most)
            report = weft.explain(one, examples)
            weft._C._set_ahead(before)
            assert flat(report.outputs) == pytest.approx(loop, rel=1e-4, abs=1e-6)
            found[most] = report.batches
    if len(lengths) > 1 and name != "backwards_and_forwards":
        assert found[1] >= found[500] >= found[1 << 30] and found[1] > found[1 << 30]


def growth(one: One, steps: int) -> int:
    """Bytes at most beyond those before, of a run without a graph."""
    x = weft.randn(1, D)
    run = weft.autobatch(one, adaptive=False)
    with weft.no_grad():
        before = weft._C._memory_stats()["current"]
        weft._C._reset_peak_memory()
        run([[x] * steps] * EXAMPLES)
        return weft._C._memory_stats()["peak"] - before


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"backwards_and_forwards"}))
def test_memory_does_not_grow_with_the_steps(name: str, few_ahead: int) -> None:
    one = PROGRAMS[name]()
    growth(one, 20)
    assert growth(one, 160) <= 1.1 * growth(one, 80)
    assert growth(one, 80) < 6 * 4 * few_ahead + 40 * 4 * EXAMPLES * D


@pytest.mark.parametrize("name", ["LSTMCell", "layers_below"])
def test_what_is_recorded_or_held_is_not_cut(name: str) -> None:
    """The graph, or the caller, holds all of it in any case."""
    one = PROGRAMS[name]()
    examples = [[weft.randn(1, D)] * 5 for _ in range(3)]

    def batches(fn: One) -> set[int]:
        found = set()
        for most in (1, 1 << 30):
            before = weft._C._set_ahead(most)
            found.add(weft.explain(fn, examples).batches)
            weft._C._set_ahead(before)
        return found

    assert len(batches(one)) == 1
    layer = nn.Linear(D, D)
    with weft.no_grad():
        assert len(batches(one)) == 2
        assert len(batches(lambda xs: [layer(x) for x in xs])) == 1
