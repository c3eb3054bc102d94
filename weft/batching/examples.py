"""Examples of a batch: each runs in a fiber until it is done or waits for a value.

One that is the call of a compiled function may wait without (Note [Examples without fibers] in
python/example_run.h).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from types import ModuleType
from typing import TYPE_CHECKING, Any

from weft import _C
from weft.base.modes import DEFER
from weft.batching.schedule import Schedule, Task

if TYPE_CHECKING:
    from weft.batching.fibers import Fiber


class _Owners(threading.local):
    """Who answers for the calls that wait on the thread."""

    def __init__(self) -> None:
        self.by_number: dict[int, Example | None] = {}  # None: interrupted, nobody waits for it
        self.interrupted: list[int] = []  # forgotten when what waits has run

    def interrupt(self, number: int) -> None:
        self.by_number[number] = None
        self.interrupted.append(number)


_owners = _Owners()


class Example(Task):
    """One example under way; `error` or `result` in the end."""

    __slots__ = ("args", "error", "failure", "fiber", "heir", "number", "result")

    def __init__(self, index: int, args: tuple[Any, ...]) -> None:
        Task.__init__(self, index)  # super() costs twice as much, and a batch has many examples
        self.args = args
        self.number = 0  # as the core calls it
        self.heir: Example | None = None  # who answers for its calls when its batch is over
        self.fiber: Any = None  # that runs it, or in which it waits
        self.failure: BaseException | None = None  # of a call of its own that a flush ran
        self.error: BaseException | None = None
        self.result: Any = None


class Run:
    """`fn(*example, **kwargs)` for some examples at once, in fibers.

    A fiber takes the next example when it is done with its own, so a function that reads nothing
    needs one for all examples. The first example that fails is the last one to begin: those under
    way go on to their end, the others would have no result in the plain loop either.

    Note [Probe]
    An example that waits for a value lets those after it read what it may write later. With `probe`
    the first one that waits goes on alone to its end. If it changed what examples share, or ran a
    backward pass or drew numbers between its values, then the order of the examples matters so much
    that batching gains nothing: no other begins. `order_matters` tells whether that is so; None: no
    example was on probation. `stale` is the first line that changed what a later example had read.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        examples: list[tuple[Any, ...]],
        kwargs: dict[str, Any],
        first: int,
        fibers: ModuleType,
    ) -> None:
        self._fn, self._kwargs, self._fibers = fn, kwargs, fibers
        self._mode, self._context = _C._mode(), copy_context()
        self._nested = fibers.runs()
        self._first, self._caller = first, _C._users_frame()
        self._probing = self._may_probe = False
        self._stopped = 0  # examples that a value or a turn was awaited in: a fiber each
        self._schedule = Schedule(map(Example, range(len(examples)), examples))
        self.order_matters: bool | None = None
        self.stale: str | None = None

    def run(self, probe: bool) -> list[Example]:
        """The examples that began, all done."""
        schedule = self._schedule
        batch = _C._begin_batch(len(schedule.tasks), self._first)
        try:
            owners = _owners.by_number
            for number, example in enumerate(schedule.tasks, batch + 1):
                example.number = number
                owners[number] = example
            self._begin_all(probe and not self._nested)
            schedule.finish(self._go_on, self._compute)
        except BaseException:
            self._interrupt()
            raise
        finally:
            self.stale = _C._end_batch(batch, self._stopped)
            if not self._nested:
                self._fibers.let_go(self._stopped)
        begun = schedule.begun
        for example in schedule.tasks[len(begun) :]:
            del _owners.by_number[example.number]
        return begun

    def _begin_all(self, probe: bool) -> None:
        self._may_probe = probe
        while self._schedule.ready:
            fiber = self._fibers.take(self._work, self._caller)
            in_fiber = not self._switch(fiber, fiber.switch())
            self._stopped += in_fiber
            if self._may_probe and self._schedule.ready and (in_fiber or self._schedule.stops):
                self._may_probe = False
                self.order_matters = self._probe()
                if self.order_matters:
                    return self._schedule.drop_ready()
        return None

    def _work(self, fiber: Fiber) -> None:
        """What a fiber does: one example after the other, until one of them stops in it.

        Nothing that an error may reach holds the fiber afterwards: an idle one that the garbage
        collection ends runs once more, amid the collection, and then frees what that is about to.
        """
        schedule = self._schedule
        while (example := schedule.begin()) is not None:
            fiber.example, fiber.schedule, example.fiber = example, schedule, fiber
            _C._enter_example(example.number)
            try:
                result = _C._run_example(self._fn, example.args, self._kwargs, self._context)
            except Exception as error:
                self._ended(example, error)
            except BaseException:
                _C._leave_example()
                raise
            else:
                if type(result) is _C._Waiting:
                    example.rest, example.fiber = result, None
                    schedule.stopped(example)
                    if self._may_probe:
                        break
                    continue
                example.result = result
                self._ended(example, None)
            if self._probing:
                break
        del fiber  # from the frame, which a traceback may keep

    def _resume(self, fiber: Fiber) -> None:
        """The same for examples that wait in no fiber, and whose values are there."""
        fiber.schedule = self._schedule
        goes_on = True
        while goes_on:
            try:
                ended = _C._resume_examples(fiber, self._schedule)
            except Exception as error:
                self._ended(fiber.example, error)
            except BaseException:
                _C._leave_example()
                raise
            else:
                goes_on = ended is not None
                if goes_on:
                    fiber.example.result = ended[0]
                    self._ended(fiber.example, None)
        del fiber

    def _ended(self, example: Example, error: Exception | None) -> None:
        _C._leave_example()
        example.error, example.fiber = error, None
        if error is not None:
            self._schedule.drop_ready()
        self._schedule.done(example)

    def _switch(self, fiber: Fiber, returned: Any) -> bool:
        """Notes how a fiber came back; whether its work is done."""
        if self._fibers.is_done(fiber, returned):
            self._fibers.give_back(fiber)
            return True
        self._schedule.stopped(fiber.example)
        return False

    def _go_on(self, example: Example) -> None:
        fiber = example.fiber
        waits_apart = fiber is None
        if waits_apart:
            self._schedule.put_back(example)
            fiber = self._fibers.take(self._resume, self._caller)
            returned = fiber.switch()
        else:
            failure, example.failure = example.failure, None
            returned = fiber.switch() if failure is None else fiber.throw(failure)
        if returned is True or fiber.dead:
            self._switch(fiber, returned)
        else:  # most often
            self._stopped += waits_apart
            self._schedule.stopped(fiber.example)

    def _compute(self, last: bool) -> None:
        if not _C._wait():  # for whoever is around this batch
            flush("values that are read")
        # The last one goes on as the plain loop would: it has read a value.
        _C._set_at_once(self._probing or (last and not self._nested))

    def _probe(self) -> bool:
        _, draws = _C._order()
        self._probing = True
        _C._set_at_once(True)
        self._schedule.finish(self._go_on, self._compute)
        self._probing = False
        _C._set_at_once(False)
        # Also a change before the first value: the next ones would wait for their turn with theirs,
        # having read before it.
        changes, drawn = _C._order()
        return bool(changes or drawn > draws + 1)

    def _interrupt(self) -> None:
        """The examples under way end where they wait; what they read then is computed at once."""
        self._schedule.drop_ready()
        for example in self._schedule.tasks:
            _owners.interrupt(example.number)
        failed = None
        _C._stay(1)
        for example in self._schedule.under_way:
            try:
                if example.rest is not None:
                    self._end(example)
                elif example.fiber is not None:  # a signal may come before it has one, or after
                    example.fiber.throw()
            except BaseException as error:  # noqa: BLE001 of the user's cleaning up
                failed = failed or error
        _C._stay(-1)
        if failed is not None:
            raise failed

    def _end(self, example: Example) -> None:
        """As a fiber ends by `throw`."""
        rest, example.rest = example.rest, None
        ending = self._fibers.GreenletExit()
        try:
            _C._end_example(rest, ending)
        except self._fibers.GreenletExit as error:
            if error is not ending:
                raise
        finally:
            _C._leave_example()

    def conclude(self, begun: list[Example], settle: bool) -> None:
        """What the examples left is computed; `settle`: results get their memory, else they lie in
        the blocks of their batches."""
        if self._mode & DEFER:  # what still waits belongs to whoever runs this
            number, owners = _C._example(), _owners.by_number
            heir = owners.get(number)
            for example in begun:
                if heir is not None:
                    example.heir = heir
                elif number in owners:
                    _owners.interrupt(example.number)
                else:
                    del owners[example.number]
            return
        flush("the end")
        owners = _owners.by_number
        for example in begun:
            owners.pop(example.number, None)
        if owners:  # those of inner batches too
            mine = set(begun)
            for number, owner in list(owners.items()):
                if _answers(owner) in mine:
                    del owners[number]
        for example in begun:
            if example.failure is not None:  # before whatever Python raised later
                example.error = example.failure
            elif example.error is None and settle:
                try:
                    _C._settle(example.result)
                except Exception as error:
                    example.error = error


