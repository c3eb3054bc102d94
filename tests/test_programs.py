"""Whole programs print the same text with `import weft as torch` as with PyTorch.

Each file of `programs/` is an ordinary PyTorch script. It runs twice, in a process where `torch` is
PyTorch and in one where it is weft, and what they print must agree to the letter.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))

# PyTorch takes seconds to import: once, and then one forked process for each program.
RUN_ALL_WITH_TORCH = """
import os, runpy, sys, torch
for program, printed in zip(sys.argv[1::2], sys.argv[2::2]):
    if os.fork() == 0:
        sys.stdout = open(printed, "w")
        runpy.run_path(program, run_name="__main__")
        sys.exit()
    assert os.wait()[1] == 0, program
"""

RUN_WITH_WEFT = """
import runpy, sys, weft
weft.install_as_torch()
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def run(launcher: str, *arguments: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", launcher, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def printed_by_torch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("printed")
    outputs = {program: folder / f"{program.stem}.txt" for program in PROGRAMS}
    run(RUN_ALL_WITH_TORCH, *(path for pair in outputs.items() for path in pair))
    return {program.stem: output.read_text() for program, output in outputs.items()}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_prints_what_pytorch_prints(program: Path, printed_by_torch: dict[str, str]) -> None:
    expected = printed_by_torch[program.stem]
    assert expected.strip(), f"{program.name} prints nothing"
    assert run(RUN_WITH_WEFT, program) == expected
