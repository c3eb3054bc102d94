"""Whether a run is batched: by what batching is estimated to have saved before."""

from contextvars import ContextVar
from typing import Any

import pytest
from small import Small, deferred_here

import weft
from weft import nn
from weft.batching.habit import SETTINGS, Habit


def test_what_lost_goes_one_by_one_and_is_tried_again() -> None:
    small = Small()
    run = weft.autobatch(small)
    for _ in range(100):
        assert [t.item() for t in run([weft.tensor(1), weft.tensor(2)])] == [2, 3]
    batched = [k // 2 for k, kept in enumerate(small.kept) if kept and k % 2 == 0]
    assert batched == [0, 17, 82]  # after 16, then 64 runs one by one
    small.kept.clear()
    run([weft.tensor(1)] * 9)  # of other numbers of examples nothing is known
    assert small.kept == [True] * 9
    small.kept.clear()
    with weft.no_grad():
        run([weft.tensor(1)] * 2)
    assert small.kept == [True] * 2


def test_what_gains_is_always_batched() -> None:
    layer, kept = nn.Linear(64, 64), []

    def one(x: Any) -> Any:
        kept.append(deferred_here())
        for _ in range(8):
            x = layer(x).tanh()
        return x

    run = weft.autobatch(one)
    for _ in range(3):
        sum(run([weft.ones(64)] * 32)).sum().backward()
    assert all(kept) and len(kept) == 96


def test_adaptive_off_and_explain_always_batch() -> None:
    small = Small()
    for _ in range(3):
        weft.autobatch(small, adaptive=False)([weft.ones(2)] * 2)
    run = weft.autobatch(small)
    run([weft.ones(2)] * 2)
    report = weft.explain(run, [weft.ones(2)] * 2)
    assert small.kept == [True] * 10
    assert report.calls == 2 and report.saved_s < 0
    assert report.to_dict()["saved_s"] == report.saved_s
    assert "lost against the plain loop, so autobatch goes on one by one" in str(report)


def test_the_habit_is_the_function_s() -> None:
    """`autobatch(f)(xs)` in a loop is one wrapper each time."""
    small = Small()
    weft.autobatch(small)([weft.ones(2)])
    weft.autobatch(small)([weft.ones(2)])
    assert small.kept == [True, False]
    again = Small()
    weft.autobatch(again.__call__)([weft.ones(2)])
    weft.autobatch(again.__call__)([weft.ones(2)])
    assert again.kept == [True, False]


@pytest.mark.parametrize("unhashable", [True, False])
def test_functions_that_allow_no_key(unhashable: bool) -> None:
    class Odd:
        __slots__ = ("kept",)
        if unhashable:
            __hash__ = None  # type: ignore[assignment]

        def __init__(self) -> None:
            self.kept: list[bool] = []

        def __call__(self, x: Any) -> Any:
            self.kept.append(deferred_here())
            return x + 1

    odd = Odd()
    run = weft.autobatch(odd)
    run([weft.ones(2)])
    run([weft.ones(2)])
    assert odd.kept == [True, False]


def test_inside_of_a_batch_examples_merge_with_those_around() -> None:
    small = Small()
    inner = weft.autobatch(small)
    for _ in range(3):
        weft.autobatch(lambda x: sum(inner([x, x])), adaptive=False)([weft.ones(2)] * 2)
    assert small.kept == [True] * 12


@pytest.mark.parametrize("error", [ValueError, IndexError, StopIteration])
def test_one_by_one_an_exception_ends_the_loop(error: type[Exception]) -> None:
    done: list[int] = []

    def one(k: int, by: int = 1) -> Any:
        if k % 2:
            raise error(k)
        done.append(k * by)
        return weft.ones(2) * k

    run = weft.autobatch(one)
    with pytest.raises(error):
        run([0, 1, 2, 3])
    run([0, 2, 4, 6])  # loses
    done.clear()
    with pytest.raises(error) as caught:
        run([0, 1, 2, 3], by=10)
    assert caught.value.args == (1,) and caught.value.__notes__ == ["in example 1 of 4"]
    assert done == [0]


def test_one_by_one_an_example_is_alone_with_its_modes() -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)

    def one(k: int) -> tuple[bool, bool, int]:
        found = weft.is_grad_enabled(), variable.get()
        weft.set_grad_enabled(False)
        variable.set(k)
        return deferred_here(), *found

    run = weft.autobatch(one)
    assert run([1, 2, 3]) == [(True, True, 0)] * 3
    assert run([1, 2, 3]) == [(False, True, 0)] * 3
    assert weft.is_grad_enabled() and variable.get() == 0


def ran(habit: Habit, saved: float, n: int = 4, mode: int = 1) -> None:
    habit.ran(n, mode, None, (saved, 0.0))


def chosen(habit: Habit, saved: list[float], n: int = 4, mode: int = 1) -> list[bool]:
    """Which of some runs are batched, where each saves so much then."""
    batched = []
    for each in saved:
        batched.append(not habit.one_by_one(n, mode))
        if batched[-1]:
            ran(habit, each, n, mode)
    return batched


def test_stretches_grow_up_to_a_limit() -> None:
    habit, stretches = Habit(), []
    for _ in range(6):
        ran(habit, -1.0)
        runs = 0
        while habit.one_by_one(4, 1):
            runs += 1
        stretches.append(runs)
    assert stretches == [16, 64, 256, 1024, 1024, 1024]
    ran(habit, 1.0)
    assert not habit.one_by_one(4, 1)
    ran(habit, -2.0)
    assert sum(habit.one_by_one(4, 1) for _ in range(100)) == 16


def test_a_run_that_loses_little_among_some_that_gain_changes_nothing() -> None:
    """Examples that vary made a function go to and fro."""
    assert all(chosen(Habit(), [5.0, -4.0] * 20))
    assert all(chosen(Habit(), [9.0, -2.0, -2.0, -2.0] * 10))
    assert sum(chosen(Habit(), [4.0, -5.0] * 40)) <= 20


def test_after_a_loss_a_trial_counts_for_itself() -> None:
    habit = Habit()
    assert chosen(habit, [-100.0] * 17) == [True] + [False] * 16
    assert all(chosen(habit, [1.0] * 20))


def test_what_runs_do_is_learned_within_twenty() -> None:
    for first, then in ((-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0)):
        made = chosen(Habit(), [first] + [then] * 200)
        assert sum(made[20:84]) == 64 if then > 0 else sum(made[20:84]) <= 1  # a trial


def test_training_and_evaluation_in_turn_are_apart() -> None:
    layer, kept = nn.Linear(16, 16), {True: [], False: []}  # type: ignore[var-annotated]

    def one(x: Any) -> Any:
        kept[weft.is_grad_enabled()].append(deferred_here())
        for _ in range(8):
            x = layer(x).tanh()
        return x.sum()

    run, xs = weft.autobatch(one), [weft.randn(16) for _ in range(32)]
    for _ in range(12):
        sum(run(xs)).backward()
        with weft.no_grad():
            run(xs)
    assert all(kept[True])
    assert kept[False][::32] == [True] + [False] * 11


def test_results_are_stacked_either_way() -> None:
    run = weft.autobatch(Small(), out_stack=True)
    for _ in range(3):
        assert run([weft.tensor(1), weft.tensor(2)]).tolist() == [2, 3]


def test_a_heavy_loss_is_not_tried_again_soon() -> None:
    habit = Habit()
    ran(habit, 2 * SETTINGS.heavy)
    assert sum(habit.one_by_one(4, 1) for _ in range(2000)) == SETTINGS.most
