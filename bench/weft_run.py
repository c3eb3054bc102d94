"""What a call of libweft costs beyond its kernels: a C program, functions of 0, 1, 10 and 20 ops.

The ops stand one behind the other, without a loop, whose turns would count as kernels. What each op
from the 10th to the 20th adds counts as the kernel of one: its arithmetic, and finding its operands
in the plan. All else is the call's: arguments in, plan found and begun, result out and freed. So a
call of n ops costs its own time less n such kernels; that of none, which copies its argument, all
of it. The least of 200 rounds, in each of which the functions take turns.
"""

import functools
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

import weft

ROOT = Path(__file__).parent.parent
WIDTH, COUNTS = 16, (0, 1, 10, 20)
OPS = {"add": "x + self.b", "linear": "self.layer{k}(x)"}


def source(kind, count):
    """A module of Python's with a Module of `count` sums, or products, one behind the other."""
    lines = ["import weft", "from weft import nn", "class Chain(nn.Module):"]
    lines += ["  def __init__(self):", "    super().__init__()"]
    lines += [f"    self.b = nn.Parameter(weft.randn({WIDTH}))"]
    for k in range(count if kind == "linear" else 0):
        lines += [f"    self.layer{k} = nn.Linear({WIDTH}, {WIDTH})"]
    lines += ["  def forward(self, x):"]
    lines += ["    x = " + OPS[kind].format(k=k) for k in range(count)]
    return "\n".join([*lines, "    return x", ""])


def saved(folder, kind, count):
    """The file of such a program."""
    written = folder / f"{kind}{count}.py"
    written.write_text(source(kind, count))
    chain = runpy.run_path(str(written))["Chain"]()
    weft.jit.save(weft.jit.script(chain), written.with_suffix(".weft"))
    return written.with_suffix(".weft")


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
        files = [saved(folder, kind, count) for count in COUNTS]
        lines = subprocess.check_output([made, str(WIDTH), *files], text=True).split()
        return dict(zip(COUNTS, (1e-9 * float(n) for n in lines), strict=True))


def beyond(kind, count):
    def value(name):
        found = seconds(kind) if name == "weft" else {}
        if not found:
            return None
        *_, few, many = COUNTS
        return found[count] - count * (found[many] - found[few]) / (many - few)

    return value


ROWS = [
    harness.Fact(f"weft_run, {count} x {kind}, {WIDTH} floats, beyond kernels",
                 beyond(kind, count), "s", limit=200e-9)
    for kind, count in [("add", 0), *((k, n) for k in OPS for n in (1, COUNTS[-1]))]
]  # fmt: skip

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
