"""Whether a run is batched: by what batching is estimated to have saved before."""

import functools
import gc
import sys
import threading
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.base.modes import DEFER
from weft.batching import habit as habits_of
from weft.batching.habit import Habit, Size, habit_of

COUNTS = [
    "runs", "examples", "fibers", "waits", "calls", "merged", "nodes", "weights", "passes",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_habits() -> None:
    """An object of a class that an earlier test used would take the place of its dead one."""
    habits_of._known.clear()


def deferred_here() -> bool:
    return bool(weft._C._mode() & DEFER)


class Small:
    """A call that is cheaper to run than to keep; notes which runs kept it."""

    def __init__(self) -> None:
        self.kept: list[bool] = []

    def __call__(self, x: Any) -> Any:
        self.kept.append(deferred_here())
        return x + 1


@pytest.mark.parametrize("name", COUNTS)
def test_each_count_moves_the_estimate_one_way(name: str) -> None:
    none = dict.fromkeys(COUNTS, 0)
    assert weft._C._saved_by(none) == (0, 0)
    saved = sum(weft._C._saved_by({**none, name: 1000}))
    assert saved > 0 if name in ("merged", "weights") else saved < 0


def test_the_counts() -> None:
    layer, table = nn.Linear(6, 5), nn.Embedding(10, 6)
    xs = [weft.tensor([k, k + 1]) for k in range(4)]

    def one(x: Any) -> Any:
        y = layer(table(x))
        return y.sum() if y.sum() > -100 else y

    before = weft._C._tally()
    weft.autobatch(one, adaptive=False)(xs)
    after = weft._C._tally()
    found = {name: after[name] - before[name] for name in COUNTS}
    assert found == {
        "calls": 20, "merged": 16, "nodes": 4, "weights": 3 * 30, "fibers": 4, "waits": 4,
        "passes": 0, "runs": 1, "examples": 4,
    }  # fmt: skip


def counts(fn: Any, xs: list[Any]) -> dict[str, int]:
    """Of a batched run."""
    run, before = weft.autobatch(fn, adaptive=False), weft._C._tally()
    run(xs)
    after = weft._C._tally()
    return {name: after[name] - before[name] for name in COUNTS}


def test_weights_count_without_gradients() -> None:
    w = weft.ones(512, 512)
    with weft.no_grad():
        found = counts(lambda x: weft.nn.functional.linear(x, w), [weft.ones(512)] * 3)
    assert found["weights"] == 2 * 512 * 512 and found["merged"] == found["nodes"] == 0


@pytest.mark.parametrize("lengths", [[4, 4, 4], [2, 5, 3]])
def test_a_recurrence_reads_its_weights_in_every_step(lengths: list[int]) -> None:
    """An LSTM's batch was taken to spare one reading of the weights for each sequence."""
    layer = nn.LSTM(6, 5)
    found = counts(lambda x: layer(x)[0].sum(), [weft.randn(n, 6) for n in lengths])
    of_inputs, of_state = layer.weight_ih_l0.numel(), layer.weight_hh_l0.numel()
    steps = sum(lengths) - max(lengths)  # those of the longest are taken in any case
    assert found["weights"] == of_inputs * (len(lengths) - 1) + of_state * steps


def test_parts_of_a_call_merge_nothing() -> None:
    """Each has a kernel call and a backward formula of its own."""
    w = weft.ones(4, 4, requires_grad=True)

    def one(x: Any) -> Any:
        return (x @ w).softmax(0)

    alike = counts(one, [weft.ones(3, 4)] * 4)
    unlike = counts(one, [weft.ones(n, 4) for n in (2, 3, 5, 7)])
    assert alike["merged"] == 8 and unlike["merged"] == 4
    assert alike["nodes"] == unlike["nodes"] == 2


def test_an_example_that_stops_is_counted_once_and_each_of_its_stops() -> None:
    def one(k: int) -> Any:
        x = weft.ones(2)
        for _ in range(k):
            x = x + float(x.sum())
        return x

    found = counts(one, [0, 2, 0, 2])
    assert found["fibers"] == 2 and found["waits"] == 4


def estimate(**found: int) -> tuple[float, float]:
    return weft._C._saved_by({**dict.fromkeys(COUNTS, 0), **found})


# What batched runs of 32 examples count, by hand; whether they are better batched without a graph,
# and in a training step.
RUNS: dict[str, tuple[dict[str, int], bool, bool]] = {
    "a layer": ({"calls": 32, "nodes": 1, "weights": 31 * 256}, False, False),
    "a few layers": ({"calls": 32 * 6, "nodes": 6, "weights": 31 * 1024}, False, True),
    "wide layers": ({"calls": 32 * 6, "nodes": 6, "weights": 3 * 31 << 18}, True, True),
    "a deep chain": ({"calls": 32 * 50, "nodes": 50}, False, True),
    "few alike": ({"calls": 32 * 50, "nodes": 400}, False, False),
    "a value of each":
        ({"calls": 32 * 6, "nodes": 6, "fibers": 32, "waits": 32}, False, False),
    "a deep chain, and a value of each":
        ({"calls": 32 * 50, "nodes": 50, "fibers": 32, "waits": 32}, False, True),
    "a value after each call":
        ({"calls": 32 * 8, "nodes": 8, "fibers": 32, "waits": 32 * 8}, False, False),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_decisions(name: str) -> None:
    found, *wanted = RUNS[name]
    found = {**found, "runs": 1, "examples": 32}
    forward = estimate(**{**found, "nodes": 0})[0]
    training = sum(estimate(**{**found, "merged": found["calls"]}))
    assert [forward >= 0, training >= 0] == wanted


def test_backward_inside_of_an_example_is_never_worth_it() -> None:
    assert sum(estimate(calls=10**4, merged=10**4, nodes=20, passes=32)) < 0


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


def test_methods_of_one_object_have_habits_of_their_own() -> None:
    class Model:
        def __init__(self) -> None:
            self.kept: list[bool] = []

        def small(self, x: Any) -> Any:
            return x + 1

        def other(self, x: Any) -> Any:
            self.kept.append(deferred_here())
            return x + 2

    model = Model()
    weft.autobatch(model.small)([weft.ones(2)])
    weft.autobatch(model.other)([weft.ones(2)])
    weft.autobatch(model.other)([weft.ones(2)])
    assert model.kept == [True, False]


def test_functions_made_anew_are_known_by_code_and_values() -> None:
    class Log:
        def __init__(self) -> None:
            self.seen: list[tuple[str, bool]] = []

    def made(name: str, log: Log) -> Any:
        return lambda x: (log.seen.append((name, deferred_here())), x + 1.0)[1]

    log = Log()
    for name in ("a", "a", "b", "b", "a"):
        weft.autobatch(made(name, log))([weft.ones(2)])
    assert log.seen == [("a", True), ("a", False), ("b", True), ("b", False), ("a", False)]
    pair: list[Any] = [Small(), Small()]
    for small in (pair[0], pair[0], pair[1]):
        weft.autobatch(functools.partial(lambda x, run: run(x), run=small))([weft.ones(2)])
    assert [small.kept for small in pair] == [[True, False], [True]]


def test_numbers_and_tensors_that_change_in_every_step_make_no_other_function() -> None:
    """An annealed temperature in the closure: nothing was ever learned."""

    def made(number: Any, *, other: Any = None) -> Any:
        def inner(x: Any) -> Any:
            return x * number

        return lambda x, scale=number: inner(x) * scale if other is None else other

    habit = habit_of(made(0.5))
    assert habit_of(made(0.7)) is habit
    assert habit_of(made(3)) is not habit
    assert habit_of(made(weft.ones(2))) is habit_of(made(weft.zeros(3)))
    assert habit_of(made(0.5, other="a")) is not habit_of(made(0.5, other="b"))
    small = Small()
    assert habit_of(made(small)) is habit_of(made(small)) is not habit_of(made(Small()))


class State:
    """What a step makes anew: an environment, a cache."""

    def __call__(self, x: Any) -> Any:
        return x

    def go(self, x: Any) -> Any:
        return x


class Holds(State):
    def __init__(self, model: nn.Module) -> None:
        self.step, self.model = 0, model


def over_two(one: Any, two: Any) -> Any:
    return lambda x: (x, one, two)


def over_one(value: Any) -> Any:
    return lambda x: (x, value)


def with_default(value: Any) -> Any:
    def fn(x: Any, other: Any = value) -> Any:
        return x, other

    return fn


def with_keyword(value: Any) -> Any:
    def fn(x: Any, *, other: Any = value) -> Any:
        return x, other

    return fn


def of_local_class(step: int) -> Any:
    class Local:
        pass

    return over_one((Local, Local())[step % 2])


def over_a_batch(step: int) -> Any:
    return over_one(weft.autobatch(lambda x: x * step))


WORDS = ["a", "bb", "ccc"]
LINEAR = nn.Linear(2, 2)
ANEW: dict[str, Any] = {
    "object": lambda step: over_one(State()),
    "callable": lambda step: State(),
    "method": lambda step: State().go,
    "partial": lambda step: functools.partial(lambda s, x: x, State()),
    "partial by keyword": lambda step: functools.partial(lambda x, s: x, s=State()),
    "default": lambda step: with_default(State()),
    "default of a keyword": lambda step: with_keyword(State()),
    "method in a closure": lambda step: over_one(State().go),
    "list": lambda step: over_one([0] * (step + 1)),
    "list of words": lambda step: over_one(WORDS[step:]),
    "long list": lambda step: over_one([0] * 10**6),
    "dict": lambda step: over_one({str(k): weft.ones(1) for k in range(step + 1)}),
    "dict of objects": lambda step: over_one({"a": [State() for _ in range(step + 1)]}),
    "set": lambda step: over_one(set(range(step + 1))),
    "array": lambda step: over_one(np.zeros(step)),
    "NumPy's number": lambda step: over_one(np.float32(step)),
    "bytes": lambda step: over_one(b"x" * step),
    "over one module": lambda step: over_one(Holds(LINEAR)),
    "method over one module": lambda step: Holds(LINEAR).go,
    "batched function": over_a_batch,
    "batched method": lambda step: over_one(weft.autobatch(State().go)),
    "cached function": lambda step: functools.cache(lambda x: x),
    "bound builtin": lambda step: over_one([step].append),
    "class": lambda step: of_local_class(0),
    "object of a local class": lambda step: of_local_class(1),
}


@pytest.mark.parametrize("case", ANEW)
def test_what_a_step_makes_anew_takes_the_place_of_its_predecessor(case: str) -> None:
    """A batch that loses was tried in every step: the closure held an object made in the step."""
    first = habit_of(ANEW[case](0))
    assert all(habit_of(ANEW[case](step)) is first for step in range(1, 3))


OTHERS: dict[str, tuple[Any, Any]] = {
    "modules": (nn.Linear(2, 2), nn.Linear(2, 2)),
    "methods of modules": (nn.Linear(2, 2).forward, nn.Linear(2, 2).forward),
    "methods": (State().go, State().__call__),
    "over modules": (over_one(nn.Linear(2, 2)), over_one(nn.Linear(2, 2))),
    "over modules by keyword": (with_keyword(nn.Linear(2, 2)), with_keyword(nn.Linear(2, 2))),
    "over lists of modules": (over_one([nn.ReLU()]), over_one([nn.ReLU()])),
    "over objects alive": (over_one(State()), over_one(State())),
    "objects alive": (State(), State()),
    "over words": (over_one("a"), over_one("b")),
    "over kinds": (over_one([1]), over_one([weft.ones(1)])),
    "over builtins": (over_one(len), over_one(abs)),
    "over operators": (over_one(weft.relu), over_one(weft.tanh)),
    "operators": (weft.Tensor.exp, weft.Tensor.log),
    "over functions": (over_one(lambda: 1), over_one(lambda: 2)),
    "batched": (over_one(weft.autobatch(lambda x: 1)), over_one(weft.autobatch(lambda x: 2))),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_makes_another_function(case: str) -> None:
    one, two = OTHERS[case]
    habit = habit_of(one)
    assert habit_of(two) is not habit and habit_of(one) is habit


def test_objects_made_anew_over_other_modules_are_apart() -> None:
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    habits = [habit_of(Holds(model)) for model in (one, two, one, two)]
    assert habits[0] is habits[2] is not habits[1] is habits[3]


def test_long_lived_objects_are_apart_also_beside_one_made_anew() -> None:
    one, two = State(), State()
    habits = [habit_of(over_two(cache, Small())) for cache in (one, two, one, two)]
    assert habits[0] is habits[2] is not habits[1] is habits[3]


def test_of_many_objects_alive_the_later_ones_share_a_habit() -> None:
    kept = [State() for _ in range(10)]
    for _ in range(2):
        habits = [habit_of(over_one(state)) for state in kept]
        assert len(set(habits)) == len(set(habits[:4])) == 4
        assert set(habits[3:]) == {habits[3]}


def test_that_order_does_not_matter_is_not_passed_on() -> None:
    habit = habit_of(over_one(state := State()))
    habit.note_order(0, False)
    habit.note_order(1, True)
    assert habit_of(over_one(state)).in_order == {0: 0, 1: Habit.IN_ORDER}
    del state
    assert habit_of(over_one(State())) is habit and habit.in_order == {1: Habit.IN_ORDER}


def test_an_object_that_begins_to_write_is_seen_by_the_next_examples() -> None:
    """It has the habit of one before it that wrote nothing."""
    layer = nn.Linear(64, 64)

    class Step:
        def __init__(self, writes: bool) -> None:
            self.writes, self.kept, self.shared = writes, [], weft.zeros(())

        def __call__(self, k: int) -> float:
            self.kept.append(deferred_here())
            x = weft.ones(64) * k
            for _ in range(8):
                x = layer(x).tanh()
            assert x.sum().item() < 100
            found = (self.shared + k).item()
            if self.writes:
                self.shared += 1
            return found

    for writes in (False, True):
        step = Step(writes)
        habit_of(step).sizes.clear()  # were it so that batching pays
        found = weft.autobatch(step)(list(range(32)))
        assert found == [k * (1 + writes) for k in range(32)]
        assert step.kept[2] != writes


def test_a_module_at_the_address_of_a_dead_one_inherits_nothing() -> None:
    module = nn.Identity()
    habit, address = habit_of(over_one(module)), id(module)
    del module
    gc.collect()
    heirs = [nn.Identity() for _ in range(1000)]
    heir = next((module for module in heirs if id(module) == address), None)
    assert heir is None or habit_of(over_one(heir)) is not habit


def test_objects_whose_attributes_raise_have_habits_too() -> None:
    class Bad:
        def __getattribute__(self, name: str) -> Any:
            raise OSError(name)

        def __call__(self, x: Any) -> Any:
            return x

        def __eq__(self, other: object) -> bool:
            raise OSError

    class Meta(type):
        __hash__ = None  # type: ignore[assignment]

    class Unhashable(metaclass=Meta):
        pass

    for value in (Bad(), Unhashable(), [Unhashable()], [Bad()]):
        assert weft.autobatch(functools.partial(lambda v, x: x + 1, value))([1]) == [2]
    assert habit_of(Bad()) is not None


def test_what_the_habits_know_is_bounded_and_keeps_nothing_alive() -> None:
    import weakref

    state, model = State(), nn.Identity()
    refs = [weakref.ref(state), weakref.ref(model)]
    habit_of(over_two(state, model))
    habit_of(model)
    habit_of(state.go)
    del state, model
    gc.collect()
    assert [one() for one in refs] == [None, None]
    for k in range(habits_of._MOST_KNOWN + 10):
        habit_of(over_one(str(k)))
    assert len(habits_of._known) == habits_of._MOST_KNOWN


def test_a_heavy_loss_is_not_tried_again_soon() -> None:
    habit = Habit()
    ran(habit, 2 * Size.HEAVY)
    assert sum(habit.one_by_one(4, 1) for _ in range(2000)) == Size.MOST
