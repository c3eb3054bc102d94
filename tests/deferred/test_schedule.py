"""The schedule of examples, over plain generators: each yields what it stops for.

The oracle is told by what a program may observe: values are served together, tasks go on in order,
and what asks for its turn finds all tasks before it done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from weft.batching.schedule import Schedule, State, Task

VALUE, TURN = State.WAITING, State.PARKED


class Step(Task):
    """A task that runs a generator; it yields VALUE or TURN where it stops."""

    def __init__(self, index: int, steps: Iterator[State]) -> None:
        super().__init__(index)
        self.steps = steps


class Runner:
    """Runs generators by a schedule, as weft.batching.examples runs fibers; keeps a log."""

    def __init__(self, *programs: Callable[[Runner, int], Iterator[State]]) -> None:
        self.log: list[object] = []
        self.schedule = Schedule(Step(k, p(self, k)) for k, p in enumerate(programs))

    def go_on(self, task: Step) -> None:
        try:
            task.stops_for = next(task.steps)
            self.schedule.stopped(task)
        except StopIteration:
            self.schedule.done(task)

    def compute(self, last: bool) -> None:
        waits = [t.index for t in self.schedule.tasks if t.state is State.WAITING]
        self.log.append(("compute", waits, last))

    def run(self) -> list[object]:
        while (task := self.schedule.begin()) is not None:
            self.go_on(task)
        self.schedule.finish(self.go_on, self.compute)
        assert all(t.state is State.DONE for t in self.schedule.tasks)
        return self.log

    def has_turn(self, index: int) -> bool:
        return self.schedule.is_first(self.schedule.tasks[index])


def reads(times: int) -> Callable[[Runner, int], Iterator[State]]:
    def program(run: Runner, k: int) -> Iterator[State]:
        for _ in range(times):
            run.log.append(k)
            yield VALUE
        run.log.append(k)

    return program


def takes_turn(run: Runner, k: int) -> Iterator[State]:
    run.log.append(k)
    if not run.has_turn(k):
        yield TURN
    assert run.has_turn(k)
    run.log.append(("turn", k))


def test_one_computation_serves_all_that_wait_and_they_go_on_in_order() -> None:
    assert Runner(reads(1), reads(0), reads(2)).run() == [
        0, 1, 2, ("compute", [0, 2], False), 0, 2, ("compute", [2], True), 2,
    ]  # fmt: skip


def test_a_parked_task_goes_on_when_those_before_are_done_and_not_before() -> None:
    log = Runner(reads(2), takes_turn, reads(2)).run()
    assert log == [
        0, 1, 2, ("compute", [0, 2], False), 0, 2, ("compute", [0, 2], False), 0, ("turn", 1), 2,
    ]  # fmt: skip


def test_nothing_is_computed_for_tasks_that_only_want_their_turn() -> None:
    def turn_twice(run: Runner, k: int) -> Iterator[State]:
        yield from takes_turn(run, k)
        yield from takes_turn(run, k)

    log = Runner(turn_twice, turn_twice, turn_twice).run()
    assert not any(isinstance(entry, tuple) and entry[0] == "compute" for entry in log)


def test_what_has_not_begun_may_be_dropped() -> None:
    run = Runner(reads(1), reads(1), reads(1))
    first = run.schedule.begin()
    assert first is not None and run.schedule.ready
    run.go_on(first)
    run.schedule.drop_ready()
    assert not run.schedule.ready and run.schedule.begin() is None
    assert run.schedule.under_way == [first]
    run.schedule.finish(run.go_on, run.compute)
    assert [t.state for t in run.schedule.tasks] == [State.DONE, State.READY, State.READY]
    assert run.schedule.begun == [first]


def test_no_tasks() -> None:
    empty = Schedule[Task]([])
    assert not empty.ready and empty.begin() is None and empty.begun == empty.under_way == []


def test_an_error_in_a_task_leaves_the_schedule_consistent() -> None:
    """An interrupt: who runs the tasks ends those that are under way."""

    def fails(run: Runner, k: int) -> Iterator[State]:
        yield VALUE
        raise KeyboardInterrupt

    run = Runner(reads(2), fails, reads(2))
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert [t.index for t in run.schedule.under_way] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(200))
def test_random_programs(seed: int) -> None:
    """Each task takes its steps in their order; turns come in the order of the tasks; a task that
    waits is served once per computation, and never goes on without one."""
    rng = random.Random(seed)
    plans = [[rng.choice([VALUE, VALUE, TURN]) for _ in range(rng.randrange(5))]
             for _ in range(rng.randrange(1, 8))]  # fmt: skip
    served = [0] * len(plans)

    def program(run: Runner, k: int) -> Iterator[State]:
        for number, step in enumerate(plans[k]):
            if step is VALUE:
                before = len([e for e in run.log if isinstance(e, tuple) and e[0] == "compute"])
                yield VALUE
                after = [e for e in run.log if isinstance(e, tuple) and e[0] == "compute"]
                assert len(after) > before and k in after[-1][1]
                served[k] += 1
            elif not run.has_turn(k):
                yield TURN
            if step is TURN:
                assert run.has_turn(k)
                assert all(t.state is State.DONE for t in run.schedule.tasks[:k])
            run.log.append((k, number))

    run = Runner(*[program] * len(plans))
    log = run.run()
    for k, plan in enumerate(plans):
        assert [e[1] for e in log if isinstance(e, tuple) and e[0] == k] == list(range(len(plan)))
        assert served[k] == plan.count(VALUE)
    for entry in log:
        if isinstance(entry, tuple) and entry[0] == "compute":
            assert entry[1] == sorted(entry[1]) and entry[1]
