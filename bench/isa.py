"""Kernels at each instruction set: one process per WEFT_CPU, ns per element (docs/decisions/0002).

.venv/bin/python bench/isa.py
"""

import os
import subprocess
import sys
import time

LEVELS = ("baseline", "avx2", "avx512")
CASES = ("exp", "tanh", "add", "sum", "softmax", "layer_norm")
SIZE = 1 << 14  # 64 KB: in cache, so that arithmetic counts and not memory


def measure() -> dict[str, float]:
    """Best time per element of each case, in ns, at this process's level."""
    import weft

    weft.set_num_threads(1)
    x = weft.rand(SIZE).reshape(64, -1)
    calls = {
        "exp": lambda: weft.exp(x),
        "tanh": lambda: weft.tanh(x),
        "add": lambda: x + x,
        "sum": lambda: x.sum(1),
        "softmax": lambda: weft.softmax(x, 1),
        "layer_norm": lambda: weft.layer_norm(x, (x.shape[1],)),
    }
    found = {}
    for name in CASES:
        best = float("inf")
        for _ in range(300):
            start = time.perf_counter()
            for _ in range(5):
                calls[name]()
            best = min(best, (time.perf_counter() - start) / 5)
        found[name] = best / SIZE * 1e9
    return found


def main() -> None:
    """Prints a row per level."""
    print(f"{'ns per element':16}" + "".join(f"{name:>12}" for name in CASES))
    for level in LEVELS:
        run = subprocess.run(
            [sys.executable, __file__, "one"],
            env={**os.environ, "WEFT_CPU": level}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        print(f"{level:16}" + "".join(f"{float(v):12.3f}" for v in run.stdout.split()))


if __name__ == "__main__":
    if sys.argv[1:] == ["one"]:
        print(*measure().values())
    else:
        main()
