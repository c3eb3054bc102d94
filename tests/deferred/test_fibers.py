"""Fibers: kept for the next batch, ended by interrupts and with their thread."""

import gc
import sys
import threading
from typing import Any

import pytest

import weft


def test_fibers_are_kept_for_the_next_batch() -> None:
    from weft.batching import fibers

    def one(x: Any) -> float:
        return (x + 1).sum().item()

    run = weft.autobatch(one, adaptive=False)
    xs = [weft.ones(2)] * 20
    run(xs)
    idle = {id(fiber) for fiber in fibers._idle.fibers}
    run(xs)
    assert {id(fiber) for fiber in fibers._idle.fibers} == idle and len(idle) >= 20
    assert all(f.work is None and f.example is None for f in fibers._idle.fibers)


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
