"""How the tests of this folder start ranks."""

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from weft.distributed.launching import find_mpiexec

HERE = Path(__file__).parent
HAS_MPI = find_spec("mpi4py") is not None and find_mpiexec() is not None
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="mpi4py or mpiexec is missing")


#: An end is a matter of seconds, on a busy machine too.
SOON = 15
#: How a program of a rank begins.
HEAD = """
import os, signal, sys, time
import weft
dist = weft.distributed
dist.init_process_group("mpi")
rank = dist.get_rank()
x = weft.ones(10000)
"""


@pytest.fixture
def script(tmp_path):
    def write(text, name="train.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def launch(*words, ranks=2, timeout=60, command=("launch",), check=True, **more):
    """`weft launch -n RANKS WORDS`, which ends by itself within the timeout."""
    count = [] if ranks is None else ["-n", str(ranks)]
    done = subprocess.run(
        [sys.executable, "-m", "weft", *command, *count, *map(str, words)],
        capture_output=True, text=True, timeout=timeout, env=environment(**more),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def mpiexec(*words, ranks=2, timeout=60, options=(), **more):
    """The same by mpiexec itself."""
    start = [find_mpiexec(), *["--allow-run-as-root"] * (os.geteuid() == 0), "--oversubscribe"]
    return subprocess.run(
        [*start, *options, "-n", str(ranks), sys.executable, *map(str, words)],
        capture_output=True, text=True, timeout=timeout, env=environment(**more),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def outcomes(module, ranks):
    """What the checks of a module have found in all ranks: {check: error or None}."""
    done = launch(HERE / "checks.py", module, ranks=ranks, timeout=300)
    line = next(line for line in done.stdout.splitlines() if "FOUND" in line)
    return json.loads(line.partition("FOUND")[2])


def left(mark):
    """The processes whose command line has a word, once they have had time to end."""
    end = time.monotonic() + SOON
    while (found := processes(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def processes(mark):
    """Those of now."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
        except OSError:
            continue
        if str(mark).encode() in words:
            found.append(int(pid))
    return found
