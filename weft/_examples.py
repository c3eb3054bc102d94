"""Examples of a batch: each runs in a fiber until it is done or waits for a value.

Or one after the other, where a function's past shows that batching does not pay (`Habit`).
"""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any
from weakref import ref

from weft import _C
from weft._alike import alike
from weft.base.modes import DEFER

if TYPE_CHECKING:
    from weft._fibers import Fiber

_numbers = itertools.count(1)
_owners: dict[int, Any] = {}  # examples by number; none for calls made outside of examples
_GONE = object()  # in place of examples that were interrupted: nobody waits for their errors


class Example:
    """One example under way; `error` or `result` in the end."""

    __slots__ = ("args", "error", "failure", "first", "number", "result", "wants_turn")

    def __init__(self, args: tuple[Any, ...], number: int) -> None:
        self.args, self.number = args, number
        self.failure: BaseException | None = None  # of a call of its own that a flush ran
        self.wants_turn = False
        self.first = False  # all examples before it are done
        self.error: BaseException | None = None
        self.result: Any = None


def _run(
    fn: Callable[..., Any],
    examples: list[tuple[Any, ...]],
    kwargs: dict[str, Any],
    settle: bool,
    probe: bool,
) -> tuple[list[Example], bool | None]:
    """`fn(*example, **kwargs)` for every example, in fibers; `settle`: results get their memory.

    A fiber takes the next example when it is done with its own, so a function that reads nothing
    needs one for all examples.

    Note [Probe]
    An example that waits for a value lets those after it read what it may write later. With `probe`
    the first one that waits goes on alone to its end. If it changed what examples share, ran a
    backward pass or drew numbers between its values, then the order of the examples matters so much
    that batching gains nothing: the others are left out of the list that this returns, for the
    plain loop. Returned with it is whether that is so; None: no example was on probation.
    """
    from weft import _fibers

    mode, dtype, context = _C._mode(), _C.get_default_dtype(), copy_context()
    all_of = [Example(args, next(_numbers)) for args in examples]
    _owners.update((example.number, example) for example in all_of)
    todo: deque[Example] = deque(all_of)
    waiting: list[Fiber] = []
    resumed: deque[Fiber] = deque()
    parked: list[tuple[int, Fiber]] = []  # a heap: until all examples before theirs are done
    probing, verdict = False, None

    def work(fiber: Fiber) -> None:
        nonlocal dtype
        while todo:
            fiber.example = example = todo.popleft()
            fiber.gr_context = context.copy()
            example.first = not waiting
            _C._set_mode(mode | DEFER)
            _C._set_owner(example.number)
            try:
                example.result = fn(*example.args, **kwargs)
            except Exception as error:
                example.error = error
            dtype = _C.get_default_dtype()
            if probing:
                break

    def back() -> None:  # to the state of the caller
        _C._set_mode(mode)
        _C._set_owner(owner)

    def resume(fiber: Fiber) -> bool:
        """Whether it is done."""
        example = fiber.example
        failure, example.failure = example.failure, None
        back_from = fiber.switch() if failure is None else fiber.throw(failure)
        if _fibers.is_done(fiber, back_from):
            _fibers.give_back(fiber)
            return True
        return False

    def compute() -> None:
        back()
        if not _C._wait():
            flush("values that are read")

    def order_matters(fiber: Fiber) -> bool:
        nonlocal probing
        changes, draws = _C._order()
        probing = True
        _C._set_at_once(True)
        resumed.append(fiber)
        compute()
        while not resume(resumed.popleft()):
            resumed.append(fiber)
            compute()
        probing = False
        _C._set_at_once(False)
        now, drawn = _C._order()
        return bool(now > changes or drawn > draws + 1)

    owner, at_once = _C._set_owner(0), _C._set_at_once(False)
    nested = _fibers.runs()
    first = all_of[0].number if all_of else 0
    outer = _C._begin_batch(first, all_of[-1].number - first + 1 if all_of else 0)
    try:
        while todo:
            fiber = _fibers.take(work)
            if _fibers.is_done(fiber, fiber.switch()):
                _fibers.give_back(fiber)
            elif probe and todo and not nested:
                probe = False
                verdict = order_matters(fiber)
                if verdict:
                    break
            else:
                waiting.append(fiber)
                _C.set_default_dtype(dtype)
        while waiting or parked:
            compute()
            # The last one goes on as the plain loop would: it has read a value.
            _C._set_at_once(len(waiting) + len(parked) == 1 and not nested)
            resumed, waiting = deque(waiting), []
            while resumed or (parked and not waiting):  # waiting: those before are not done
                ahead = parked and (not resumed or parked[0][0] < resumed[0].example.number)
                fiber = heappop(parked)[1] if ahead and not waiting else resumed.popleft()
                example = fiber.example
                example.first = not waiting
                if example.wants_turn and not example.first:
                    heappush(parked, (example.number, fiber))
                elif not resume(fiber):
                    waiting.append(fiber)
    except BaseException:
        todo.clear()
        for fiber in (*waiting, *resumed, *(fiber for _, fiber in parked)):
            fiber.throw()  # an interrupt: the others end where they wait
        _owners.update(dict.fromkeys((example.number for example in all_of), _GONE))
        raise
    finally:
        _C._set_at_once(at_once)
        _C._end_batch(outer)
        back()
    for example in todo:
        del _owners[example.number]
    del all_of[len(all_of) - len(todo) :]
    if mode & DEFER:  # what still waits belongs to whoever runs this
        heir = _owners.get(owner)
        for example in all_of:
            if heir is None:
                del _owners[example.number]
            else:
                _owners[example.number] = heir
    else:
        flush("the end")
        mine = set(all_of)
        for number, owning in list(_owners.items()):  # those of inner batches too
            if owning in mine:
                del _owners[number]
        for example in all_of:
            if example.failure is not None:  # before whatever Python raised later
                example.error = example.failure
            elif example.error is None and settle:
                try:
                    _C._settle(example.result)
                except Exception as error:
                    example.error = error
    return all_of, verdict


