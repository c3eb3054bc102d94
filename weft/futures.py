"""Results that are not there yet: `weft.futures.Future`.

>>> later = weft.futures.Future()
>>> doubled = later.then(lambda f: f.wait() * 2)
>>> later.set_result(3)
>>> doubled.wait()
6
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from weft.base.device import device as _device

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value that another thread or a callback sets, once.

    Args:
        devices: where the value lies: the CPU, or None.

    Raises: RuntimeError for other devices, and for a second value.

    >>> future = weft.futures.Future()
    >>> future.set_result(2)
    >>> future.wait()
    2
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        for place in map(_device, devices or ()):
            if place.type != "cpu":
                raise RuntimeError(f"PyTorch is not linked with support for {place.type} devices")
        self._changed = threading.Condition()
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether there is a value or an exception."""
        return self._done

    def wait(self) -> T:
        """The value, once it is there; raises the exception that was set in its place."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> T:
        """The value, which has to be there; raises the exception that was set in its place."""
        if not self._done:
            raise RuntimeError("[value] expected a completed Future. Hint: wait() waits for it")
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """The Future of `callback(self)`, which runs when this one is complete."""
        following: Future[S] = self._following()

        def run(done: Future[T]) -> None:
            try:
                made = callback(done)
            except Exception as error:
                following._finish(error=_of_callback(error))
            else:
                following._finish(value=made)

        self._call(run)
        return following

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Calls `callback(self)` when this one is complete. What it raises is printed."""

        def run(done: Future[T]) -> None:
            try:
                callback(done)
            except Exception as error:
                import sys

                print(_of_callback(error), file=sys.stderr)

        self._call(run)

    def set_result(self, result: T) -> None:
        """Completes it with a value. RuntimeError for a second time."""
        self._finish(value=result)

    def set_exception(self, result: BaseException) -> None:
        """Completes it with an exception. AssertionError for what is none."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(error=result)

    def _following(self) -> Future[Any]:
        """The one that `then` makes."""
        return Future()

    def _call(self, run: Callable[[Future[T]], Any]) -> None:
        with self._changed:
            if not self._done:
                self._callbacks.append(run)
                return
        run(self)

    def _finish(self, value: Any = None, error: BaseException | None = None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future "
                    "can only be marked completed once."
                )
            self._value, self._error, self._done = value, error, True
            waiting, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for run in waiting:
            run(self)


def _of_callback(error: Exception) -> RuntimeError:
    made = RuntimeError(
        f"Got the following error when running the callback: {type(error).__name__}: {error}"
    )
    made.__cause__ = error
    return made


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """The Future of the list, complete when all of them are.

    >>> futures = [weft.futures.Future(), weft.futures.Future()]
    >>> for i, future in enumerate(futures):
    ...     future.set_result(i)
    >>> [future.value() for future in weft.futures.collect_all(futures).wait()]
    [0, 1]
    """
    together: Future[list[Future[Any]]] = Future()
    left, lock = len(futures), threading.Lock()
    if not futures:
        together.set_result([])

    def count(_: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = not left
        if last:
            together.set_result(list(futures))

    for future in futures:
        future._call(count)
    return together


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """The values of all; raises the first exception among them.

    >>> future = weft.futures.Future()
    >>> future.set_result(2)
    >>> weft.futures.wait_all([future])
    [2]
    """
    return [future.wait() for future in collect_all(futures).wait()]
