"""How long a full build of the extension takes on all cores, without a compiler cache.

Takes minutes, so `make bench` leaves it out.
"""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import harness

ROOT = Path(__file__).parent.parent


def seconds(name):
    if name != "weft":
        return None
    environment = {**os.environ, "CCACHE_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        # SKBUILD_STATE: the extension stays in the build's folder, as for a wheel
        configure = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DSKBUILD_STATE=wheel",
                     "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_COMPILER_LAUNCHER="]  # fmt: skip
        start = time.perf_counter()
        subprocess.run(configure, check=True, env=environment, stdout=subprocess.DEVNULL)
        subprocess.run(["ninja", "-C", folder, "--quiet"], check=True, env=environment)
        return time.perf_counter() - start


if __name__ == "__main__":
    if hasattr(os, "sched_getaffinity"):
        harness.pin = lambda: os.sched_getaffinity(0)  # all cores
    harness.main([harness.Fact("full build", seconds, "s", limit=300)], __doc__)
