"""Whether a backward pass follows decides what is batched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn
from weft.base.modes import DEFER
from weft.batching.habit import SETTINGS, Habit, habit_of

D, N = 16, 32


class Deep:
    """A chain that is faster in batches if its graph is run; notes which runs kept calls."""

    def __init__(self) -> None:
        self.layer, self.kept = nn.Linear(D, D), list[bool]()

    def __call__(self, x: Any) -> Any:
        self.kept.append(bool(weft._C._mode() & DEFER))
        for _ in range(4):
            x = self.layer(x).tanh()
        return x.sum()

    def runs(self) -> list[bool]:
        found, self.kept = self.kept[::N], []
        return found


def examples() -> list[Any]:
    return [weft.randn(D) for _ in range(N)]


def shares(habit: Habit) -> list[float]:
    return [size.share for size in habit.sizes.values()]


def whole(losses: list[Any]) -> None:
    sum(losses).backward()


def nothing(losses: list[Any]) -> None:
    pass


def quarter(losses: list[Any]) -> None:
    sum(losses[: N // 4]).backward()


def twice(losses: list[Any]) -> None:
    total = sum(losses)
    total.backward(retain_graph=True)
    total.backward()


def for_inputs(losses: list[Any]) -> None:
    weft.autograd.grad(sum(losses), losses[0])


def doubly(losses: list[Any]) -> None:
    total = sum(loss * loss for loss in losses)
    (g,) = weft.autograd.grad(total, losses[0], create_graph=True)
    (g + total).backward()


@pytest.mark.parametrize(
    ("use", "ran"),
    [(whole, True), (nothing, False), (quarter, True), (twice, True), (for_inputs, False),
     (doubly, True)],
)  # fmt: skip
def test_whether_a_run_was_run_backward(use: Callable[[list[Any]], None], ran: bool) -> None:
    deep = Deep()
    use(weft.autobatch(deep)(examples()))
    habit = habit_of(deep)
    habit.judge()
    assert shares(habit) == [float(ran)]
    assert not habit.open


def test_without_a_backward_pass_it_goes_one_by_one() -> None:
    deep = Deep()
    run = weft.autobatch(deep)
    for _ in range(100):
        run(examples())
    # The second run knows what became of the first; then 16 and 64 runs one by one.
    assert [k for k, kept in enumerate(deep.runs()) if kept] == [0, 17, 82]


def test_results_that_are_held_say_nothing_yet() -> None:
    deep = Deep()
    run = weft.autobatch(deep)
    held = [run(examples()) for _ in range(5)]
    assert all(deep.runs())
    del held
    run(examples())
    assert not any(deep.runs())


@pytest.mark.parametrize("steps", [1, 3])
def test_with_one_it_stays_batched(steps: int) -> None:
    """Also where several runs add to one loss."""
    deep = Deep()
    run = weft.autobatch(deep)
    for _ in range(20):
        losses = [loss for _ in range(steps) for loss in run(examples())]
        sum(losses).backward()
    assert all(deep.runs())


def test_training_after_evaluation_is_batched_again() -> None:
    deep = Deep()
    run = weft.autobatch(deep)
    for _ in range(3):
        run(examples())
    assert deep.runs() == [True, False, False]
    for _ in range(14 + 4):
        sum(run(examples())).backward()
    assert deep.runs() == [False] * 14 + [True] * 4


def test_functions_in_turn_have_shares_of_their_own() -> None:
    trained, evaluated = Deep(), Deep()
    run, look = weft.autobatch(trained), weft.autobatch(evaluated)
    for _ in range(10):
        look(examples())
        losses = run(examples())
        look(examples())
        sum(losses).backward()
    assert all(trained.runs())
    assert sum(evaluated.runs()) <= 3


def test_a_run_is_told_from_those_beside_and_after_it() -> None:
    """A table of runs gave the place of one that was long past to another."""
    deep, other = Deep(), Deep()
    weft.autobatch(deep)(examples())
    for _ in range(1100):
        weft._C._begin_run()
    weft._C._end_run()
    whole(weft.autobatch(other)(examples()))
    for fn, share in ((deep, 0), (other, 1)):
        habit_of(fn).judge()
        assert shares(habit_of(fn)) == [share]


def test_nodes_outside_of_a_run_are_no_batch_s() -> None:
    deep = Deep()
    weft.autobatch(deep)(examples())
    habit = habit_of(deep)
    with weft.deferred():
        losses = [deep.layer(x).sum() for x in examples()]
    sum(losses).backward()
    habit.judge()
    assert shares(habit) == [0]


def test_only_so_many_runs_are_watched() -> None:
    habit = Habit()
    for graph in range(10):
        habit.ran(4, 1, graph, (-1.0, 5.0))
    assert len(habit.open) == SETTINGS.graphs and not habit.one_by_one(4, 1)
