"""Which of several tasks runs next, where tasks wait for values and for one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar


class State(Enum):
    """Where a task stands."""

    READY = "ready"  # has not begun
    RUNNING = "running"
    WAITING = "waiting"  # for a value: until all that waits is computed
    PARKED = "parked"  # until all tasks before it are done
    DONE = "done"


# A look-up in an Enum's class costs Python 3.11 some forty of a module's.
READY, RUNNING, WAITING, PARKED, DONE = State


class Task:
    """What a schedule knows of a task: its place in the order, where it stands, and what it stops
    for when it stops next."""

    __slots__ = ("index", "rest", "state", "stops_for")

    def __init__(self, index: int) -> None:
        self.index = index
        self.state = READY
        self.stops_for = WAITING
        self.rest: Any = None  # of one that has stopped and waits in no fiber


T = TypeVar("T", bound=Task)


class Schedule(Generic[T]):
    """Tasks in the order of a list, where each is at its index.

    They begin in that order. When all that began wait for a value or are parked, `compute` serves
    all that wait at once; then these go on, in order again. A parked task goes on as soon as all
    before it are done, without being asked before.

    >>> tasks = [Task(0), Task(1)]
    >>> schedule = Schedule(tasks)
    >>> schedule.begin() is tasks[0], schedule.stopped(tasks[0])
    (True, None)
    >>> [task.state.value for task in tasks]
    ['waiting', 'ready']
    """

    __slots__ = ("_first", "_parked", "_ready", "served", "tasks", "waiting")

    def __init__(self, tasks: Iterable[T]) -> None:
        self.tasks = list(tasks)
        self._ready: Iterator[T] | None = iter(self.tasks)
        self.waiting: list[T] = []  # always in order
        self.served: list[T] = []  # those whose values are there, the first one last
        self._parked: list[tuple[int, T]] = []  # a heap
        self._first = 0  # the first task that is not done

    @property
    def ready(self) -> bool:
        """Whether some have not begun."""
        return self._ready is not None and (bool(self.tasks) and self.tasks[-1].state is READY)

    @property
    def stops(self) -> bool:
        """Whether some have stopped and wait to go on."""
        return bool(self.waiting or self._parked)

    @property
    def begun(self) -> list[T]:
        """The tasks that began, in order."""
        return [task for task in self.tasks if task.state is not READY]

    @property
    def under_way(self) -> list[T]:
        """The tasks that began and are not done, in order."""
        return [t for t in self.tasks if t.state not in (READY, DONE)]

    def is_first(self, task: T) -> bool:
        """Whether all tasks before it are done; once true, that stays so."""
        return task.index == self._first

    def begin(self) -> T | None:
        """The next task that has not begun, which runs from now on; None if there is none."""
        task = next(self._ready, None) if self._ready is not None else None
        if task is not None:
            task.state = RUNNING
        return task

    def drop_ready(self) -> None:
        """What has not begun never will."""
        self._ready = None

    def stopped(self, task: T) -> None:
        """A task that ran stops: for a value, or to be parked (`task.stops_for`)."""
        task.state = task.stops_for
        if task.state is PARKED:
            heappush(self._parked, (task.index, task))
        else:
            self.waiting.append(task)

    def done(self, task: T) -> None:
        """A task that ran has come to its end."""
        task.state = DONE
        if task.index == self._first:
            tasks, first = self.tasks, self._first
            while first < len(tasks) and tasks[first].state is DONE:
                first += 1
            self._first = first

    def finish(self, go_on: Callable[[T], None], compute: Callable[[bool], None]) -> None:
        """Runs all tasks that have begun to their end.

        `compute(last)` serves those that wait; `last` tells that only one task is under way.
        `go_on(task)` runs a task until it calls `stopped` or `done`; it may take more of `served`.
        """
        while self.waiting or self._parked:
            if self.waiting:
                compute(len(self.waiting) + len(self._parked) == 1)
            served, self.waiting = self.waiting, []
            self.served = served[::-1]
            while (task := self._next()) is not None:
                task.state = RUNNING
                go_on(task)

    def _next(self) -> T | None:
        if self._parked and self._parked[0][0] == self._first:
            return heappop(self._parked)[1]
        return self.served.pop() if self.served else None

    def put_back(self, task: T) -> None:
        """`task`, which `finish` has just handed out, is the next one again."""
        self.served.append(task)
