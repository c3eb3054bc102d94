"""A signal handler runs between any two bytecodes, also of what runs the examples: it may compute,
read values, draw numbers, write, and batch, and all results stay what they are without it.

A tracer counts the bytecodes of weft/batching; in one run after the other the signal comes at the
first, the second, ... of them.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import nn

HERE = str(Path(weft.__file__).parent / "batching")
SIGNAL = signal.SIGUSR1


def program() -> Callable[[], list[float]]:
    weft.manual_seed(0)
    layer, xs = nn.Linear(3, 3), [weft.randn(3) for _ in range(5)]

    def one(x: Any) -> Any:
        y = layer(x).tanh()
        if y.sum().item() > 0:  # noqa: SIM108
            y = layer(y)
        else:
            y = sum(weft.autobatch(lambda z: layer(z) * z.sum().item(), adaptive=False)([x, y]))
        return y.sum()

    run = weft.autobatch(one, adaptive=False)
    return lambda: [y.item() for y in run(xs)]


class Tracer:
    """Calls `act` at bytecode number `at` of weft/batching; counts them."""

    def __init__(self, act: Callable[[], None], at: int) -> None:
        self.act, self.left, self.count = act, at, 0

    def __call__(self, frame: Any, event: str, arg: object) -> Any:
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.count += 1
            if self.count == self.left:
                self.act()
        return self

    def run(self, work: Callable[[], Any]) -> Any:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            return work()
        finally:
            sys.settrace(before)


def reads() -> None:
    assert (weft.ones(2) * 2).sum().item() == 4


def branches_and_writes() -> None:
    x = weft.ones(3)
    x += 1 if x.sum() > 0 else 2
    assert x.tolist() == [2, 2, 2]


def draws() -> None:
    weft.rand(2, generator=weft.Generator().manual_seed(1)).sum().item()


def batches() -> None:
    f = weft.autobatch(lambda k: (weft.ones(2) * k).sum().item() + 1, adaptive=False)
    assert f([1, 2, 3]) == [3, 5, 7]


@pytest.fixture
def handler() -> Iterator[Callable[[Callable[[], None]], list[int]]]:
    before = signal.getsignal(SIGNAL)

    def install(act: Callable[[], None]) -> list[int]:
        handled: list[int] = []

        def handle(number: int, frame: object) -> None:
            act()
            handled.append(number)

        signal.signal(SIGNAL, handle)
        return handled

    yield install
    signal.signal(SIGNAL, before)


@pytest.mark.parametrize("act", [reads, branches_and_writes, draws, batches])
def test_a_handler_may_come_anywhere(act: Callable[[], None], handler: Any) -> None:
    work = program()
    expected = work()
    handled = handler(act)
    counter = Tracer(lambda: None, 0)
    assert counter.run(work) == expected
    step = max(1, counter.count // 250)
    for at in range(1, counter.count, step):
        handled.clear()
        assert Tracer(lambda: signal.raise_signal(SIGNAL), at).run(work) == expected
        assert len(handled) == 1
    assert work() == expected


class Alarm(Exception):
    pass


def test_a_handler_that_raises_is_what_ends_the_run(handler: Any) -> None:
    """An example that had begun and had no fiber yet, or none any more, hid the alarm by an
    AttributeError, and those after it were left where they waited."""

    def alarms() -> None:
        raise Alarm

    work = program()
    expected = work()
    handler(alarms)
    counter = Tracer(lambda: None, 0)
    counter.run(work)
    for at in range(1, counter.count, max(1, counter.count // 250)):
        with pytest.raises(Alarm):
            Tracer(lambda: signal.raise_signal(SIGNAL), at).run(work)
    assert work() == expected


def test_a_handler_amid_the_first_batch() -> None:
    """The module of fibers is imported by the first batch: half of it was there for the handler."""
    code = """
import sys
import weft

def f(x):
    return x * 2 if x.sum() > 0 else x

def handler():
    assert not hasattr(sys.modules["weft.batching.fibers"], "complete")
    done.append(weft.autobatch(f)([weft.ones(1), -weft.ones(1)]))

def trace(frame, event, arg):
    if frame.f_code.co_filename.endswith("fibers.py"):
        if frame.f_code.co_name == "<module>" and event == "line" and frame.f_lineno in lines:
            lines.remove(frame.f_lineno)
            handler()
        return trace

done, lines = [], set(range(12, 60))
sys.settrace(trace)
done.append(weft.autobatch(f)([weft.ones(1), -weft.ones(1)]))
sys.settrace(None)
assert len(done) > 5, done
assert all([y.tolist() for y in ys] == [[2.0], [-1.0]] for ys in done)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
