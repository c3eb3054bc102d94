"""How long the import takes, in a fresh interpreter whose files the system has read before."""

import os
import statistics
import subprocess
import sys

import harness

RUNS = 7
PROGRAM = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def seconds(name):
    command = [sys.executable, "-c", PROGRAM.format(name.split(":")[0])]
    # pip compiles what it installs, PyTorch here too: the source tree may keep its bytecode as well
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times = [float(subprocess.check_output(command, env=environment)) for _ in range(RUNS + 1)]
    return statistics.median(times[1:])


ROWS = [harness.Fact("import", seconds, "s", limit=0.15)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
