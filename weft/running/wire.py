"""What the two processes of `weft run --compare` say of their runs: events, and how they travel.

An event is one pickle; the values of its tensors follow it as bytes, one after the other. Nothing
of a run is kept: the process that compares reads the same block of both, and forgets them.
"""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO, NamedTuple

from weft.running.rewriting import Site

__all__ = ["Event", "Leaf", "Reply", "receive", "send"]


class Leaf(NamedTuple):
    """A tensor of an event.

    `letter` is NumPy's name of the bytes that follow, "" if none do, because the values were sent
    before or cannot be read; `scale` is the largest of the absolute values that are finite.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    requires_grad: bool
    letter: str
    size: int
    scale: float


class Event(NamedTuple):
    """What a run did: value, order, branch, print, caught or uncaught error, clock, state, or end.

    `what` is the branch's bool, the text, the error's type, the clock's number, the exit status;
    `state` is the generator's after a value. An order is the value of `sort` or its like, whose
    operand is the first leaf. A value, an order, a state and a clock await a reply.
    """

    kind: str
    site: Site
    what: Any = None
    text: str = ""
    leaves: tuple[Leaf, ...] = ()
    state: bytes = b""

    @property
    def awaits(self) -> bool:
        return self.kind in ("value", "order", "state", "clock")


class Reply(NamedTuple):
    """What a run takes over: the numbers of leaves whose values follow, a generator, a clock."""

    leaves: tuple[int, ...] = ()
    state: bytes = b""
    clock: Any = None


def send(stream: BinaryIO, message: Event | Reply) -> None:
    """Puts a message on a stream; who awaits an answer flushes."""
    pickle.dump((type(message).__name__, tuple(message)), stream, pickle.HIGHEST_PROTOCOL)


def receive(stream: BinaryIO) -> Any:
    """The next message. EOFError: the process at the other end is gone."""
    kind, fields = pickle.load(stream)
    return {"Event": Event, "Reply": Reply}[kind](*fields)
