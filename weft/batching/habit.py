"""What runs of a function have shown: whether its examples are better batched, or a plain loop."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

from weft import _C
from weft.batching.alike import alike

_Saved = tuple[float, float]  # ns, as Note [Worth] estimates: forward; backward


class Settings(NamedTuple):
    """How much is remembered, and for how long what lost goes one by one.

    They decide when, never whether: with others a program learns faster or later what pays.
    """

    latest: int = 4
    """Runs that an estimate is over: one that lost little among some that gain changes nothing."""
    first: int = 16
    """Runs one by one after a loss, so that one run in seventeen may lose."""
    factor: int = 4
    """How many times longer after each loss in a row: what goes on losing soon costs nothing."""
    most: int = 1024
    """The longest stretch: then batching is tried again, since what a program does may change."""
    heavy: float = -5e7
    """ns. What lost more than a twentieth of a second goes one by one for `most` runs at once."""
    in_order: int = 1024
    """Runs one by one where the order of the examples matters, then it is looked at again."""
    graphs: int = 4
    """The latest graphs, which are asked whether they were run backward when they are gone."""
    cached: int = 1 << 20
    """Bytes of free blocks that are given back when a stretch begins: a batch's are too large for
    the results of one example."""
    objects: int = 4
    """Of one class, alive at once, that have habits of their own; later ones share the last."""
    functions: int = 1024
    """That are known; the one called longest ago is forgotten."""


SETTINGS = Settings()


class Size:
    """What runs of about one number of examples, in one mode, have shown.

    Batching goes on as long as the latest runs together saved time, so that one that lost little
    among others that gain changes nothing. After a loss some runs go one by one; then batching is
    tried again, ever more seldom. A trial counts for itself: what was before it is forgotten.
    """

    __slots__ = ("left", "ran_back", "saved", "stretch")

    def __init__(self) -> None:
        self.saved: list[_Saved] = []
        self.ran_back: list[bool] = []
        self.left = self.stretch = 0  # runs to go one by one, of how many

    def ran(self, saved: _Saved) -> None:
        before = [] if self.stretch else self.saved[1 - SETTINGS.latest :]
        self.saved = [*before, saved]
        self._decide()

    def judge(self, ran_back: bool) -> None:
        """A run was run backward, or never will be."""
        self.ran_back = [*self.ran_back, ran_back][-len(self.saved) :]
        self._decide()

    @property
    def share(self) -> float:
        """Of runs that are run backward: all as long as nothing is known of any."""
        return sum(self.ran_back) / len(self.ran_back) if self.ran_back else 1.0

    @property
    def estimate(self) -> float:
        """What the latest runs saved, in ns for each."""
        return sum(f + self.share * b for f, b in self.saved) / len(self.saved)

    def _decide(self) -> None:
        estimate = self.estimate
        if estimate >= 0:
            self.left = self.stretch = 0
        elif not self.left:
            self.stretch = min(self.stretch * SETTINGS.factor or SETTINGS.first, SETTINGS.most)
            if estimate < SETTINGS.heavy:
                self.stretch = SETTINGS.most
            self.left = self.stretch


class Habit:
    """What runs of a function have shown: whether batching pays, as Note [Worth] estimates.

    Apart for each power of two of the number of examples, and with and without gradients. Whether a
    run was run backward shows when its graph is gone (Note [Graph use]).
    """

    __slots__ = ("in_order", "open", "sizes")

    def __init__(self) -> None:
        self.sizes: dict[tuple[int, int], Size] = {}  # by bits of the number of examples, mode
        self.in_order: dict[int, int] = {}  # runs left one by one, by mode, as the order matters
        self.open: list[tuple[Size, Any]] = []  # with graphs

    def ran(self, examples: int, mode: int, graph: Any, saved: _Saved) -> None:
        """Remembers a batched run, whose graph may be run backward later."""
        size = self.sizes.setdefault((examples.bit_length(), mode), Size())
        size.ran(saved)
        if saved[1]:
            self.open = [*self.open[1 - SETTINGS.graphs :], (size, graph)]

    def judge(self) -> None:
        """Runs of which is known by now whether they were run backward."""
        still = []
        for size, graph in self.open:
            if (was := _C._graph_use(graph)) is None:
                still.append((size, graph))
            else:
                size.judge(was)
        self.open = still

    def one_by_one(self, examples: int, mode: int) -> bool:
        """Whether the next run is better a plain loop; counts it."""
        left = self.in_order.get(mode, 0)
        if left > 1:
            self.in_order[mode] = left - 1
            return True
        if left == 1:
            del self.in_order[mode]  # the next run is on probation again
        size = self.sizes.get((examples.bit_length(), mode))
        if size is None or not size.left:
            return False
        if size.left == size.stretch and _C._memory_stats()["cached"] > SETTINGS.cached:
            _C._empty_cache()
        size.left -= 1
        return True

    def note_order(self, mode: int, matters: bool) -> None:
        self.in_order[mode] = SETTINGS.in_order if matters else 0

    def pass_on(self) -> None:
        """For another object: that its order does not matter has to be found out again."""
        if self.in_order:
            self.in_order = {mode: left for mode, left in self.in_order.items() if left}


class _Known:
    """Habits of functions of one key: one for each of the first few objects of a class that are
    alive; an object made when another one has died takes its place."""

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
        heir = min(heir, SETTINGS.objects - 1)
        habit = self.habits[heir][0] if heir < len(self.habits) else Habit()
        habit.pass_on()
        self.habits[heir : heir + 1] = [(habit, objects)]
        return habit


_known: OrderedDict[Any, _Known] = OrderedDict()  # by key, the latest last


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
    if len(_known) > SETTINGS.functions:
        _known.popitem(last=False)
    return known.habit(objects)
