"""Whose memory is whose is told by numbers that are never used twice, however many there were.

The age of memory was read off the statistic of allocations, modulo 2 ** 32, and its maker was
kept in 16 bits: after an hour of training examples met another's memory, silently.
"""

from __future__ import annotations

from typing import Any

import pytest

import weft

HIGH = [2**16 - 3, 2**31 - 3, 2**32 - 3, 2**40, 2**47]


def remembers() -> tuple[Any, list[Any]]:
    memory, xs = weft.zeros(1), [weft.ones(1) * (k + 4) for k in range(4)]

    def one(x: Any) -> Any:
        if x.sum().item() > 0:
            memory.mul_(2).add_(x)
        return memory.item()

    return one, xs


def own_memory() -> tuple[Any, list[Any]]:
    made: list[Any] = []

    def one(k: int) -> Any:
        mine = weft.zeros(2)
        made.append(mine)
        if (mine + k).sum().item() >= 0:
            mine += k
            made[0].add_(1)  # that of the first
        return (mine.sum() + made[0].sum()).item()

    return one, list(range(5))


def nested() -> tuple[Any, list[Any]]:
    made: list[Any] = []

    def inner(k: int) -> Any:
        made.append(weft.ones(1) * k)
        return made[-1].clone()

    def one(k: int) -> Any:
        a, b = weft.autobatch(inner, adaptive=False)([k, k + 1])
        if (a + b).item() > 0:
            made[0] += 1  # made by an example of a batch of the first example
            a += 1
        return (a * made[0]).item()

    return one, [1, 2, 3, 4]


@pytest.mark.parametrize("program", [remembers, own_memory, nested])
@pytest.mark.parametrize("adaptive", [False, True])
def test_at_high_numbers_examples_are_told_apart(program: Any, adaptive: bool) -> None:
    one, xs = program()
    expected = [one(x) for x in xs]
    for high in HIGH:
        weft._C._skip_numbers(high)
        for _ in range(3):  # some have numbers on either side
            one, xs = program()
            assert weft.autobatch(one, adaptive=adaptive)(xs) == expected


def test_a_batch_advances_no_statistic() -> None:
    before = weft._C._memory_stats()["allocations"]
    weft.autobatch(lambda x: None, adaptive=False)([1, 2, 3])
    assert weft._C._memory_stats()["allocations"] == before
