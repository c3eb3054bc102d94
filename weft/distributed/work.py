"""Exchanges that were started, and the thread that has them go on.

Note [Progress]
MPI moves what was started when somebody asks it about something, and Open MPI's own waiting keeps a
core busy, which on a full machine is another process' core. So all exchanges are started without
waiting; who waits asks often at first and then sleeps between questions, and what is not waited
for is asked about by one thread, which pauses between questions. Measured for 2 processes on 2
busy cores, 4 kB and 10 MB: 0.1 and 10 ms where MPI's own waiting took 1 to 11 and 21 to 23 ms.
What is left to do when an exchange is done (copies into views, divisions) is done by who waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from weft.distributed.communicator import Request
from weft.futures import Future

__all__ = ["Work"]

#: For how long who waits asks without sleeping, and the sleep, in seconds.
_SPIN = 2e-4
_SLEEP = 5e-5
#: After how many seconds who waits looks whether the others are there.
_PATIENCE = 1.0
#: Between the thread's questions: at 50 µs they were 4 % of a training step's work, at 200 µs 1 %.
_PAUSE = 2e-4


class _Progress:
    """All that is under way, and the thread that asks about what nobody waits for."""

    def __init__(self) -> None:
        #: MPI may write into its memory, also when nobody waits for it any more.
        self.under_way: set[Work] = set()
        self._open: list[Work] = []
        self._some = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, work: Work) -> None:
        with self._some:
            self._open.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="weft-mpi", daemon=True)
                self._thread.start()
            self._some.notify()

    def _run(self) -> None:
        while True:
            with self._some:
                self._some.wait_for(lambda: bool(self._open))
                open_now = list(self._open)
            moved = [work for work in open_now if work._has_moved()]
            with self._some:
                self._open = [work for work in self._open if work not in moved]
            time.sleep(_PAUSE)


_progress = _Progress()


class Work:
    """An exchange that was started.

    >>> from weft.distributed.work import Work
    >>> Work().wait()
    True
    """

    def __init__(
        self,
        who: str = "",
        request: Request | None = None,
        finish: Callable[[], None] | None = None,
        timeout: timedelta | None = None,
        result: Any = None,
        left: Callable[[], list[int]] | None = None,
    ) -> None:
        self._who = who
        self._request = request
        self._finish = finish
        self._timeout = timeout
        self._result = result
        self._left = left
        self._error: BaseException | None = None
        self._done = False
        self._future: Future[Any] | None = None
        self._lock = threading.RLock()
        if request is None:
            self._complete()
        else:
            _progress.under_way.add(self)

    def goes_on(self) -> Work:
        """Itself, from now on moved by the thread, too."""
        if not self._done:
            _progress.add(self)
        return self

    def _complete(self) -> None:
        self._done = True
        _progress.under_way.discard(self)
        finish, self._finish, self._request = self._finish, None, None
        try:
            if finish is not None and self._error is None:
                finish()
        except BaseException as error:
            self._error = error
        if self._future is not None:
            self._tell(self._future)

    def _poll(self) -> bool:
        with self._lock:
            if not self._done and self._request is not None:
                try:
                    if self._request.test():
                        self._complete()
                except RuntimeError as error:
                    self._error = error
                    self._complete()
            return self._done

    def _has_moved(self) -> bool:
        """For the thread: whether there is nothing left to ask."""
        if not self._lock.acquire(blocking=False):
            return False  # who waits asks
        try:
            return self._request is None or self._request.moved()
        except RuntimeError:
            return True  # who waits is told
        finally:
            self._lock.release()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """True, when it is done; raises what went wrong.

        Args:
            timeout: how long to wait; by default what the group was made with.

        Raises:
            RuntimeError: it is not done in time, or failed.
        """
        self._wait_quietly(timeout)
        if self._error is not None:
            raise self._error
        return True

    def _wait_quietly(self, timeout: timedelta | None = None) -> None:
        """Until it is done or has failed."""
        limit = timeout or self._timeout
        start = now = time.monotonic()
        look = start + _PATIENCE
        while not self._poll():
            now = time.monotonic()
            if now > look:
                self._expect_company()
                look = now + _PATIENCE
            if limit is not None and now - start > limit.total_seconds():
                raise RuntimeError(
                    f"[{self._who}] expected all processes of the group within "
                    f"{limit.total_seconds():g} s, got no answer (Timed out waiting for the "
                    "operation to complete). Hint: a process may have ended, or called something "
                    "else; TORCH_DISTRIBUTED_DEBUG=DETAIL tells the first call that differs"
                )
            time.sleep(0 if now - start < _SPIN else _SLEEP)

    def _expect_company(self) -> None:
        """RuntimeError where who is waited for has ended (Note [Ranks that leave], leaving.py)."""
        gone = self._left() if self._left is not None else []
        if gone and not self._poll():
            who = f"rank{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}"
            raise RuntimeError(
                f"[{self._who}] expected all processes of the group, got the end of {who}, whose "
                "program has ended without it (Connection closed by peer). Hint: all ranks make "
                "the same calls; `join` is for unlike numbers of batches"
            )

    def is_completed(self) -> bool:
        """Whether it is done."""
        return self._poll()

    def is_success(self) -> bool:
        """Whether it is done, and nothing went wrong."""
        return self._poll() and self._error is None

    def exception(self) -> BaseException | None:
        """What went wrong."""
        return self._error

    def result(self) -> Any:
        """The tensors that it wrote; waits for it."""
        self.wait()
        return self._result

    def get_future(self) -> Future[Any]:
        """The Future of `result()`. It is set when somebody waits for one of the two."""
        if self._future is None:
            self._future = _FutureOfWork(self)
            if self._done:
                self._tell(self._future)
        return self._future

    def _tell(self, future: Future[Any]) -> None:
        if isinstance(self._error, Exception):
            future.set_exception(self._error)
        else:
            future.set_result(self._result)


class _FutureOfWork(Future[Any]):
    """A Future, and those that follow it, whose `wait` has the exchange go on."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def _following(self) -> Future[Any]:
        return _FutureOfWork(self._work)

    def wait(self) -> Any:
        """The value, once it is there."""
        if not self.done():
            self._work._wait_quietly()
        return super().wait()
