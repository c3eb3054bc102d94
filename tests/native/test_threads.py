"""Contexts in several threads; `make sanitize-libweft` runs this with what finds races."""

import subprocess
from pathlib import Path

from test_libweft import endless, fails, noise, saved, tree

import weft

WEIGHT = weft.randn(192, 192)


def product(x):
    for _ in range(3):
        x = weft.tanh(x @ WEIGHT / 192)
        x = weft.cat([x[:96], x[96:]], dim=0)
    return x


def test_threads_with_a_context_each(compiled, tmp_path):
    functions = [product, tree, fails, noise, endless]
    path = saved(tmp_path / "threads.weft", {f.__name__: f for f in functions})
    program = compiled(Path(__file__).parent / "threads.cpp")
    done = subprocess.run([program, path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stdout + done.stderr
