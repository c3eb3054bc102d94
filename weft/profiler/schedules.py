"""When a profile records, and what becomes of what it has."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.profiler.profiling import profile


class ProfilerAction(Enum):
    """What a profile does in a step.

    >>> weft.profiler.schedule(wait=1, warmup=1, active=1)(0)
    <ProfilerAction.NONE: 0>
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """A function from the number of a step to what a profile does in it.

    After `skip_first` steps come cycles of `wait` steps in which nothing is done, `warmup` in which
    nothing is kept, and `active` ones that are recorded; the last of these ends with
    `on_trace_ready`.

    Args:
        repeat: of so many cycles; 0: of any number.
        skip_first_wait: other than 0: the first cycle does not wait.

    Raises:
        ValueError: a negative number of steps, or none that is active.

    >>> plan = weft.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    given = {"wait": wait, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
    for name, steps in {**given, "active": active - 1}.items():
        if steps < 0:
            least = "active > 0" if name == "active" else f"{name} >= 0"
            got = active if name == "active" else steps
            raise ValueError(f"[schedule] expected {least}, got {got}")
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )
    steps_of_cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"[schedule] expected a step of at least 0, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if 0 < repeat <= step // steps_of_cycle:
            return ProfilerAction.NONE
        at = step % steps_of_cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        is_last = at == steps_of_cycle - 1
        return ProfilerAction.RECORD_AND_SAVE if is_last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For `on_trace_ready`: writes each trace to a file of its own in a folder, for TensorBoard.

    Args:
        worker_name: begins the file's name; by default the host's name and the process's number.
        use_gzip: whether to compress it.

    Raises:
        RuntimeError: when the handler is called, if the folder cannot be made.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> handler = weft.profiler.tensorboard_trace_handler(folder)
    >>> with weft.profiler.profile(on_trace_ready=handler):
    ...     _ = weft.ones(2) + 1
    >>> len(os.listdir(folder))
    1
    """

    def write(of: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + os.fspath(dir_name)) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        of.export_chrome_trace(os.path.join(dir_name, name))

    return write