def run_batched(
    fn: Callable[..., Any],
    examples: list[tuple[Any, ...]],
    kwargs: dict[str, Any],
    step: int,
    settle: bool = True,
    probe: bool = False,
) -> tuple[list[Any], bool | None]:
    """The results of all examples, `step` at once, and whether their order matters, if known.

    With `probe` that is found out (Note [Probe]). Raises the first exception by example. Without
    `settle` the tensors in the results are computed, but lie in the blocks of their batches.
    """
    _C._take_stale()  # of a run that raised
    done: list[Example] = []
    matters: bool | None = None
    while len(done) < len(examples) and not matters:
        some = examples[len(done) : len(done) + step]
        some_done, verdict = _run(fn, some, kwargs, settle, probe and matters is None)
        done += some_done
        matters = verdict if matters is None else matters
    rest = examples[len(done) :]
    results, failure = _C._one_by_one(fn, rest, kwargs) if rest else ([], None)
    for index, example in enumerate(done):
        if example.error is not None:
            raise _noted(example.error, index, len(examples))
    if failure is not None:
        raise _noted(failure[1], len(done) + failure[0], len(examples))
    if _warn_of_stale(fn):
        matters = True
    return [example.result for example in done] + results, matters


def _warn_of_stale(fn: Callable[..., Any]) -> bool:
    line = _C._take_stale()
    if line is None:
        return False
    warnings.warn(
        f"[autobatch] expected an example to change what examples share before later ones read it, "
        f"got a change at {line} that came too late for one of them, as the example had waited for "
        f"a value: what it read is not what the plain loop reads. Hint: the next calls of "
        f"{getattr(fn, '__qualname__', type(fn).__name__)} are a plain loop, as all are with "
        f"`weft.autobatch.enabled = False`",
        stacklevel=4,
    )
    return True


def run_one_by_one(
    fn: Callable[..., Any], examples: list[tuple[Any, ...]], kwargs: dict[str, Any]
) -> list[Any]:
    """The same in a plain loop; also there an example is alone with its modes and exceptions."""
    results: list[Any]
    results, failure = _C._one_by_one(fn, examples, kwargs)
    if failure is not None:
        index, error = failure
        raise _noted(error, index, len(examples))
    return results


def _noted(error: Any, index: int, examples: int) -> Any:
    with suppress(Exception):  # a class of the user's may refuse notes
        error.add_note(f"in example {index} of {examples}")
    return error


_Saved = tuple[float, float, float]  # forward; backward, of calls; of batches
_Share = tuple[float, float]  # of calls, of batches: how much was run backward
_Run = tuple[int, int, int, _Saved, float]  # examples, mode, graph, saved, as estimated before
_ALL: _Share = (1.0, 1.0)


def _estimate(saved: _Saved, share: _Share) -> float:
    return saved[0] + share[0] * saved[1] + share[1] * saved[2]


class Habit:
    """What runs of a function have shown: whether batching pays, as Note [Worth] estimates.

    Apart for each power of two of the number of examples, and with and without gradients. After a
    run that lost, some go one by one; then batching is tried again, ever more seldom. The first
    runs are taken to be run backward as a whole, later ones as those before (Note [Graph use]).
    """

    FIRST, FACTOR, MOST = 16, 4, 1024  # runs one by one after a loss in a row
    RUNS = 4  # whose graphs are watched, and whose shares are remembered
    HEAVY = -5e7  # ns; what lost so much is not tried again soon
    KEPT = 1 << 20  # bytes of free blocks that are worth giving back

    __slots__ = ("in_order", "loses", "open", "share", "shares")

    def __init__(self) -> None:
        self.loses: dict[tuple[int, int], list[int]] = {}  # runs left one by one, of how many
        self.in_order: dict[int, int] = {}  # the same by mode, as the order matters
        self.open: list[_Run] = []
        self.shares: dict[tuple[int, int], list[_Share]] = {}  # seen of late
        self.share: dict[tuple[int, int], _Share] = {}  # their mean

    def ran(self, examples: int, mode: int, graph: int, before: _Saved, after: _Saved) -> None:
        """Remembers a batched run, whose graph may be run backward later."""
        saved = after[0] - before[0], after[1] - before[1], after[2] - before[2]
        estimate = _estimate(saved, self.share.get((examples.bit_length(), mode), _ALL))
        self.note(examples, mode, estimate)
        if estimate < 0:
            self.shares.pop((examples.bit_length(), mode), None)  # the next one starts anew
        if saved[1]:
            self.open = [*self.open[1 - self.RUNS :], (examples, mode, graph, saved, estimate)]

    def judge(self) -> None:
        """Estimates runs again whose graphs are gone by now, by how much was run backward."""
        still: list[_Run] = []
        for run in self.open:
            examples, mode, graph, saved, before = run
            share = _C._graph_use(graph)
            if share is None:
                still.append(run)
            if not share:
                continue
            key = examples.bit_length(), mode
            seen = self.shares[key] = [*self.shares.get(key, ())[1 - self.RUNS :], share]
            calls, batches = (sum(part) / len(seen) for part in zip(*seen, strict=True))
            self.share[key] = calls, batches
            estimate = _estimate(saved, (calls, batches))
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


def flush(reason: str) -> None:
    """Computes all that waits; hands failures to the examples whose calls failed."""
    _C._flush(reason)
    for number, error in _C._failures():
        example = _owners.get(number)
        if example is None:
            raise error
        if example is not _GONE and example.failure is None:
            example.failure = error
