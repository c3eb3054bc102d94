"""Fibers: examples that wait for values, each on a stack of Python frames of its own (greenlet).

Imported by the first batch; greenlet takes longer to import than all else in weft.batching.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit as GreenletExit
from greenlet import getcurrent, greenlet

from weft import _C
from weft.batching.schedule import PARKED, WAITING

if TYPE_CHECKING:
    from collections.abc import Callable


class Fiber(greenlet):
    """Does one piece of work after the other. A switch to it returns True when the work is done."""

    example: Any
    schedule: Any  # that it belongs to
    work: Any  # a function of the fiber
    caller: Any  # the user's frame that called the batch
    loop: Any  # asyncio's, which runs where the batch was called


def _go_on() -> None:
    while True:
        fiber: Any = getcurrent()
        _C._go_back_to(fiber.caller)
        _C._take_depth()
        try:
            fiber.work(fiber)
        finally:
            _C._go_back_to(None)
        fiber.example = fiber.schedule = fiber.work = fiber.caller = None
        fiber.loop = fiber.gr_context = None
        del fiber  # an idle one that its own frame held would live forever
        getcurrent().parent.switch(True)


class _Idle(threading.local):
    """Fibers for the next batch: a new stack costs some 20 us, an idle one holds 8 KB."""

    def __init__(self) -> None:
        self.fibers: list[Fiber] = []


_idle = _Idle()


def take(work: Callable[[Fiber], None], caller: Any) -> Fiber:
    """A fiber that will do `work(fiber)`; whoever takes it is told when it waits or is done.

    To debuggers and printed stacks the frame `caller` lies around it.
    """
    fibers = _idle.fibers
    try:
        fiber = fibers.pop()
        fiber.parent = getcurrent()
    except IndexError:
        fiber = Fiber(partial(_C._shield, _go_on))
    fiber.work, fiber.caller = work, caller
    events = sys.modules.get("asyncio.events")
    fiber.loop = events and events._get_running_loop()
    return fiber


def give_back(fiber: Fiber) -> None:
    """Keeps a fiber whose work is done."""
    _idle.fibers.append(fiber)


def let_go(needed: int) -> None:
    """After a batch that needed so many fibers: of the idle ones beyond, a 64th ends.

    So a thread holds the memory that its largest batch of late took in any case, and the next one
    as large finds nearly all of its fibers, also where smaller ones ran in between.
    """
    fibers = _idle.fibers
    if (surplus := (len(fibers) - needed) >> 6) > 0:
        del fibers[:surplus]


def is_done(fiber: Fiber, returned: Any) -> bool:
    """Whether the work is done, from what the switch to it returned."""
    if fiber.dead:  # by a GreenletExit of the user's, which a switch returns instead of raising
        raise returned
    return returned is True


def runs() -> bool:
    """Whether the caller is in a fiber."""
    return isinstance(getcurrent(), Fiber)


def turn(levels: int, draws: bool) -> bool:
    """Parks the example until all examples before it are done, on so many levels.

    `draws`: to draw random numbers, for the report. Returns whether they are done: some places
    allow no waiting.
    """
    level: Any = getcurrent()
    if not isinstance(level, Fiber):
        return False
    while isinstance(level, Fiber):  # who is first stays so: from the inside out
        example = level.example
        if not level.schedule.is_first(example):
            _C._note_parked(draws)
        while not level.schedule.is_first(example):
            example.stops_for = PARKED
            waited = _C._wait()
            example.stops_for = WAITING
            if not waited:
                return False
        levels -= 1
        level = level.parent if levels else None
    return True


_C._set_host(Fiber, turn)
complete = True  # a signal handler may run amid the import
