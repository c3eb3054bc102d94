"""Fibers: as deep in calls as their batch, kept for the next one, ended by interrupts."""

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.batching import fibers


def test_an_interrupt_ends_fibers_and_later_batches_work() -> None:
    ended: list[int] = []

    def one(k: int) -> float:
        try:
            a = (weft.ones(2) * k).sum().item()
            if k == 2:
                raise KeyboardInterrupt
            return a + (weft.ones(2) * k).sum().item()
        finally:
            ended.append(k)

    with pytest.raises(KeyboardInterrupt):
        weft.autobatch(one, adaptive=False)([0, 1, 2, 3])
    assert sorted(ended) == [0, 1, 2, 3]
    fine = weft.autobatch(lambda k: (weft.ones(2) * k).sum().item(), adaptive=False)
    for _ in range(2):
        assert fine([1, 2, 3]) == [2, 4, 6]


def test_fibers_end_with_their_thread() -> None:
    """The frame of an idle fiber held it, for ever."""
    from weft.batching.fibers import Fiber

    def alive() -> int:
        gc.collect()
        return sum(type(o) is Fiber for o in gc.get_objects())

    def work() -> None:
        run = weft.autobatch(lambda x: (x + 1).sum().item(), adaptive=False)
        assert run([weft.ones(2)] * 5) == [4] * 5

    work()
    before = alive()
    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert alive() == before


def test_a_tracer_set_later_sees_the_examples() -> None:
    """Debuggers stop in fibers that are older than they."""
    seen: list[str] = []

    def one(x: Any) -> float:
        return (x + (x + 1).sum().item()).sum().item()

    def tracer(frame: Any, event: str, arg: object) -> Any:
        if frame.f_code is one.__code__:
            seen.append(event)
        return tracer

    run = weft.autobatch(one, adaptive=False)
    run([weft.ones(2)] * 3)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        run([weft.ones(2)] * 3)
    finally:
        sys.settrace(before)
    assert seen.count("call") == seen.count("return") == 3


def frames_left(_: Any) -> int:
    """How many calls deeper Python goes."""
    try:
        return 1 + frames_left(None)
    except RecursionError:
        return 0


def at_depth(n: int, f: Callable[[], Any]) -> Any:
    return at_depth(n - 1, f) if n else f()


def reads_and_counts(x: weft.Tensor) -> int:
    return frames_left(None) if x.sum().item() < 1e9 else 0


@pytest.mark.parametrize("depth", [0, 300, 800])
@pytest.mark.parametrize("nested", [False, True])
def test_an_example_is_as_deep_in_calls_as_who_calls_the_batch(depth: int, nested: bool) -> None:
    """A fiber that was made at depth 900 began there ever after: RecursionError in shallow code."""
    xs = [weft.ones(2)] * 20
    batched = weft.autobatch(reads_and_counts, adaptive=False)
    inner = weft.autobatch(lambda _: batched(xs)[-1], adaptive=False)
    run = (lambda: inner([0, 1])) if nested else (lambda: batched(xs))
    fibers._idle.fibers.clear()
    at_depth(900 - 40 * nested, run)  # makes fibers there
    plain = at_depth(depth, lambda: [reads_and_counts(xs[0])])[0]
    for left in at_depth(depth, run):
        assert plain - 30 < left <= plain


def test_a_batch_finds_the_fibers_of_the_largest_one_of_late() -> None:
    """Beyond 256 examples each run made its fibers anew: half of its time."""
    batched = weft.autobatch(lambda x: x.sum().item(), adaptive=False)

    def idle_after(examples: int) -> list[Any]:
        batched([weft.ones(2)] * examples)
        return list(fibers._idle.fibers)

    large = idle_after(400)
    assert 400 <= len(large) < 464
    assert all(f.work is None and f.example is None for f in large)
    assert {id(f) for f in idle_after(400)} == {id(f) for f in large}
    assert 350 < len(idle_after(20)) < 400  # most are there for the next large one
    for _ in range(200):
        left = len(idle_after(20))
    assert 20 <= left < 20 + 64
