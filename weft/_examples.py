"""Examples of a batch: each runs in a fiber until it is done or waits for a value.

Or one after the other, where a function's past shows that batching does not pay (`Habit`).
"""

from __future__ import annotations

import functools
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from weft import _C
from weft._modes import DEFER

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
) -> list[Example]:
    """`fn(*example, **kwargs)` for every example, in fibers; `settle`: results get their memory.

    A fiber takes the next example when it is done with its own, so a function that reads nothing
    needs one for all examples.
    """
    from weft import _fibers

    mode, dtype, context = _C._mode(), _C.get_default_dtype(), copy_context()
    all_of = [Example(args, next(_numbers)) for args in examples]
    _owners.update((example.number, example) for example in all_of)
    todo: deque[Example] = deque(all_of)
    waiting: list[Fiber] = []
    resumed: deque[Fiber] = deque()

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

    def back() -> None:  # to the state of the caller
        _C._set_mode(mode)
        _C._set_owner(owner)

    owner, at_once = _C._set_owner(0), _C._set_at_once(False)
    first = all_of[0].number if all_of else 0
    outer = _C._begin_batch(first, all_of[-1].number - first + 1 if all_of else 0)
    nested = _fibers.runs()
    try:
        while todo:
            fiber = _fibers.take(work)
            if _fibers.is_done(fiber, fiber.switch()):
                _fibers.give_back(fiber)
            else:
                waiting.append(fiber)
                _C.set_default_dtype(dtype)
        while waiting:
            back()
            if not _C._wait():
                flush("values that are read")
            # The last one goes on as the plain loop would: it has read a value.
            _C._set_at_once(len(waiting) == 1 and not nested)
            resumed, waiting = deque(waiting), []
            while resumed:
                fiber = resumed.popleft()
                example = fiber.example
                example.first = not waiting
                if example.wants_turn and waiting:
                    waiting.append(fiber)
                    continue
                failure, example.failure = example.failure, None
                back_from = fiber.switch() if failure is None else fiber.throw(failure)
                if _fibers.is_done(fiber, back_from):
                    _fibers.give_back(fiber)
                else:
                    waiting.append(fiber)
    except BaseException:
        todo.clear()
        for fiber in (*waiting, *resumed):
            fiber.throw()  # an interrupt: the others end where they wait
        _owners.update(dict.fromkeys((example.number for example in all_of), _GONE))
        raise
    finally:
        _C._set_at_once(at_once)
        _C._end_batch(outer)
        back()
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
    return all_of


def run_batched(
    fn: Callable[..., Any],
    examples: list[tuple[Any, ...]],
    kwargs: dict[str, Any],
    step: int,
    settle: bool = True,
) -> list[Any]:
    """The results of all examples, `step` at once. Raises the first exception by example.

    Without `settle` the tensors in them are computed, but lie in the blocks of their batches.
    """
    done: list[Example] = []
    for start in range(0, len(examples), step):
        done += _run(fn, examples[start : start + step], kwargs, settle)
    for index, example in enumerate(done):
        if example.error is not None:
            raise _noted(example.error, index, len(done))
    return [example.result for example in done]


def run_one_by_one(
    fn: Callable[..., Any], examples: list[tuple[Any, ...]], kwargs: dict[str, Any]
) -> list[Any]:
    """The same in a plain loop; also there an example is alone with its modes and exceptions."""
    results, failure = _C._one_by_one(fn, examples, kwargs)
    if failure is not None:
        index, error = failure
        raise _noted(error, index, len(examples))
    return results


def _noted(error: Any, index: int, examples: int) -> Any:
    with suppress(Exception):  # a class of the user's may refuse notes
        error.add_note(f"in example {index} of {examples}")
    return error


class Habit:
    """What runs of a function have shown: whether batching pays, as Note [Worth] estimates.

    Apart for each power of two of the number of examples, and with and without gradients. After a
    run that lost, some go one by one; then batching is tried again, ever more seldom.
    """

    FIRST, FACTOR, MOST = 16, 4, 1024  # runs one by one after a loss in a row
    HEAVY = -5e7  # ns; what lost so much is not tried again soon
    KEPT = 1 << 20  # bytes of free blocks that are worth giving back

    __slots__ = ("loses",)

    def __init__(self) -> None:
        self.loses: dict[tuple[int, int], list[int]] = {}  # runs left one by one, of how many

    def one_by_one(self, examples: int, mode: int) -> bool:
        """Whether the next run is better a plain loop; counts it."""
        loss = self.loses.get((examples.bit_length(), mode))
        if loss is None or loss[0] <= 0:
            return False
        # The blocks of a batch are too large for the results of one example.
        if loss[0] == loss[1] and _C._memory_stats()["cached"] > self.KEPT:
            _C._empty_cache()
        loss[0] -= 1
        return True

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


_habits: WeakKeyDictionary[Any, dict[Any, Habit]] = WeakKeyDictionary()  # by object, and method
# Of functions, which are often made anew; with what their keys name by address.
_recent: OrderedDict[Any, tuple[Habit, list[ref[Any]]]] = OrderedDict()
_MOST_RECENT = 256


def habit_of(fn: Callable[..., Any]) -> Habit:
    """The habit of a function, module, callable object or method.

    A function made anew by the same code over the same objects, as a lambda in a training loop, is
    the same function, whatever numbers and tensors it is over: those may differ in every step. What
    allows no key has a habit of its own.
    """
    alive: list[ref[Any]] = []
    key = _alike(fn, alive)
    while isinstance(fn, functools.partial):
        fn = fn.func
    if isinstance(fn, FunctionType):
        habit, named = _recent.pop(key, (Habit(), alive))
        if any(one() is None for one in named):  # another object may have its address by now
            habit, named = Habit(), alive
        _recent[key] = habit, named
        if len(_recent) > _MOST_RECENT:
            _recent.popitem(last=False)
        return habit
    owner, method = (fn.__self__, fn.__func__) if isinstance(fn, MethodType) else (fn, None)
    try:
        return _habits.setdefault(owner, {}).setdefault((method, key), Habit())
    except Exception:  # whatever the object's own __hash__ or __eq__ raises
        return Habit()


def _alike(value: Any, alive: list[ref[Any]], depth: int = 3) -> Any:
    """A key shared by values that make no difference; notes in `alive` what it names."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if depth == 0 or kind in (int, float, complex) or isinstance(value, _C.Tensor):
        return kind
    if kind is FunctionType:
        inside = (*map(_content, value.__closure__ or ()), *(value.__defaults__ or ()))
        return (value.__code__, *(_alike(v, alive, depth - 1) for v in inside))
    if kind is MethodType:
        return _alike(value.__func__, alive, depth), _alike(value.__self__, alive, depth - 1)
    if kind is functools.partial:
        inside = (value.func, *value.args, *value.keywords, *value.keywords.values())
        return (kind, *(_alike(v, alive, depth - 1) for v in inside))
    try:
        alive.append(ref(value))
    except TypeError:  # a list, a dict
        return kind, len(value) if kind in (list, tuple, dict, set) else 0
    return id(value)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def flush(reason: str) -> None:
    """Computes all that waits; hands failures to the examples whose calls failed."""
    _C._flush(reason)
    for number, error in _C._failures():
        example = _owners.get(number)
        if example is None:
            raise error
        if example is not _GONE and example.failure is None:
            example.failure = error
