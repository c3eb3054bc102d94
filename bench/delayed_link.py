"""A link between machines, as a communicator over another that holds messages back, in a thread.

Note [A delayed link]
A message may leave when those before it have left, takes its bytes over the bandwidth to do so, and
is there a latency later; then the exchange itself begins, which on one machine takes little. What
is measured so is what a program hides of the waiting, not what sums and copies cost a processor.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from weft import Tensor

#: 1 ms and 1 Gbit/s.
LATENCY, BYTES_A_SECOND = 1e-3, 125e6


class Held:
    """A message: on its way, then an exchange of the communicator below.

    `at` is when it was sent, on the clock and, as `work`, of the thread's processor time.
    """

    def __init__(self, name, start, args):
        self.name, self.start, self.args = name, start, args
        self.bytes = max((a.nbytes for a in args if isinstance(a, Tensor)), default=0)
        self.has_begun = threading.Event()
        self.at, self.work = time.perf_counter(), time.thread_time()
        self.request = None

    def begin(self):
        self.request = self.start(*self.args)
        self.has_begun.set()

    def test(self):
        return self.has_begun.is_set() and (self.request is None or self.request.test())

    def moved(self):
        return self.has_begun.is_set() and (self.request is None or self.request.moved())

    @property
    def source(self):
        return self.request.source


class Link:
    """All exchanges of a communicator, in their order, each when `hold` returns.

    Args:
        below: what exchanges.
        hold: called with each message in the link's thread; by default as Note [A delayed link].
    """

    _DIRECT = ("rank", "size", "part", "free")

    def __init__(self, below, hold=None):
        self._below = below
        self._hold = hold or self._on_its_way
        self._free_at = 0.0
        self._waiting = deque()
        self._some = threading.Semaphore(0)
        self.sent = []
        threading.Thread(target=self._run, name="link", daemon=True).start()

    def __getattr__(self, name):
        found = getattr(self._below, name)
        if name in self._DIRECT:
            return found

        def exchange(*args):
            message = Held(name, found, args)
            self.sent.append(message)
            self._waiting.append(message)
            self._some.release()
            return message

        return exchange

    def _run(self):
        while True:
            self._some.acquire()
            message = self._waiting.popleft()
            self._hold(message)
            message.begin()

    def _on_its_way(self, message):
        self._free_at = max(self._free_at, message.at) + message.bytes / BYTES_A_SECOND
        time.sleep(max(0.0, self._free_at + LATENCY - time.perf_counter()))


def put_on(dist, hold=None):
    """Puts a link on the group of all processes; returns it, and what takes it off."""
    world = dist.group.WORLD
    link = world._comm = Link(world._comm, hold)

    def take_off():
        world._comm = link._below

    return link, take_off
