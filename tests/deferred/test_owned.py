"""What belongs to an example, to a batch, to a thread: none finds or keeps what is another's."""

import os
import threading
from pathlib import Path

import pytest
from fuzz_shapes import sanitized

import weft
from weft.batching import examples


def test_a_setting_of_an_autocast_scope_is_the_examples_own() -> None:
    """A read in the scope left it to the others, and after the batch to everybody."""

    def f(x, k):
        with weft.autocast("cpu", cache_enabled=k != 0):
            x.sum().item()
            inside = weft.is_autocast_cache_enabled()
            x.sum().item()
        return inside, weft.is_autocast_cache_enabled()

    xs = [weft.full((1,), float(k)) for k in range(4)]
    assert weft.autobatch(f, adaptive=False)(xs, range(4)) == [(k != 0, True) for k in range(4)]
    assert weft.is_autocast_cache_enabled()


def test_a_thread_has_its_own_autocast_cache() -> None:
    seen = []
    weft.set_autocast_cache_enabled(False)
    try:
        thread = threading.Thread(target=lambda: seen.append(weft.is_autocast_cache_enabled()))
        thread.start()
        thread.join()
    finally:
        weft.set_autocast_cache_enabled(True)
    assert seen == [True]


def test_interrupted_batches_leave_nothing_behind() -> None:
    """Their examples stayed in a table forever."""

    def f(x):
        y = x * 2
        x.sum().item()
        if x.sum() == 1:
            raise KeyboardInterrupt
        return y

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            weft.autobatch(f, adaptive=False)([weft.full((1,), float(k)) for k in range(4)])
    weft.autobatch(lambda x: x + 1, adaptive=False)([weft.ones(1)] * 2)
    assert not examples._owners.by_number


@pytest.mark.skipif(sanitized(), reason="ASAN keeps what is freed")
def test_threads_that_ended_leave_no_memory_behind() -> None:
    """The batcher of a thread stayed when it ended; one that begins takes it over."""

    def work():
        weft.autobatch(lambda x: (x * 2).tanh().sum(), adaptive=False)([weft.ones(3)] * 500)

    def run(threads):
        for _ in range(threads):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        return resident()

    run(20)
    before = run(5)
    assert run(60) - before < 60 * 50_000  # each kept 120 KB


def resident() -> int:
    """Bytes of the process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_value_that_was_laid_out_anew_is_given_back() -> None:
    """It was kept, with its old layout, as long as the program ran."""

    def f(x):
        h = x * 2.0
        row = h[0]  # taken while h waits
        h.tolist()
        h.unsqueeze_(0)
        return row.sum()

    def step():
        weft.autobatch(f, adaptive=False)([weft.ones(50, 100) for _ in range(4)])
        return weft._C._memory_stats()["current"]

    step()
    before = step()
    assert max(step() for _ in range(5)) <= before
