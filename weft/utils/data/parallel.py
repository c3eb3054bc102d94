"""Iterating over a DataLoader with worker processes.

Batches are numbered. Number k goes to the workers in turn, at most `prefetch_factor` per worker are
under way, and each batch handed out lets another be asked for: PyTorch's order, so that the same
seeds meet the same samples.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import weakref
from collections import deque
from multiprocessing.connection import wait
from typing import Any

from weft.utils.data.channel import BATCH, END, FAILURE, RESTART, Channel, Received, encode, pair
from weft.utils.data.dataloader import LoaderIterator
from weft.utils.data.failure import Failure
from weft.utils.data.worker import Work, main

_GRACE = 5.0  # seconds that a worker has to end its sample before it is terminated
_LOOK = 5.0  # seconds between looks at workers whose end may have gone unheard (a fork elsewhere)


class _Worker:
    """A process, the loader's end of its channel, and how many batches it owes."""

    def __init__(self, process: Any, channel: Channel) -> None:
        self.process, self.channel = process, channel
        self.owes = 0
        self.active = True


def _shut_down(workers: list[_Worker], owner: int) -> None:
    """Hangs up on all workers and waits for them. Copies of the loader in a fork do nothing."""
    if os.getpid() != owner:
        return
    for worker in workers:
        worker.channel.close()
    deadline = time.monotonic() + _GRACE
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(_GRACE)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
    workers.clear()


class ParallelIterator(LoaderIterator):
    """One pass over a loader, or with persistent workers one after the other."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        # PyTorch asks for a second iterator here: a sampler that draws in __iter__ draws twice.
        LoaderIterator.restart(self, loader)
        self._prefetch = loader.prefetch_factor
        self._in_order = loader.in_order
        self._timeout = loader.timeout
        self._persistent = loader.persistent_workers
        self._epoch = 0
        self._workers: list[_Worker] = []
        self._close = weakref.finalize(self, _shut_down, self._workers, os.getpid())
        self._start(loader)
        self._begin()

    def _start(self, loader: Any) -> None:
        import numpy  # noqa: F401  forked workers seed it: loaded once here, not in each of them

        context = loader.multiprocessing_context or multiprocessing.get_context()
        forks = context.get_start_method() == "fork"
        work = Work(
            loader.dataset, loader._iterable, self._batched, loader.collate_fn, loader.drop_last,
            self._base_seed, loader.worker_init_fn, loader.num_workers,
        )  # fmt: skip
        for i in range(loader.num_workers):
            ours, theirs = pair()
            copied = [w.channel for w in self._workers] + [ours] if forks else []
            process = context.Process(target=main, args=(theirs, copied, work, i), daemon=True)
            try:
                process.start()
            except BaseException:
                ours.close()
                self._close()
                raise
            finally:
                theirs.socket.close()
            self._workers.append(_Worker(process, ours))

    def _begin(self) -> None:
        """The state of a pass, and its first batches asked for."""
        self._sent = self._wanted = 0
        self._turn = 0
        self._owner: dict[int, _Worker] = {}
        self._arrived: dict[int, Any] = {}
        self._inbox: deque[tuple[_Worker, Received]] = deque()
        self._outstanding = 0
        for worker in self._workers:
            worker.owes, worker.active = 0, True
        for _ in range(self._prefetch * len(self._workers)):
            self._ask()

    def restart(self, loader: Any) -> None:
        """Another pass with the same workers; what is left of the last one is dropped."""
        super().restart(loader)
        self._epoch += 1
        for worker in self._workers:
            self._send(worker, RESTART, 0, None)
        self._begin()

    # ---- asking

    def _ask(self) -> None:
        """Asks the next worker in turn for the next batch, if there is one."""
        try:
            index = next(self._indices)
        except StopIteration:
            return
        worker = self._next_worker()
        if worker is None:
            return
        number = self._sent
        self._owner[number] = worker
        self._sent += 1
        worker.owes += 1
        self._outstanding += 1
        self._send(worker, BATCH, number, index)

    def _next_worker(self) -> _Worker | None:
        most = self._prefetch * len(self._workers) // max(1, sum(w.active for w in self._workers))
        for _ in self._workers:
            worker = self._workers[self._turn % len(self._workers)]
            self._turn += 1
            if worker.active and (self._in_order or worker.owes < most):
                return worker
        return None

    def _send(self, worker: _Worker, kind: int, number: int, index: Any) -> None:
        try:
            message = encode(self._epoch, number, kind, index)
            taken = worker.channel.send(message, inbox=worker.channel)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._died(worker)
        self._inbox.extend((worker, received) for received in taken)

    # ---- receiving

    def _next_data(self) -> Any:
        if not self._workers:
            raise StopIteration
        while True:
            self._skip()
            if self._wanted == self._sent:
                if not self._persistent:
                    self._close()
                raise StopIteration
            if self._wanted in self._arrived:
                return self._hand_out(self._wanted, self._arrived.pop(self._wanted))
            worker, (epoch, number, kind, data) = self._receive()
            if epoch != self._epoch:
                continue
            self._outstanding -= 1
            if kind == END:
                worker.active = False
                self._ask()
                continue
            if kind == FAILURE and not isinstance(data, Failure):
                data = Failure(data, f"in DataLoader, receiving batch {number}")
            if self._in_order and number != self._wanted:
                self._arrived[number] = data
                continue
            return self._hand_out(number, data)

    def _skip(self) -> None:
        """Passes over numbers that were handed out before, or whose worker had no more samples."""
        while self._wanted < self._sent:
            owner = self._owner.get(self._wanted)
            if owner is not None and (owner.active or self._wanted in self._arrived):
                return
            self._owner.pop(self._wanted, None)
            self._wanted += 1

    def _hand_out(self, number: int, data: Any) -> Any:
        self._owner.pop(number).owes -= 1
        self._ask()
        if isinstance(data, Failure):
            data.reraise()
        return data

    def _receive(self) -> tuple[_Worker, Received]:
        """The next message of a worker; RuntimeError if one died or the time is over."""
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while not self._inbox:
            waiting = [w for w in self._workers if w.owes and w.active]
            left = _LOOK if deadline is None else min(_LOOK, max(0.0, deadline - time.monotonic()))
            ready = wait([w.channel for w in waiting] + [w.process.sentinel for w in waiting], left)
            if not ready and deadline is not None and time.monotonic() >= deadline:
                raise RuntimeError(
                    f"[DataLoader] expected a batch in time, got none (DataLoader timed out after "
                    f"{self._timeout} seconds)"
                )
            self._take(waiting, ready)
        return self._inbox.popleft()

    def _take(self, waiting: list[_Worker], ready: list[Any]) -> None:
        """Messages that are there; a dead worker counts once nothing of it is left to read."""
        dead = None
        for worker in waiting:
            if worker.channel in ready:
                try:
                    self._inbox.append((worker, worker.channel.receive()))
                except EOFError:
                    dead = worker
            elif not worker.process.is_alive() and not worker.channel.waits(0):
                dead = worker
        if dead is not None and not self._inbox:
            self._died(dead)

    def _died(self, worker: _Worker) -> None:
        worker.process.join(_GRACE)
        pid, code = worker.process.pid, worker.process.exitcode
        self._close()
        if code is not None and code < 0:
            how = f"is killed by signal: {signal.strsignal(-code)}. "
        else:
            how = f"exited unexpectedly with exit code {code}. "
        raise RuntimeError(
            f"[DataLoader] expected every worker to live, got one that does not (DataLoader worker "
            f"(pid {pid}) {how}Details are lost due to multiprocessing. Rerunning with "
            "num_workers=0 may give better error trace.)"
        )
