"""Several processes that run one function, and their failure as one exception."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import shutil
import signal
import sys
import tempfile
import traceback
import weakref
from collections.abc import Callable
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process failed: its number and id."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """It raised; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """It ended by a signal or with an exit code."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        return type(self), (
            self.msg, self.error_index, self.pid, self.exit_code, self.signal_name,
        )  # fmt: skip


def _run(fn: Callable[..., Any], i: int, args: tuple[Any, ...], error_file: str) -> None:
    """What a process runs: the function, and its traceback into a file."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """The processes of a `spawn(..., join=False)`.

    >>> context = weft.multiprocessing.start_processes(
    ...     abs, nprocs=2, join=False, start_method="fork"
    ... )
    >>> while not context.join():
    ...     pass
    """

    def __init__(self, processes: list[Any], error_files: list[str], folder: str) -> None:
        self.error_files = error_files
        self._finalizer = weakref.finalize(self, shutil.rmtree, folder, True)
        self.processes = processes
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits for some process to end; True when all have.

        Raises: ProcessRaisedException or ProcessExitedException for the first that failed, after
        the others were ended.
        """
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(list(self.sentinels), timeout=timeout)
        failed = None
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self._end_all(grace_period)
        raise self._failure(failed)

    def _end_all(self, grace_period: float | None) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(30 if grace_period is None else grace_period)
            if process.is_alive():
                process.kill()
            process.join()

    def _failure(self, index: int) -> ProcessException:
        process = self.processes[index]
        path = self.error_files[index]
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, "rb") as file:
                trace = pickle.load(file)
            message = f"\n\n-- Process {index} terminated with the following error:\n{trace}"
            return ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            message = f"process {index} terminated with signal {name}"
            return ProcessExitedException(message, index, process.pid, code, name)
        message = f"process {index} terminated with exit code {code}"
        return ProcessExitedException(message, index, process.pid, code)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Runs `fn(i, *args)` in process i of `nprocs`.

    With `join` it returns None when all have ended; otherwise it returns their context at once.

    Where the function's module names `weft.distributed` and MPI is there, they are ranks that
    mpiexec starts; and in a process of a launch, which is such a rank, the function runs at once.

    Raises: what `ProcessContext.join` does.

    >>> weft.multiprocessing.start_processes(abs, nprocs=2, start_method="fork")
    """
    if "weft.distributed" in sys.modules:
        from weft.distributed.spawned import are_ranks, run_as_ranks

        if are_ranks(fn, nprocs):
            ranks = run_as_ranks(fn, args, nprocs)
            return None if join and ranks.join() else ranks.start()
    context = multiprocessing.get_context(start_method)
    folder = tempfile.mkdtemp(prefix="weft-spawn-")
    files = [os.path.join(folder, str(i)) for i in range(nprocs)]
    processes = []
    for i in range(nprocs):
        process = context.Process(  # type: ignore[attr-defined]
            target=_run, args=(fn, i, args, files[i]), daemon=daemon
        )
        process.start()
        processes.append(process)
    running = ProcessContext(processes, files, folder)
    while join and not running.join():
        pass
    return None if join else running


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """`start_processes` with fresh interpreters: `fn` has to be importable."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