def run_batched(
    fn: Callable[..., Any],
    columns: list[list[Any]],
    kwargs: dict[str, Any],
    step: int,
    settle: bool = True,
    probe: bool = False,
) -> tuple[list[Any], bool | None]:
    """The results of all examples, `step` at once, and whether their order matters, if known.

    `columns` are a list for each argument.

    With `probe` that is found out (Note [Probe]). Raises the first exception by example. Without
    `settle` the tensors in the results are computed, but lie in the blocks of their batches.
    """
    from weft.batching import fibers

    examples = [*zip(*columns, strict=True)]
    results: list[Any] = []
    if not hasattr(fibers, "complete"):  # a signal handler, amid this import: none is under way
        return run_one_by_one(fn, columns, kwargs), None
    stale: str | None = None
    matters: bool | None = None
    while len(results) < len(examples) and not matters:
        first = len(results)
        run = Run(fn, examples[first : first + step], kwargs, first, fibers)
        begun = run.run(probe and matters is None)
        run.conclude(begun, settle)
        for example in begun:
            if example.error is not None:
                raise _noted(example.error, len(results), len(examples))
            results.append(example.result)
        stale = stale or run.stale
        matters = run.order_matters if matters is None else matters
    results += run_one_by_one(fn, columns, kwargs, len(results))
    if stale is not None:
        _warn_of_stale(fn, stale)
        matters = True
    return results, matters


