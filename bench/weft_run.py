"""What a call of libweft costs beyond its kernels: a C program, functions of 1, 20 and 40 ops.

What the ops from the 20th to the 40th add counts as their kernels; so the work for the call as a
whole, arguments in, plan found, result out and freed, is what is left of a call with 1 op or 20.
The least of 200 rounds, in each of which the functions take turns.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

import weft
from weft import nn

ROOT = Path(__file__).parent.parent
WIDTH, SHORT, LONG = 16, 20, 40


class Chain(nn.Module):
    """`count` products, or sums, one behind the other."""

    def __init__(self, kind, count):
        super().__init__()
        self.b = nn.Parameter(weft.randn(WIDTH))
        layers = [nn.Linear(WIDTH, WIDTH) for _ in range(count if kind == "linear" else 0)]
        self.layers, self.sums = nn.ModuleList(layers), count if kind == "add" else 0

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for _ in range(self.sums):
            x = x + self.b
        return x


def program(folder):
    """weft_run.c, linked with the libweft of `make build`; None without compiler or build."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    cmake, cc = shutil.which("cmake", path=tools), shutil.which("cc")
    build, made = ROOT / "build", folder / "weft_run"
    if not cmake or not cc or not (build / "build.ninja").exists():
        return None
    subprocess.run(
        [cmake, "--build", build, "--target", "weft_shared"],
        env={**os.environ, "PATH": tools}, check=True, capture_output=True,
    )  # fmt: skip
    source, library = ROOT / "bench/weft_run.c", build / "libweft.so"
    flags = ["-std=c99", "-O2", f"-I{ROOT / 'src'}", f"-Wl,-rpath,{build}"]
    subprocess.run([cc, *flags, source, "-o", made, library], check=True)
    return made


@functools.cache
def seconds(kind):
    """Of one call, by number of ops; none where there is no libweft."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = program(folder)
        if made is None:
            return {}
        counts, files = (1, SHORT, LONG), []
        for count in counts:
            files.append(folder / f"{count}.weft")
            weft.jit.save(weft.jit.script(Chain(kind, count)), files[-1])
        lines = subprocess.check_output([made, str(WIDTH), *files], text=True).split()
        return dict(zip(counts, (1e-9 * float(n) for n in lines), strict=True))


def beyond(kind, count):
    def value(name):
        found = seconds(kind) if name == "weft" else {}
        if not found:
            return None
        return found[count] - count * (found[LONG] - found[SHORT]) / (LONG - SHORT)

    return value


ROWS = [
    harness.Fact(f"weft_run, {count} x {kind}, {WIDTH} floats, beyond kernels",
                 beyond(kind, count), "s", limit=200e-9)
    for kind in ("add", "linear") for count in (1, SHORT)
]  # fmt: skip

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
