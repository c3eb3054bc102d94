"""What runs of a function have shown: whether its examples are better batched, or a plain loop."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import ref

from weft import _C
from weft.batching.alike import alike

_Saved = tuple[float, float]  # forward; backward
_Run = tuple[int, int, Any, _Saved, float]  # examples, mode, graph, saved, as estimated before


def _estimate(saved: _Saved, share: float) -> float:
    return saved[0] + share * saved[1]


class Habit:
    """What runs of a function have shown: whether batching pays, as Note [Worth] estimates.

    Apart for each power of two of the number of examples, and with and without gradients. After a
    run that lost, some go one by one; then batching is tried again, ever more seldom. The first
    runs are taken to be run backward, later ones as often as those before (Note [Graph use]).
    """

    FIRST, FACTOR, MOST = 16, 4, 1024  # runs one by one after a loss in a row
    RUNS = 4  # whose graphs are watched, and of which is remembered whether they ran backward
    HEAVY = -5e7  # ns; what lost so much is not tried again soon
    KEPT = 1 << 20  # bytes of free blocks that are worth giving back

    __slots__ = ("in_order", "loses", "open", "ran_back", "share")

    def __init__(self) -> None:
        self.loses: dict[tuple[int, int], list[int]] = {}  # runs left one by one, of how many
        self.in_order: dict[int, int] = {}  # the same by mode, as the order matters
        self.open: list[_Run] = []
        self.ran_back: dict[tuple[int, int], list[bool]] = {}  # of late, whether runs were
        self.share: dict[tuple[int, int], float] = {}  # of runs that were, of these

    def ran(self, examples: int, mode: int, graph: Any, before: _Saved, after: _Saved) -> None:
        """Remembers a batched run, whose graph may be run backward later."""
        saved = after[0] - before[0], after[1] - before[1]
        estimate = _estimate(saved, self.share.get((examples.bit_length(), mode), 1.0))
        self.note(examples, mode, estimate)
        if estimate < 0:
            self.ran_back.pop((examples.bit_length(), mode), None)  # the next one starts anew
        if saved[1]:
            self.open = [*self.open[1 - self.RUNS :], (examples, mode, graph, saved, estimate)]

    def judge(self) -> None:
        """Estimates runs again of which is known by now whether they were run backward."""
        still: list[_Run] = []
        for run in self.open:
            examples, mode, graph, saved, before = run
            was = _C._graph_use(graph)
            if was is None:
                still.append(run)
                continue
            key = examples.bit_length(), mode
            seen = self.ran_back[key] = [*self.ran_back.get(key, ())[1 - self.RUNS :], was]
            self.share[key] = sum(seen) / len(seen)
            estimate = _estimate(saved, self.share[key])
            if estimate >= 0 or key not in self.loses:
                self.note(examples, mode, estimate)
        self.open = still

    def one_by_one(self, examples: int, mode: int) -> bool:
        """Whether the next run is better a plain loop; counts it."""
        left = self.in_order.get(mode, 0)
        if left > 1:
            self.in_order[mode] = left - 1
            return True
        if left == 1:
            del self.in_order[mode]  # the next run is on probation again
        loss = self.loses.get((examples.bit_length(), mode))
        if loss is None or loss[0] <= 0:
            return False
        # The blocks of a batch are too large for the results of one example.
        if loss[0] == loss[1] and _C._memory_stats()["cached"] > self.KEPT:
            _C._empty_cache()
        loss[0] -= 1
        return True

    def note_order(self, mode: int, matters: bool) -> None:
        self.in_order[mode] = self.MOST if matters else 0

    def pass_on(self) -> None:
        """For another object: that its order does not matter has to be found out again."""
        if self.in_order:
            self.in_order = {mode: left for mode, left in self.in_order.items() if left}

    def note(self, examples: int, mode: int, saved_ns: float) -> None:
        """Remembers what a batched run saved."""
        key = examples.bit_length(), mode
        if saved_ns < 0:
            _, stretch = self.loses.get(key, (0, 0))
            stretch = min(stretch * self.FACTOR or self.FIRST, self.MOST)
            if saved_ns < self.HEAVY:
                stretch = self.MOST
            self.loses[key] = [stretch, stretch]
        else:
            self.loses.pop(key, None)


class _Known:
    """Habits of functions of one key: one for each of the first few objects of a class that are
    alive; an object made when another one has died takes its place."""

    MOST = 4  # of objects with habits of their own; later ones share the last

    __slots__ = ("habits", "named")

    def __init__(self, named: list[ref[Any]]) -> None:
        self.named = named
        self.habits: list[tuple[Habit, list[ref[Any]]]] = []

    def habit(self, objects: list[ref[Any]]) -> Habit:
        heir, most = len(self.habits), -1
        for index, (habit, known) in enumerate(self.habits):
            same = 0
            for old, new in zip(known, objects, strict=False):
                if old is new:  # an object has one ref while it is alive
                    same += 1
                elif old() is not None:
                    break
            else:
                if same == len(known):
                    return habit
                if same > most:
                    heir, most = index, same
        heir = min(heir, self.MOST - 1)
        habit = self.habits[heir][0] if heir < len(self.habits) else Habit()
        habit.pass_on()
        self.habits[heir : heir + 1] = [(habit, objects)]
        return habit


_known: OrderedDict[Any, _Known] = OrderedDict()  # by key, the latest last
_MOST_KNOWN = 1024


def habit_of(fn: Callable[..., Any]) -> Habit:
    """The habit of a function, module, callable object or method.

    A function made anew by the same code over the same modules, as a lambda in a training loop, is
    the same function, whatever numbers, tensors and containers it is over: those may differ in
    every step. So may other objects, but those of a class that are alive at once stay apart.
    """
    named: list[ref[Any]] = []
    objects: list[ref[Any]] = []
    try:
        key = alike(fn, named, objects)
        known = _known.pop(key, None)
    except Exception:  # whatever the object's own attributes raise
        return Habit()
    if known is None or any(one() is None for one in known.named):
        known = _Known(named)  # another may have the address of what is gone
    _known[key] = known
    if len(_known) > _MOST_KNOWN:
        _known.popitem(last=False)
    return known.habit(objects)
