"""The requests that wait run as batches, on the main thread.

Note [Main thread]
Programs run on the main thread and HTTP on another: Python handles signals on the main thread, so
a long loop of a program ends when its time is over or its client leaves, and the server goes on.
A single long operation is not ended: HTTP answers meanwhile, as such operations let other threads
run, and the run ends behind it.

Note [Time]
A request has its deadline from when it arrived, and HTTP answers then in any case. A batch ends
after half of the time that the first of its requests has left, so that one that takes long does
not take the others with it: each then runs alone, in its share of what is left.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import weft
from weft.serve import wire

__all__ = ["Answer", "Batches", "Job", "error", "late"]

#: The status of an answer and its JSON.
Answer = tuple[int, bytes]

_HOME = Path(weft.__file__).parent
_LONGEST_WAIT = 0.25  # seconds


class _TimeIsOver(BaseException):
    """Not an Exception: programs and batches do not catch it."""


class _ClientLeft(BaseException):
    """The same, where nobody waits for the answer any more."""


class Job:
    """A request that waits: `answer` gets what it comes to, on any thread."""

    __slots__ = ("answer", "args", "body", "deadline", "entry", "gone", "kwargs")

    def __init__(
        self,
        entry: str,
        body: bytes,
        answer: Callable[[Answer], None],
        deadline: float | None = None,
    ) -> None:
        self.entry, self.body, self.answer = entry, body, answer
        self.deadline = deadline  # by time.monotonic(); None: it has all the time there is
        self.gone = False  # its client, so that nobody waits for the answer
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}


def error(status: int, kind: str, message: str, line: str | None = None) -> Answer:
    """The answer to a request that failed."""
    told = {"type": kind, "message": message} | ({} if line is None else {"line": line})
    return status, wire.bytes_of({"error": told})


def late(seconds: float | None) -> Answer:
    """The answer to a request whose time is over."""
    return error(504, "TimeoutError", f"[serve] took more than {seconds} s")


def _left(jobs: Iterable[Job]) -> float | None:
    """The seconds that the first of these has left; None: no limit."""
    ends = [job.deadline for job in jobs if job.deadline is not None]
    return min(ends) - time.monotonic() if ends else None


class Batches:
    """Runs up to `size` requests at once, `wait` seconds after the first of them at most.

    Args:
        exported: what `weft.export.load` gave.
        size: how many requests run at once.
        wait: seconds that a request waits for others.
        timeout: seconds that a request may take; None: no limit.

    Attributes:
        timeout: the same.
    """

    def __init__(self, exported: Any, size: int, wait: float, timeout: float | None) -> None:
        self._size, self._wait, self.timeout = size, wait, timeout
        self._waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._running: list[Job] = []
        program = exported._program
        self._entries = {n: getattr(program, n) for n in program._package.entries}
        if exported._sizes:
            self._entries["forward"] = exported.module()  # looks at sizes first
        self._batched = {n: weft.autobatch(_one(entry)) for n, entry in self._entries.items()}
        signal.signal(signal.SIGALRM, self._end_in_time)
        signal.signal(signal.SIGUSR1, self._end_if_left)

    @property
    def entries(self) -> list[str]:
        """What can be called."""
        return list(self._entries)

    def put(self, job: Job) -> None:
        """Has a request wait; from any thread."""
        self._waiting.put(job)

    def leave(self, job: Job) -> None:
        """Nobody waits for a request any more: it does not run, or no longer; from any thread."""
        job.gone = True
        job.body = b""
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGUSR1)

    def close(self) -> None:
        """Ends `run` after the requests that wait; from any thread."""
        self._waiting.put(None)

    def run(self) -> None:
        """Runs what waits until `close` is called."""
        with weft.no_grad():
            while jobs := self._take():
                ready = [job for job in jobs if not job.gone and self._is_ready(job)]
                for name in {job.entry: None for job in ready}:
                    self._answer(name, [job for job in ready if job.entry == name])

    def _take(self) -> list[Job]:
        """The requests of a batch; none: it was closed."""
        first = self._first()
        jobs = [] if first is None else [first]
        end = time.monotonic() + self._wait
        while jobs and len(jobs) < self._size:
            try:
                job = self._waiting.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                break
            if job is None:
                self.close()  # after this batch
                break
            jobs.append(job)
        return jobs

    def _first(self) -> Job | None:
        """The next request, or None: it was closed.

        A signal that comes between the interpreter's last look for signals and the wait does not
        end the wait, and its handler runs when that is over: so none is long.
        """
        while True:
            try:
                return self._waiting.get(timeout=_LONGEST_WAIT)
            except queue.Empty:
                continue

    def _is_ready(self, job: Job) -> bool:
        """Reads its arguments; if they are none, it has its answer."""
        try:
            job.args, job.kwargs = wire.arguments(job.body)
        except Exception as e:
            job.answer(error(422, type(e).__name__, str(e)))
            return False
        finally:
            job.body = b""
        return True

    def _answer(self, name: str, jobs: list[Job]) -> None:
        """Runs requests of one entry (Note [Time])."""
        while len(jobs := [job for job in jobs if not job.gone]) > 1:
            left = _left(jobs)
            seconds = None if left is None else left / 2
            try:
                results = self._ended(self._batched[name], jobs, jobs, seconds)
            except _ClientLeft:  # the others run again
                continue
            except (Exception, _TimeIsOver):  # whose fault it is shows when each runs alone
                break
            return _give(jobs, results)
        for k, job in enumerate(jobs):
            if not job.gone and (told := self._alone(job, len(jobs) - k)) is not None:
                job.answer(told)
        return None

    def _alone(self, job: Job, count: int) -> Answer | None:
        """The answer, in a share of the time for `count` requests; None if its client left."""
        entry, left = self._entries[job.entry], _left([job])
        seconds = None if left is None else left / count
        try:
            run = self._ended(lambda j: entry(*j.args, **j.kwargs), job, [job], seconds)
            return _answer(run)
        except _ClientLeft:
            return None
        except _TimeIsOver:
            return late(self.timeout)
        except Exception as e:
            return error(422, type(e).__name__, str(e), _line(e))

    def _ended(
        self, run: Callable[[Any], Any], argument: Any, jobs: list[Job], seconds: float | None
    ) -> Any:
        """What a run gives, which ends when its time is over or a client of these leaves."""
        try:
            self._running = jobs
            if seconds is not None:
                signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
            self._end_if_left()
            return run(argument)
        finally:
            self._settle()

    def _settle(self) -> None:
        """Nothing runs. What ends a run calls this before it raises: it may come amid the end."""
        self._running = []
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _end_in_time(self, *_: Any) -> None:
        if self._running:
            self._settle()
            raise _TimeIsOver

    def _end_if_left(self, *_: Any) -> None:
        if any(job.gone for job in self._running):
            self._settle()
            raise _ClientLeft


def _one(entry: Any) -> Callable[[Job], Any]:
    return lambda job: entry(*job.args, **job.kwargs)


def _give(jobs: Iterable[Job], results: Iterable[Any]) -> None:
    for job, result in zip(jobs, results):
        job.answer(_answer(result))


def _answer(result: Any) -> Answer:
    try:
        return 200, wire.bytes_of({"result": wire.result(result)})
    except Exception as e:
        return error(500, type(e).__name__, str(e))


def _line(e: BaseException) -> str | None:
    """The line of the program that it comes from: the last that is not weft's own."""
    frames = traceback.extract_tb(e.__traceback__)
    calls = [i for i, f in enumerate(frames) if Path(f.filename) == _HOME / "jit" / "saved.py"]
    program = frames[calls[-1] + 1 :] if calls else []
    if not program:
        return None
    users = [f for f in program if not _is_wefts(f.filename)]
    last = (users or program)[-1]
    return f"{last.filename}:{last.lineno}, in {last.name}"


def _is_wefts(file: str) -> bool:
    """Whether it is weft's, also where the program was saved by a weft elsewhere."""
    _, weft_is, inner = file.rpartition("/weft/")
    return bool(weft_is) and (_HOME / inner).exists()