def run_one_by_one(
    fn: Callable[..., Any], columns: list[list[Any]], kwargs: dict[str, Any], first: int = 0
) -> list[Any]:
    """The results of the examples from `first` on by a plain loop, where too each is alone with its
    modes."""
    results: list[Any]
    n = len(columns[0])
    results, error = _C._one_by_one(fn, columns, kwargs, first) if first < n else ([], None)
    if error is not None:
        raise _noted(error, first + len(results), n)
    return results


def _warn_of_stale(fn: Callable[..., Any], place: str) -> None:
    warnings.warn(
        f"[autobatch] expected an example to change what examples share before later ones read it, "
        f"got a change in {place} that came too late for one of them, as the example had waited "
        f"for a value: what it read is not what the plain loop reads. Hint: the next calls of "
        f"{getattr(fn, '__qualname__', type(fn).__name__)} are a plain loop, as all are with "
        f"`weft.autobatch.enabled = False`",
        stacklevel=4,
    )


def _noted(error: Any, index: int, examples: int) -> Any:
    with suppress(Exception):  # a class of the user's may refuse notes
        error.add_note(f"in example {index} of {examples}")
    return error


def _answers(owner: Example | None) -> Example | None:
    while owner is not None and owner.heir is not None:
        owner = owner.heir
    return owner


def flush(reason: str) -> None:
    """Computes all that waits; hands failures to the examples whose calls failed."""
    _C._flush(reason)
    owners = _owners.by_number
    for number, error in _C._failures():
        if number not in owners:
            raise error
        example = _answers(owners[number])
        if example is not None and example.failure is None:
            example.failure = error
    while _owners.interrupted:
        owners.pop(_owners.interrupted.pop(), None)
