"""`mp.spawn` of a program's ranks, as one MPI launch.

Processes that multiprocessing starts cannot join one MPI world. So where the function that
`mp.spawn` gets belongs to a module that names `weft.distributed`, and MPI is there, the processes
are started by mpiexec; and within a launch, where there is a process for each rank already, the
function runs in it.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from multiprocessing import context, resource_sharer
from multiprocessing import spawn as _spawn
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any, cast

from weft.base.frames import HOME
from weft.distributed import over_mpi
from weft.distributed.launching import End, find_mpiexec, run_ranks

__all__ = ["LaunchContext", "are_ranks", "run_as_ranks", "run_rank"]


def _names_distributed(fn: Any) -> bool:
    """Whether the module of a function names what is of `weft.distributed`."""
    while hasattr(fn, "func") or hasattr(fn, "__wrapped__"):
        fn = getattr(fn, "func", None) or fn.__wrapped__
    for thing in list(getattr(getattr(fn, "__func__", fn), "__globals__", {}).values()):
        if isinstance(thing, ModuleType):
            file = getattr(thing, "__file__", None) or ""
            if thing.__name__.partition(".")[2].startswith("distributed") and file.startswith(HOME):
                return True
        elif str(getattr(thing, "__module__", "")).startswith("weft.distributed"):
            return True
        elif getattr(thing, "__name__", None) == "DistributedDataParallel":
            return True
    return False


def are_ranks(fn: Any, count: int) -> bool:
    """Whether processes that run `fn` are ranks, of a launch that is to be or that is."""
    if over_mpi.is_launched():
        return _names_distributed(fn)
    has_mpi = find_spec("mpi4py") is not None and find_mpiexec() is not None
    return count > 1 and has_mpi and _names_distributed(fn)


def run_as_ranks(fn: Callable[..., Any], args: tuple[Any, ...], count: int) -> LaunchContext:
    """Runs `fn(rank, *args)` in the ranks of a launch; within one, in this process.

    Raises: RuntimeError within a launch of another number of processes.
    """
    if not over_mpi.is_launched():
        return LaunchContext(fn, args, count)
    comm = over_mpi.world()
    if comm.size != count:
        raise RuntimeError(
            f"[spawn] expected nprocs={comm.size}, as many as the launch has processes, got {count}"
        )
    fn(comm.rank, *args)
    return LaunchContext(fn, args, 0)


class LaunchContext:
    """The ranks of a `spawn(..., join=False)`: none, where they have run."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], count: int) -> None:
        self._count = count
        self._end: End | None = None
        self._folder = ""
        self._started: Any = None
        if count:
            self._folder = tempfile.mkdtemp(prefix="weft-spawn-")
            for rank in range(count):
                with open(os.path.join(self._folder, f"job-{rank}"), "wb") as file:
                    pickle.dump(_job(fn, args), file)

    def _launch(self) -> None:
        words = ["--spawned", self._folder]
        self._end = run_ranks(words, self._count, ranks=False, has_input=False)

    def start(self) -> LaunchContext:
        """Starts the ranks, and returns at once."""
        if self._count:
            self._started = threading.Thread(target=self._launch)
            self._started.start()
        return self

    def pids(self) -> list[int]:
        """The ids of the processes that this one has started: they are mpiexec's."""
        return []

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits for all ranks to end, `timeout` seconds at most; whether they have.

        mpiexec ends the others as soon as one has failed: `grace_period` finds none that goes on.

        Raises: ProcessRaisedException or ProcessExitedException for the first that failed.
        """
        if self._started is not None:
            self._started.join(timeout)
            if self._started.is_alive():
                return False
        elif self._count:
            self._launch()
        self._count = 0
        try:
            self._raise_failure()
        finally:
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)
        return True

    def _raise_failure(self) -> None:
        from weft.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

        end = self._end
        if end is None:
            return
        if end.got is not None:
            raise KeyboardInterrupt
        if end.status == 0:
            return
        kind, rank, said = self._first()
        if kind == "error":
            message = f"\n\n-- Process {rank} terminated with the following error:\n{said}"
            raise ProcessRaisedException(message, rank, -1)
        if kind == "" and end.rank is not None:
            rank = end.rank
        if kind == "" and end.by_signal is not None:
            name = signal.Signals(end.by_signal).name
            message = f"process {rank} terminated with signal {name}"
            raise ProcessExitedException(message, rank, -1, -end.by_signal, name)
        code = int(said) if kind else end.status
        message = f"process {rank} terminated with exit code {code}"
        raise ProcessExitedException(message, rank, -1, code)

    def _first(self) -> tuple[str, int, str]:
        """What the first rank that failed has written: the kind, its rank, and the text."""
        names = [n for n in os.listdir(self._folder) if re.fullmatch(r"(error|exit)-\d+", n)]
        if not names:
            return "", -1, ""
        first = min(names, key=lambda n: os.path.getmtime(os.path.join(self._folder, n)))
        with open(os.path.join(self._folder, first), encoding="utf-8") as file:
            kind, _, rank = first.partition("-")
            return kind, int(rank), file.read()


class _Handing:
    """What multiprocessing asks while it pickles what is for a process that it starts itself: that
    may have queues, locks and memory. A rank gets their descriptors from this process, once each.
    """

    duplicate_for_child = staticmethod(int)
    DupFd = staticmethod(resource_sharer.DupFd)


def _job(fn: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Any]:
    """What a rank needs to run the function, as multiprocessing's own processes get it."""
    prepared = _spawn.get_preparation_data("rank")
    prepared["authkey"] = bytes(prepared["authkey"])
    before = context.get_spawning_popen()
    context.set_spawning_popen(cast(Any, _Handing()))
    try:
        return {"prepared": prepared, "call": bytes(ForkingPickler.dumps((fn, args)))}
    finally:
        context.set_spawning_popen(before)


def run_rank(folder: str) -> None:
    """What a rank does: the function, and its traceback into a file of the folder."""
    rank = int(os.environ["RANK"])
    with open(os.path.join(folder, f"job-{rank}"), "rb") as file:
        job = pickle.load(file)
    _spawn.prepare(job["prepared"])
    from weft.multiprocessing.shared import wait_until_fetched

    def fail(kind: str, text: str, status: int) -> None:
        path = os.path.join(folder, f"{kind}-{rank}")
        with open(path + ".part", "w", encoding="utf-8") as out:
            out.write(text)
        os.replace(path + ".part", path)
        sys.stdout.flush()
        over_mpi.end_all(status)

    try:
        fn, args = pickle.loads(job["call"])
        fn(rank, *args)
        wait_until_fetched(lambda: True)  # mpiexec ends with who launched it
    except KeyboardInterrupt:
        over_mpi.end_all(130)
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        if error.code not in (None, 0):
            code = error.code if isinstance(error.code, int) else 1
            fail("exit", str(code), code)
    except Exception:
        fail("error", traceback.format_exc(), 1)
