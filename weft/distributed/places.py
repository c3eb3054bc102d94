"""What a launch on one machine has for its ranks: a folder in memory, and its standard input.

Note [Standard input]
Open MPI's mpiexec brings what it reads to rank 0, and never says that it is at its end. So rank 0
gets the launch's own descriptor, through a socket in the folder; mpiexec reads nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence

from weft.distributed import leaving
from weft.distributed.folders import SHARED, own_folder

__all__ = ["SEGMENTS", "own_places", "take_input"]

#: Open MPI's variable with where ranks of one machine share memory.
SEGMENTS = "OMPI_MCA_btl_sm_backing_directory"
#: And with where its mpiexec keeps what a launch needs; by default /tmp, by the process' id.
SESSIONS = "PRTE_MCA_prte_tmpdir_base"
#: The socket's name in the folder.
_INPUT = "input"


@contextlib.contextmanager
def own_places(
    kind: str, hosts: Sequence[str], environment: Mapping[str, str], has_input: bool
) -> Iterator[dict[str, str]]:
    """A scope in which ranks have a folder of their own, in memory, as killed ones leave things.

    Of Open MPI, its sessions and what ranks share are there. On other machines there is none to
    remove it, and the user's is the user's.

    Args:
        has_input: let rank 0 read this process' standard input; else it is at its end.

    Yields: the variables for mpiexec.
    """
    if hosts or SHARED is None:
        yield {}
        return
    with own_folder("weft-launch-", SHARED) as folder:
        own = {SEGMENTS: folder, SESSIONS: folder} if kind == "open" else {}
        with _handed_on(folder) if has_input and kind == "open" else contextlib.nullcontext():
            yield {leaving.FOLDER: folder, **{k: v for k, v in own.items() if k not in environment}}


@contextlib.contextmanager
def _handed_on(folder: str) -> Iterator[None]:
    """A scope in which who asks at the folder's socket gets standard input."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.bind(os.path.join(folder, _INPUT))
        asked.listen()

        def run() -> None:
            with contextlib.suppress(OSError):  # the launch is at its end, or has no input
                rank, _ = asked.accept()
                with rank:
                    socket.send_fds(rank, [b"0"], [0])

        threading.Thread(target=run, name="weft-input", daemon=True).start()
        yield


def take_input() -> None:
    """Has this process read the launch's standard input; without one it stays as it is."""
    path = os.path.join(os.environ.get(leaving.FOLDER, ""), _INPUT)
    if not os.path.exists(path):
        return
    with socket.socket(socket.AF_UNIX) as launch:
        launch.connect(path)
        _, (*descriptors,), _, _ = socket.recv_fds(launch, 1, 1)
    for descriptor in descriptors:
        os.dup2(descriptor, 0)
        os.close(descriptor)
