"""The part of a run that is on a machine: Open MPI's daemon, in an actor that Ray places there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import Any

from weft.distributed.folders import SHARED, own_folder
from weft.distributed.launching import die_with_parent
from weft.distributed.places import SEGMENTS

__all__ = ["JOB", "Node", "die_with_daemon"]

#: The variable that says where ranks find what they run.
JOB = "WEFT_RAY_JOB"
#: The daemon in a command that would have it leave the process that started it.
_DAEMON = re.compile(r"(\S*prted) --daemonize")


class Node:
    """An actor that runs the daemon of a machine, which starts the ranks there and ends with it.

    Args:
        run: the name of the run, in those of its folders.
    """

    def __init__(self, run: str) -> None:
        self._run = run

    def hold(self) -> None:
        """Goes on for ever, so that the loss of the node is seen."""
        while True:
            signal.pause()

    def serve(self, command: str, job: bytes) -> tuple[int, str]:
        """Runs a command of mpiexec's for the daemon to its end: its status, what it wrote.

        Args:
            command: as mpiexec gives it to ssh.
            job: what ranks read.
        """
        mine = f"weft-ray-{self._run}-"
        with own_folder(mine) as folder, own_folder(mine, SHARED) as memory:
            path = os.path.join(folder, "job")
            with open(path, "wb") as file:
                file.write(job)
            # of its own: what killed ranks leave is found and removed
            places = {SEGMENTS: memory, JOB: path}
            done = subprocess.run(
                ["/bin/sh", "-c", _DAEMON.sub(r"exec \1", command)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                env={**os.environ, **places}, check=False, preexec_fn=die_with_parent,
            )  # fmt: skip
            return done.returncode, done.stdout[-2000:]


def die_with_daemon() -> None:
    """Has this process, a rank, be killed when the daemon that started it is gone."""
    parent: Any = os.getppid()
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
